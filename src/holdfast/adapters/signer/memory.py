"""A signer with a key made from a seed, for tests and simulation. Signatures are deterministic."""

from holdfast.errors import Invalid
from holdfast.model import ssh_key
from holdfast.model.ssh_key import PublicKey
from holdfast.trust import sshsig

_TYPE = "ssh-ed25519"


class MemorySigner:
    def __init__(self, seed: bytes, comment: str = "") -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        if len(seed) != 32:
            raise Invalid(f"a key seed has 32 bytes, not {len(seed)}", remedy="give exactly 32 bytes")
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        blob = ssh_key.pack(_TYPE.encode(), self._private.public_key().public_bytes_raw())
        self.public_key = PublicKey(_TYPE, blob, comment)

    def sign(self, message: bytes, namespace: str) -> str:
        signature = self._private.sign(sshsig.signed_data(message, namespace))
        return sshsig.armour(self.public_key, namespace, ssh_key.pack(_TYPE.encode(), signature), "sha512")
