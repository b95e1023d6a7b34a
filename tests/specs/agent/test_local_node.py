"""What the agent says of itself through its own interface comes from what it has, not from a constant (F-04)."""

import asyncio

from holdfast.agent.local_api.api import Holding
from holdfast.agent.local_api.node import LocalAgent
from tests.fleets.agents import Lone, PaperHub
from tests.fleets.virtual import VirtualLoop, run
from tests.scenarios.test_agent_orders import CANDIDATES


def test_holdings_are_those_of_the_needs() -> None:
    async def main(loop: VirtualLoop) -> None:
        lone = Lone(loop, PaperHub(*CANDIDATES))
        held = (Holding("sha256:1", "w2", "shop"), Holding("sha256:2", "w3", "shop"))
        node = LocalAgent(await lone.turned(), lambda: held, lambda line: "w2" if line == "key" else "", lone.clock)
        assert node.holdings() == held and (node.node_of("key"), node.node_of("other")) == ("w2", "")

    run(main)


def test_status_and_manifest_follow_what_is_accepted() -> None:
    """M-47, F-04"""

    async def main(loop: VirtualLoop) -> None:
        lone = Lone(loop, PaperHub(*CANDIDATES))
        agent = lone.start()
        node = LocalAgent(agent, lambda: (), lambda line: "", lone.clock)
        assert node.manifest() is None and node.fleet() == "" and node.trust() is None
        await agent.turn()
        status = node.status()
        assert (status.node, status.health, status.accepted) == ("w1", "healthy", agent.accepting.seen)
        assert node.manifest() is not None and node.fleet() == agent.me.fleet and node.trust() is not None
        agent.findings.add("state_unwritable", "full", "free some")  # of a kind that no check-in clears
        await asyncio.sleep(3)
        assert node.status().health == "degraded" and node.status().uptime_s >= 3

    run(main)
