"""An operator's key: its public key, and a signature over a message. Knows no kind of key."""

from typing import Protocol

from holdfast.model.ssh_key import PublicKey


class Signer(Protocol):
    @property
    def public_key(self) -> PublicKey:
        """Identify the key. Never prompts."""
        ...

    def sign(self, message: bytes, namespace: str) -> str:
        """An armoured SSHSIG over the message. May prompt for a passphrase, a PIN or a touch."""
        ...
