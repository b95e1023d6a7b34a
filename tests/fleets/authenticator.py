"""A security key in software: it signs as a FIDO authenticator does, and as one that lies would. Nothing is random."""

from hashlib import sha256
from typing import Literal

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from holdfast.model import ssh_key
from holdfast.model.fleet import Grade, Operator
from holdfast.model.ssh_key import PublicKey, pack, pack_integer
from holdfast.trust import sshsig

TOUCHED = 0x01


class Authenticator:
    """`application`: what its public key names; `asked_by`: the application that the signature is really made for."""

    def __init__(
        self,
        name: str,
        kind: Literal["ed25519", "ecdsa"] = "ed25519",
        application: bytes = b"ssh:",
        flags: int = TOUCHED,
        asked_by: bytes | None = None,
    ) -> None:
        seed = sha256(f"security key {name}".encode()).digest()
        self._flags, self._asked_by, self._counter = flags, application if asked_by is None else asked_by, 0
        self._ed25519 = Ed25519PrivateKey.from_private_bytes(seed)
        self._ecdsa = ec.derive_private_key(int.from_bytes(seed[:31], "big"), ec.SECP256R1())
        self._is_ed25519 = kind == "ed25519"
        if self._is_ed25519:
            self._type = "sk-ssh-ed25519@openssh.com"
            point = (self._ed25519.public_key().public_bytes_raw(),)
        else:
            self._type = "sk-ecdsa-sha2-nistp256@openssh.com"
            raw = self._ecdsa.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
            point = (b"nistp256", raw)  # type: ignore[assignment]
        self.public_key = PublicKey(self._type, pack(self._type.encode(), *point, application), name)

    def sign(self, message: bytes, namespace: str) -> str:
        self._counter += 1
        tail = bytes([self._flags]) + self._counter.to_bytes(4, "big")
        data = sha256(sshsig.signed_data(message, namespace)).digest()
        said = sha256(self._asked_by).digest() + tail + data
        raw = self._ed25519.sign(said) if self._is_ed25519 else self._pair(said)
        return sshsig.armour(self.public_key, namespace, pack(self._type.encode(), raw) + tail)

    def _pair(self, said: bytes) -> bytes:
        r, s = utils.decode_dss_signature(self._ecdsa.sign(said, ec.ECDSA(hashes.SHA256())))
        return pack(pack_integer(r), pack_integer(s))

    def operator(self, grade: Grade, scope: tuple[str, ...] = ()) -> Operator:
        return Operator(self.public_key.comment, ssh_key.line(self.public_key), grade, scope=scope)
