"""What the agent says of itself through its own interface comes from what it has, not from a constant (F-04)."""

import asyncio

import msgspec
import pytest

from holdfast.agent.local_api.api import Holding
from holdfast.agent.local_api.node import HOLDINGS_FACT, LocalAgent
from holdfast.errors import Corrupt
from tests.fleets.agents import Lone, PaperHub
from tests.fleets.virtual import VirtualLoop, run
from tests.scenarios.test_agent_orders import CANDIDATES


def test_holdings_are_what_the_journal_has() -> None:
    async def main(loop: VirtualLoop) -> None:
        lone = Lone(loop, PaperHub(*CANDIDATES))
        node = LocalAgent(await lone.turned(), lone.journal, lone.clock)
        assert node.holdings() == ()
        held = (Holding("db-1", "w2", "shop"), Holding("mail-7", "w3", "shop"))
        lone.journal.set_aside(HOLDINGS_FACT, msgspec.json.encode(held))
        assert node.holdings() == held
        assert LocalAgent(lone.start(), lone.journal, lone.clock).holdings() == held, "a restart forgot them"
        lone.journal.set_aside(HOLDINGS_FACT, b"[{")
        with pytest.raises(Corrupt) as told:
            node.holdings()
        assert told.value.remedy

    run(main)


def test_status_and_manifest_follow_what_is_accepted() -> None:
    """M-47, F-04"""

    async def main(loop: VirtualLoop) -> None:
        lone = Lone(loop, PaperHub(*CANDIDATES))
        agent = lone.start()
        node = LocalAgent(agent, lone.journal, lone.clock)
        assert node.manifest() is None and node.fleet() == "" and node.trust() is None
        await agent.turn()
        status = node.status()
        assert (status.node, status.health, status.accepted) == ("w1", "healthy", agent.accepting.seen)
        assert node.manifest() is not None and node.fleet() == agent.me.fleet and node.trust() is not None
        agent.findings.add("state_unwritable", "full", "free some")  # of a kind that no check-in clears
        await asyncio.sleep(3)
        assert node.status().health == "degraded" and node.status().uptime_s >= 3

    run(main)
