"""Answers the local interface from the running agent; nothing here changes it but a knock."""

from collections.abc import Callable

from holdfast import __version__
from holdfast.agent.agent import Agent
from holdfast.agent.local_api.api import Holding, NodeStatus
from holdfast.model.trust import Trust
from holdfast.ports.clock import Clock


class LocalAgent:
    """`held` answers the handles in use here; `node_of` the node whose key it is, if it has to do with this one."""

    def __init__(
        self,
        agent: Agent,
        held: Callable[[], tuple[Holding, ...]],
        node_of: Callable[[str], str],
        clock: Clock,
    ) -> None:
        self._agent = agent
        self.holdings = held
        self.node_of = node_of
        self._clock = clock
        self._began_s = clock.monotonic_s()

    def status(self) -> NodeStatus:
        agent = self._agent
        trouble = bool(agent.findings.all() or agent.accepting.parked)
        return NodeStatus(
            agent.me.node,
            __version__,
            "degraded" if trouble else "healthy",
            agent.state,
            self._clock.monotonic_s() - self._began_s,
            agent.time.now_s(),
            agent.accepting.seen,
            agent.accepting.in_force_digest,
        )

    def manifest(self) -> bytes | None:
        newest = self._agent.accepting.newest
        return newest.in_force or None if newest is not None else None

    def knock(self) -> None:
        self._agent.knock()

    def hub_key(self) -> str:
        return self._agent.me.hub_key

    def fleet(self) -> str:
        return self._agent.me.fleet if self._agent.accepting.newest is not None else ""

    def trust(self) -> Trust | None:
        return self._agent.accepting.trust
