"""Answers the local interface from the running agent; nothing here changes it but a knock."""

import msgspec

from holdfast import __version__
from holdfast.agent.agent import Agent
from holdfast.agent.local_api.api import Holding, NodeStatus
from holdfast.errors import Corrupt
from holdfast.model.trust import Trust
from holdfast.ports.clock import Clock
from holdfast.ports.journal import Journal

HOLDINGS_FACT = "holdings"  # in the journal: written when a handle is taken into use or given back

_holdings = msgspec.json.Decoder(tuple[Holding, ...])


class LocalAgent:
    def __init__(self, agent: Agent, journal: Journal, clock: Clock) -> None:
        self._agent = agent
        self._journal = journal
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

    def holdings(self) -> tuple[Holding, ...]:
        """Handles in use here (F-04), as the journal has them."""
        try:
            return _holdings.decode(self._journal.fact(HOLDINGS_FACT) or b"[]")
        except (msgspec.DecodeError, UnicodeDecodeError) as trouble:
            raise Corrupt(
                f"what this node holds cannot be read from its journal: {trouble}",
                remedy="restore agent.db from a backup of this machine: holdfast agent check",
                code="agent_state_damaged",
            ) from trouble

    def knock(self) -> None:
        self._agent.knock()

    def hub_key(self) -> str:
        return self._agent.me.hub_key

    def fleet(self) -> str:
        return self._agent.me.fleet if self._agent.accepting.newest is not None else ""

    def trust(self) -> Trust | None:
        return self._agent.accepting.trust
