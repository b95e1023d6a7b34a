"""Fresh age identities (X25519), and the public recipient of one."""

from hashlib import sha256

from holdfast.errors import Invalid
from holdfast.ports.archive_keys import KeyPair
from holdfast.ports.random_source import RandomSource

_ALPHABET = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"


class AgeIdentities:
    def fresh(self) -> KeyPair:
        import pyrage

        identity = pyrage.x25519.Identity.generate()
        return KeyPair(str(identity), str(identity.to_public()))

    def recipient_of(self, identity: str) -> str:
        import pyrage

        try:
            return str(pyrage.x25519.Identity.from_str(identity).to_public())
        except (pyrage.IdentityError, ValueError):
            raise _wrong() from None


class MemoryIdentities:
    """For tests and simulation: of the same form, without a curve."""

    def __init__(self, random: RandomSource) -> None:
        self._random = random

    def fresh(self) -> KeyPair:
        identity = "AGE-SECRET-KEY-1" + "".join(_ALPHABET[byte % 32] for byte in self._random.token(58))
        return KeyPair(identity, self.recipient_of(identity))

    def recipient_of(self, identity: str) -> str:
        if not identity.startswith("AGE-SECRET-KEY-1") or len(identity) != 74:
            raise _wrong()
        digest = sha256(identity.encode()).digest()
        return "age1" + "".join(_ALPHABET[byte % 32] for byte in digest + digest)[:58].lower()


def _wrong() -> Invalid:
    return Invalid(
        "this is not an age identity",
        remedy="give AGE-SECRET-KEY-1…, as age-keygen makes it",
        code="identity_damaged",
    )
