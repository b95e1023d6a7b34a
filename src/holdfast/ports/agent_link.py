"""A hub's line to a node that lets itself be called (`link = "dial"`). Bounded; nothing is said to a stranger."""

from typing import Protocol

from msgspec import Struct

from holdfast.errors import Unreachable


class WrongNode(Unreachable):
    """Somebody answered who is not proven to be the node; nothing was said to him."""

    code = "wrong_node"
    exit_code = 7


class Callee(Struct, frozen=True):
    """A node as the applied revision pins it: whoever answers at its address proves to be exactly this one."""

    node: str
    address: str  # as model.agent_place reads it
    key: str  # its public line: the request is worth something at this node alone
    issuer: bytes  # DER of the pinned issuing certificate
    name: str  # that its listener's certificate is made for
    fleet: str


class AgentLink(Protocol):
    async def knock(self, callee: Callee) -> None:
        """The node lives, has heard it and checks in now. Raises WrongNode if somebody else answers there."""
        ...
