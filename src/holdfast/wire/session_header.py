"""A session certificate in an HTTP header: base64 of its JSON, in one form, bounded. Pure; proves nothing."""

import binascii

from holdfast.errors import Invalid, Unauthenticated
from holdfast.model.session import SessionCertificate
from holdfast.wire import codec

HEADER = "Holdfast-Session"
CHARS_MAX = 8000


def write(certificate: SessionCertificate) -> str:
    text = binascii.b2a_base64(codec.write(certificate), newline=False).decode("ascii")
    if len(text) > CHARS_MAX:
        raise Invalid(
            "the key of this operator is too long for a session",
            remedy="use an ed25519 key, or RSA of at most 4096 bits: ssh-keygen -t ed25519",
            code="key_too_long",
        )
    return text


def read(text: str) -> SessionCertificate:
    try:
        if len(text) > CHARS_MAX:
            raise ValueError("it is too long")
        content = binascii.a2b_base64(text, strict_mode=True)
        certificate = codec.read(content, SessionCertificate)
    except ValueError:
        raise _refused() from None
    except Invalid:
        raise _refused() from None
    if write(certificate) != text:
        raise _refused()
    return certificate


def _refused() -> Unauthenticated:
    return Unauthenticated(
        f"the request is refused: {HEADER} does not have the form that Holdfast writes",
        remedy="send it with Holdfast of the same release",
        code="session_refused",
    )
