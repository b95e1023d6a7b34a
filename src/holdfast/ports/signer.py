"""What we ask of whoever holds an operator's key: who are you, and sign this. Knows no kind of key."""

from typing import Protocol

from holdfast.model.ssh_key import PublicKey


class Signer(Protocol):
    @property
    def public_key(self) -> PublicKey:
        """Identify the key. Never asks a person for anything."""
        ...

    def sign(self, message: bytes, namespace: str) -> str:
        """Answer an armoured SSHSIG over the message. May ask a person for a passphrase, a PIN or a touch."""
        ...
