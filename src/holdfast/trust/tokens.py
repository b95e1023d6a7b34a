"""Make and verify tokens: random bytes, stored as a hash, compared in constant time. Pure."""

import binascii
import re
from hashlib import sha256
from hmac import compare_digest

from holdfast.errors import Unauthenticated
from holdfast.model.principal import Principal
from holdfast.model.token import StoredToken

ID_BYTES, SECRET_BYTES = 8, 32
PREFIX = "hf_"
TEXT_CHARS = len(PREFIX) + 2 * ID_BYTES + 1 + 43
_TEXT = re.compile(rf"{PREFIX}([0-9a-f]{{{2 * ID_BYTES}}})_[A-Za-z0-9_-]{{43}}")


def mint(random: bytes) -> tuple[str, str]:
    """The id and the whole text, from ID_BYTES + SECRET_BYTES of randomness."""
    if len(random) != ID_BYTES + SECRET_BYTES:
        raise ValueError(f"a token is made of {ID_BYTES + SECRET_BYTES} random bytes")
    token_id = random[:ID_BYTES].hex()
    encoded = binascii.b2a_base64(random[ID_BYTES:], newline=False).decode("ascii")
    return token_id, f"{PREFIX}{token_id}_{encoded.rstrip('=').translate(str.maketrans('+/', '-_'))}"


def id_of(text: str) -> str:
    """Which token this claims to be."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise refused("it is not a holdfast token")
    return found[1]


def bearer(header: str) -> str:
    """The text in an `Authorization` header."""
    scheme, _, text = header[: 32 + TEXT_CHARS].partition(" ")
    if scheme.lower() != "bearer":
        raise refused("the Authorization header is not Bearer")
    return text


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def check(stored: StoredToken | None, text: str, now_s: float) -> Principal:
    """The holder of this token. Only a caller with the whole text learns why it is refused."""
    known = stored.hash if stored is not None else "0" * 64
    if not compare_digest(known, digest(text)) or stored is None:
        raise refused("it does not exist")
    if stored.revoked_s:
        raise refused(f"token {stored.id} was revoked", "token_revoked")
    if now_s >= stored.expires_s:
        raise refused(f"token {stored.id} has expired", "token_expired")
    return Principal("viewer", stored.name, stored.id)


def refused(why: str, code: str = "token_refused") -> Unauthenticated:
    return Unauthenticated(
        f"the token is refused: {why}", remedy="ask an operator for a new one: holdfast token create", code=code
    )
