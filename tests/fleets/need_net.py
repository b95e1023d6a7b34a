"""Providers and nodes with needs in one process: a call is an ordinary await, and only a cut or a death fails it."""

from collections.abc import Callable

from holdfast.adapters.need_files.memory import MemoryNeedFiles
from holdfast.adapters.need_handler.memory import MemoryHandler
from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.agent.grants.keeper import Grants
from holdfast.errors import Unauthenticated, Unreachable
from holdfast.ports.agent_link import Callee
from holdfast.wiring.agent_parts import NeedPorts


class NeedNet:
    """`cuts` are pairs (caller, called) without a line between them; `dead` are nodes whose agent does not run."""

    def __init__(self) -> None:
        self.grants: dict[str, Callable[[], Grants | None]] = {}
        self.cuts: set[tuple[str, str]] = set()
        self.dead: set[str] = set()
        self.calls: list[tuple[str, str, str]] = []  # caller, called, path
        self.handler = MemoryHandler(SeededRandom("provider"))

    def ports(self, node: str, line: str, grants: Callable[[], Grants | None]) -> NeedPorts:
        self.grants[node] = grants
        return NeedPorts(NeedLine(self, node, line), MemoryNeedFiles(), lambda type: self.handler)


class NeedLine:
    """The link of one node. `line` is its key, by which others know it."""

    def __init__(self, net: NeedNet, node: str, line: str) -> None:
        self._net = net
        self._node = node
        self._line = line

    async def knock(self, callee: Callee) -> None:
        raise Unreachable(f"{callee.node} takes no knocks here", remedy="none")

    async def post(self, callee: Callee, path: str, body: bytes) -> bytes:
        self._net.calls.append((self._node, callee.node, path))
        called = self._net.grants.get(callee.node, lambda: None)()
        if called is None or callee.node in self._net.dead or (self._node, callee.node) in self._net.cuts:
            raise Unreachable(f"{callee.node} did not answer", remedy="start its agent")
        if called.node_of(self._line) != self._node:
            raise Unauthenticated("the request is refused", remedy="none", code="unknown_key")
        if path == "/v1/holdings":
            return await called.told(self._node, body)
        return await called.granted(self._node, path.rpartition("/")[2], body)


class Nothing:
    """What a node gives that provides nothing."""

    async def granted(self, node: str, type: str, body: bytes) -> bytes:
        raise AssertionError("no node may ask")

    async def told(self, node: str, body: bytes) -> bytes:
        raise AssertionError("no node may tell")


def alone() -> NeedPorts:
    """Of a node that has no needs and provides nothing."""
    return NeedNet().ports("", "", lambda: None)
