"""Sign and verify what two nodes say to each other about a move. The only maker of `VerifiedPass` and `VerifiedReady`.
Pure."""

from typing import TypeVar

from msgspec import Struct

from holdfast.errors import Corrupt
from holdfast.model import canonical
from holdfast.model.move import FORMAT, NAMESPACE, Pass, Ready, SignedStatement
from holdfast.ports.identity_key import IdentityKey
from holdfast.trust import own_signature

T = TypeVar("T", Pass, Ready)


class VerifiedPass(Struct, frozen=True):
    """Proof that the source signed for this pass."""

    word: Pass


class VerifiedReady(Struct, frozen=True):
    """Proof that the target signed that it has this pass."""

    word: Ready


def sign(key: IdentityKey, statement: Pass | Ready) -> bytes:
    """The stored form."""
    content = canonical.encode(statement)
    return canonical.encode(SignedStatement(content, own_signature.armoured(key, content, NAMESPACE)))


def passed(stored: bytes, meant: Pass, line: str) -> VerifiedPass:
    """`meant`: fleet, service, epoch and nodes of the move that this node takes part in; `line`: the source's key."""
    word = _verified(stored, Pass, line)
    expected = (FORMAT, meant.fleet, meant.service, meant.epoch, meant.source, meant.target)
    if (word.format, word.fleet, word.service, word.epoch, word.source, word.target) != expected:
        raise _refused("it is about another move")
    return VerifiedPass(word)


def ready(stored: bytes, meant: Ready, line: str) -> VerifiedReady:
    word = _verified(stored, Ready, line)
    if (word.format, word.fleet, word.service, word.epoch, word.target) != (
        *(FORMAT, meant.fleet, meant.service, meant.epoch),
        meant.target,
    ):
        raise _refused("it is about another move")
    return VerifiedReady(word)


def _verified(stored: bytes, kind: type[T], line: str) -> T:
    try:
        signed = canonical.decode(stored, SignedStatement, "the statement")
        own_signature.verify(signed.statement, signed.signature, NAMESPACE, line)
        return canonical.decode(signed.statement, kind, "the statement")
    except Corrupt as trouble:
        raise _refused(trouble.message) from trouble


def _refused(why: str) -> Corrupt:
    return Corrupt(
        f"a node's word about a move is refused: {why}",
        remedy="`holdfast status` shows both nodes; if it stays, `holdfast migrate SVC --abort`",
        code="move_forged",
    )
