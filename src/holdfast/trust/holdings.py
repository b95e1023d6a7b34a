"""Sign and verify what a node says it holds. The only maker of `VerifiedHoldings`. Pure."""

from msgspec import Struct

from holdfast.errors import Corrupt
from holdfast.model import canonical
from holdfast.model.holdings import FORMAT, NAMESPACE, Holdings, SignedHoldings
from holdfast.ports.identity_key import IdentityKey
from holdfast.trust import own_signature


class VerifiedHoldings(Struct, frozen=True):
    """Proof that the node signed this for this provider."""

    said: Holdings


def sign(key: IdentityKey, said: Holdings) -> bytes:
    content = canonical.encode(said)
    return canonical.encode(SignedHoldings(content, own_signature.armoured(key, content, NAMESPACE)))


def verified(sent: bytes, fleet: str, node: str, provider: str, line: str) -> VerifiedHoldings:
    try:
        signed = canonical.decode(sent, SignedHoldings, "the statement")
        own_signature.verify(signed.statement, signed.signature, NAMESPACE, line)
        said = canonical.decode(signed.statement, Holdings, "the statement")
    except Corrupt as trouble:
        raise _refused(trouble.message) from trouble
    if (said.format, said.fleet, said.node, said.provider) != (FORMAT, fleet, node, provider):
        raise _refused("it is about another node, provider or fleet")
    return VerifiedHoldings(said)


def _refused(why: str) -> Corrupt:
    return Corrupt(
        f"a node's statement of what it holds is refused: {why}",
        remedy="`holdfast status` shows both nodes; if it stays, start the agent of that node again",
        code="holdings_forged",
    )
