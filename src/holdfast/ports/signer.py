"""An operator's key: its public key, and a signature over a message. Knows no kind of key."""

from typing import Protocol

from holdfast.errors import NotPermitted
from holdfast.model.ssh_key import PublicKey, fingerprint


class Signer(Protocol):
    @property
    def public_key(self) -> PublicKey:
        """Identify the key. Never prompts."""
        ...

    def sign(self, message: bytes, namespace: str) -> str:
        """An armoured SSHSIG over the message. May prompt for a passphrase, a PIN or a touch."""
        ...


class UnknownSigner(NotPermitted):
    code = "unknown_signer"

    def __init__(self, key: PublicKey, remedy: str = "") -> None:
        super().__init__(
            f"your key {fingerprint(key)} belongs to no operator of this fleet",
            remedy=remedy
            or "sign with an operator's key (--key FILE), or ask an operator of grade root to add it to fleet.toml",
        )
