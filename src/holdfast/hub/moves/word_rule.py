"""Which words about a move a hub stores: those that the calling node signed itself."""

from holdfast.errors import Corrupt, Invalid
from holdfast.model import canonical
from holdfast.model.backup_key import BackupKey
from holdfast.model.move import NAMESPACE, WORD_BYTES_MAX, SignedStatement
from holdfast.model.principal import Principal
from holdfast.trust import own_signature


def check(key: BackupKey, content: bytes | bytearray, node: Principal) -> None:
    if len(content) > WORD_BYTES_MAX:
        raise Invalid(
            f"{key.text} is longer than {WORD_BYTES_MAX:,} bytes",
            remedy="a word about a move has no data in it",
            code="body_too_large",
        )
    try:
        signed = canonical.decode(bytes(content), SignedStatement, "the statement")
        own_signature.verify(signed.statement, signed.signature, NAMESPACE, node.key)
    except Corrupt as trouble:
        raise Invalid(
            f"{node} did not sign {key.text}: {trouble.message}",
            remedy="a node stores only what it says itself",
            code="move_forged",
        ) from trouble
