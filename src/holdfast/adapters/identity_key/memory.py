"""A machine key made from a seed, for tests and simulation. The same seed gives the same key."""

from holdfast.errors import Invalid
from holdfast.model import ssh_key
from holdfast.model.ssh_key import PublicKey

_TYPE = "ssh-ed25519"


class MemoryIdentityKey:
    def __init__(self, seed: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        if len(seed) != 32:
            raise Invalid(f"a key seed has 32 bytes, not {len(seed)}", remedy="give exactly 32 bytes")
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        blob = ssh_key.pack(_TYPE.encode(), self._private.public_key().public_bytes_raw())
        self.line = ssh_key.line(PublicKey(_TYPE, blob))

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)
