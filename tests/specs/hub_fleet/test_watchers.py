"""The watcher seam: each watcher learns the events of its tuples; hints and findings reach nodes and clients."""

import asyncio
from collections.abc import Iterable

from holdfast.hub.hub_time import HubTime
from holdfast.hub.nodes.member import Member
from holdfast.hub.watched_fleet import WatchedFleet
from holdfast.hub.watcher import Hints
from holdfast.model.applied import Applied
from holdfast.model.hub_status import StatusFinding
from tests.fleets.build import next_candidate, small_fleet
from tests.fleets.desks import Rig
from tests.fleets.virtual import VirtualLoop, run


class Recorder:
    """A watcher that writes down what it learns."""

    def __init__(self, name: str, again_s: float | None = None, pulses: str = "") -> None:
        self.name, self.again_s, self.pulses = name, again_s, pulses
        self.learnt: list[str] = []

    def committed(self, before: Applied | None, after: Applied) -> None:
        self.learnt.append(f"{before.head.number if before else 0} to {after.head.number}")

    def reported(self, member: Member) -> None:
        self.learnt.append(f"{member.name} reported")

    def follows_pulses(self, node: str) -> bool:
        return node == self.pulses

    def health_changed(self, member: Member) -> None:
        self.learnt.append(f"{member.name} is {member.condition.status}")

    def due(self, loop_s: float) -> float | None:
        self.learnt.append("due")
        return self.again_s

    def hints(self, node: str) -> Hints:
        return {self.name: (node,)}

    def findings(self, now_s: float) -> Iterable[StatusFinding]:
        return (StatusFinding(f"{self.name}_found", "warning", "text", "remedy"),)


def watched(rig: Rig, *watchers: Recorder) -> WatchedFleet:
    return WatchedFleet(
        registry=rig.registry,
        commits=watchers,
        reports=watchers,
        hints=watchers,
        findings=watchers,
        time=HubTime(rig.clock),
        wake=asyncio.Event(),
    )


def test_each_watcher_learns_every_event_in_order() -> None:
    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        one, two = Recorder("one", 7.0), Recorder("two", 5.0)
        fleet = watched(rig, one, two)
        member = rig.registry.members["w1"]
        rig.hub.commit(next_candidate(small_fleet({"web": 2}, ("w1", "w2", "e1")), rig.hub.applied()))
        assert fleet.applied() is rig.hub.applied()
        fleet.reported(member)
        fleet.health_changed(member)
        assert fleet.due(0.0) == 5.0
        assert one.learnt == two.learnt == ["1 to 2", "w1 reported", "w1 is unknown", "due"]
        assert fleet.applied() is rig.hub.applied() and len(one.learnt) == 4, "a revision is committed once"

    run(main)


def test_hints_and_findings_of_all_watchers_are_merged() -> None:
    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        fleet = watched(rig, Recorder("released"), Recorder("withdrawn", pulses="w1"))
        assert fleet.hints("w1") == {"released": ("w1",), "withdrawn": ("w1",)}
        assert [found.code for found in fleet.findings()] == ["released_found", "withdrawn_found"]
        assert fleet.follows_pulses("w1") and not fleet.follows_pulses("w2")
        assert fleet.due(0.0) is None

    run(main)


def test_without_watchers_there_is_nothing_due_and_no_hint() -> None:
    async def main(loop: VirtualLoop) -> None:
        fleet = watched(Rig(loop))
        assert fleet.due(0.0) is None and fleet.hints("w1") == {} and fleet.findings() == []

    run(main)
