"""An SSHSIG by a key of a node, a hub or a session. Pure; any ssh-keygen can verify it."""

from holdfast.errors import Corrupt
from holdfast.model import ssh_key
from holdfast.ports.identity_key import IdentityKey
from holdfast.trust import sshsig

TYPE = "ssh-ed25519"


def armoured(key: IdentityKey, message: bytes, namespace: str) -> str:
    raw = key.sign(sshsig.signed_data(message, namespace))
    return sshsig.armour(ssh_key.parse(key.line), namespace, ssh_key.pack(TYPE.encode(), raw))


def verify(message: bytes, armoured_text: str, namespace: str, line: str) -> None:
    """Prove that the key of this line signed this message for this namespace, or raise Corrupt."""
    key = ssh_key.parse(line)
    if key.type != TYPE:
        raise Corrupt(
            f"the signature is refused: a machine's key is {TYPE}, not {key.type}",
            remedy="let the machine create its own key: holdfast agent join TOKEN",
            code="signature_invalid",
        )
    sshsig.verify(message, armoured_text, namespace, key)
