"""M-74: after the start of a hub there is a view of the whole fleet within 5 s, of nodes with `link = "poll"` too."""

import asyncio
from collections import Counter

import pytest

from tests.fleets.counts import SOAK
from tests.fleets.simulation import Simulation
from tests.fleets.virtual import VirtualLoop, run
from tests.fleets.weather import CALM

NODES = 200 if SOAK else 25
VIEW_S = 5.0


@pytest.mark.parametrize("outage_s", [2.0, 47.0, 600.0])
def test_a_hub_that_starts_sees_every_node_within_five_seconds_m74(outage_s: float) -> None:
    """And the nodes do not come all at once."""

    async def main(loop: VirtualLoop) -> None:
        fleet = Simulation(loop, 7, NODES, CALM)
        await fleet.join_all(cheap=True)
        fleet.start_hub()
        for name in fleet.names:
            fleet.start_agent(name)
        await asyncio.sleep(120)
        assert statuses(fleet) == {"healthy"}
        fleet.kill_hub()
        await asyncio.sleep(outage_s)
        came: list[float] = []
        for machine in fleet.machines.values():
            _note(machine.link, came, loop)
        fleet.start_hub()
        began_s = loop.time()
        while statuses(fleet) != {"healthy"}:
            assert loop.time() - began_s <= VIEW_S, statuses(fleet)
            await asyncio.sleep(0.1)
        if outage_s > 100:
            busiest = Counter(int((at_s - began_s) * 10) for at_s in came).most_common(1)[0][1]
            assert busiest <= 0.4 * NODES, "spread, not all in one tenth of a second"
        await asyncio.sleep(10)
        assert fleet.rig.desk.nodes().ready
        for task in (*fleet.tasks.values(), fleet.hub_task):
            assert task is not None
            task.cancel()

    run(main)


def statuses(fleet: Simulation) -> set[str]:
    return {view.status for view in fleet.rig.desk.nodes().nodes}


def _note(link: object, came: list[float], loop: VirtualLoop) -> None:
    inner = link.check_in  # type: ignore[attr-defined]

    async def check_in(message: object) -> object:
        came.append(loop.time())
        return await inner(message)

    link.check_in = check_in  # type: ignore[attr-defined]
