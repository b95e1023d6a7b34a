"""A session: a short-lived key that an operator's key certified. It cannot sign orders or revisions."""

from msgspec import Struct

from holdfast.model import canonical
from holdfast.model.revision import Count

NAMESPACE = "holdfast-session"
SESSION_S_MAX = 12 * 3600


class SessionGrant(Struct, frozen=True, forbid_unknown_fields=True):
    """What the operator signs. `fleet` is "" only before the first revision."""

    fleet: str
    operator: str  # public line of the operator's key
    session: str  # public line of the session's key
    not_before_s: Count
    expires_s: Count


class SessionCertificate(Struct, frozen=True):
    grant: bytes  # canonical SessionGrant
    signature: str  # armoured SSHSIG in NAMESPACE


def decode_grant(content: bytes) -> SessionGrant:
    return canonical.decode(content, SessionGrant, "the session")
