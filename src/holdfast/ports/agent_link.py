"""Calls to a node that accepts them: by the hub (`link = "dial"`), and by nodes whose services need something of it.
Bounded; sends nothing to an unproven peer."""

from typing import Protocol

from msgspec import Struct

from holdfast.errors import Unreachable


class WrongNode(Unreachable):
    """The peer did not prove to be the node. Nothing was sent to it."""

    code = "wrong_node"
    exit_code = 7


class Callee(Struct, frozen=True):
    """A node as the applied revision pins it; the peer at its address must prove to be exactly this node."""

    node: str
    address: str  # as model.agent_address reads it
    key: str  # its public line: only this node accepts the request
    issuer: bytes  # DER of the pinned issuing certificate
    name: str  # that its listener's certificate is made for
    fleet: str


class AgentLink(Protocol):
    async def knock(self, callee: Callee) -> None:
        """On return the node has received the call and checks in. Raises WrongNode if another peer answers there."""
        ...

    async def post(self, callee: Callee, path: str, body: bytes) -> bytes:
        """The body of its answer; raises what it refused with."""
        ...
