"""How long a node has been silent, told by a hub that was not there when it spoke last; how long a probe may take."""

import asyncio

from msgspec.structs import replace

from holdfast.model.cadence import FAST
from holdfast.model.fleet import Timeouts
from tests.fleets.build import small_fleet
from tests.fleets.desks import Rig
from tests.fleets.virtual import VirtualLoop, run


def silence(rig: Rig) -> str:
    return next(f.message for f in rig.desk.status_findings() if f.code == "node_unhealthy")


def age_s(rig: Rig, name: str) -> float | None:
    return next(view.age_s for view in rig.desk.nodes().nodes if view.name == name)


def test_a_restarted_hub_counts_silence_from_the_last_signed_word() -> None:
    """M-75: neither from its own start nor from the moment somebody noticed; never heard at all stays unknown."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        watching = asyncio.create_task(rig.desk.run())
        report = w1.a_report(address="100.64.0.1")
        await w1.beat(report)
        await asyncio.sleep(60)
        await w1.beat(report)  # nothing new in it, so nothing was written for it
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await asyncio.sleep(1_000)
        rig = rig.restarted()
        watching = asyncio.create_task(rig.desk.run())
        assert age_s(rig, "w1") == 1_000.0 and age_s(rig, "w2") is None
        await asyncio.sleep(200)
        assert silence(rig) == "w1: no contact for 1200 s"
        assert age_s(rig, "w1") == 1_200.0
        watching.cancel()

    run(main)


def test_a_hub_that_was_killed_left_what_it_knew_of_a_silent_node() -> None:
    """It is written when the node is found silent, not only when the hub stops in peace."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        killed = asyncio.create_task(rig.desk.run())
        report = w1.a_report(address="100.64.0.1")
        await w1.beat(report)
        await asyncio.sleep(60)
        await w1.beat(report)
        await asyncio.sleep(300)
        rig = rig.restarted()
        assert silence(rig) == "w1: no contact for 300 s"
        killed.cancel()

    run(main)


def test_a_probe_takes_as_long_as_the_applied_revision_says() -> None:
    """M-64: [timeouts] health_check at the normal pace, from the commit on; a lab's pace is its own."""

    async def main(loop: VirtualLoop) -> None:
        slow = replace(small_fleet(nodes=("w1",)), timeouts=Timeouts(health_check="20s"))
        rig = Rig(loop, slow)
        (w1,) = await rig.joined("w1")
        assert (await w1.follows()).cadence.probe_s == 20.0
        rig.commit(replace(slow, timeouts=Timeouts(health_check="10s")))
        assert (await w1.follows()).cadence.probe_s == 10.0
        rig.commit(replace(slow, timeouts=Timeouts(health_check="7d")))
        assert (await w1.follows()).cadence.probe_s == 60.0
        assert Rig(loop, slow, pace=FAST).registry.cadence.probe_s == FAST.probe_s

    run(main)
