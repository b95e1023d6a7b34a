"""M-76: the hub's log has one event for each finding that begins and one for each that ends."""

import asyncio
import json
import os

import pytest

from holdfast.adapters.clock.loop import LoopClock
from holdfast.hub import finding_log
from holdfast.hub.finding_log import EACH_S, EVENTS_MAX, GAP_S, LOOK_S, FindingLog
from holdfast.hub.hub_time import HubTime
from holdfast.model.hub_status import StatusFinding
from holdfast.model.report import ContainerState
from holdfast.wiring.events import stderr_event
from tests.fleets.desks import Rig
from tests.fleets.public import Beating, carries, joins_as_edge, public_fleet, public_service
from tests.fleets.virtual import VirtualLoop, run


def finding(
    code: str, address: str = "node.w1", message: str = "why", remedy: str = "holdfast status"
) -> StatusFinding:
    return StatusFinding(code, "warning", message, remedy, address)


class Log:
    def __init__(self) -> None:
        self.found: list[StatusFinding] = []
        self.said: list[tuple[str, dict[str, object]]] = []
        self.asked = 0
        clock = LoopClock(asyncio.new_event_loop(), 1_700_000_000.0)
        self.log = FindingLog(self._findings, lambda event, fields: self.said.append((event, fields)), HubTime(clock))
        self.loop_s = 0.0

    def _findings(self) -> list[StatusFinding]:
        self.asked += 1
        return self.found

    def look(self) -> list[tuple[str, object, object]]:
        """The events of one more look."""
        self.loop_s += LOOK_S
        begun = len(self.said)
        assert self.log.due(self.loop_s) == self.loop_s + LOOK_S
        return [(event, fields["code"], fields["address"]) for event, fields in self.said[begun:]]


def test_each_finding_is_written_when_it_begins_and_when_it_ends_m76() -> None:
    log = Log()
    log.found = [finding("orphan", "service.web"), finding("node_unhealthy", message="no contact for 90 s")]
    assert log.look() == [("finding", "orphan", "service.web"), ("finding", "node_unhealthy", "node.w1")]
    assert set(log.said[0][1]) == {"at_s", "code", "level", "address", "message", "remedy"}
    log.found = [finding("node_unhealthy", message="no contact for 95 s")]
    assert log.look() == [("finding_gone", "orphan", "service.web")]
    assert set(log.said[-1][1]) == {"at_s", "code", "level", "address", "message"}
    assert log.look() == []
    log.found = []
    assert log.look() == [("finding_gone", "node_unhealthy", "node.w1")]


def test_two_nodes_may_have_the_same_finding_about_one_service() -> None:
    log = Log()
    log.found = [finding("orphan", "service.web", "on w1"), finding("orphan", "service.web", "on w2")]
    assert len(log.look()) == 2 and [fields["message"] for _, fields in log.said] == ["on w1", "on w2"]
    log.found.pop()
    assert log.look() == [("finding_gone", "orphan", "service.web")]


def test_many_findings_are_written_in_several_looks_and_none_is_lost() -> None:
    log = Log()
    some = int(EACH_S * LOOK_S)
    log.found = [finding("orphan", f"service.s{number}") for number in range(EVENTS_MAX + some + 7)]
    assert [len(log.look()) for _ in range(4)] == [EVENTS_MAX, some, 7, 0]
    log.found = []
    for _ in range(100):
        log.look()
    assert len(log.said) == 2 * (EVENTS_MAX + some + 7)


def test_findings_that_come_and_go_all_the_time_fill_no_disk() -> None:
    log = Log()
    many = [finding("orphan", f"service.s{number}") for number in range(100)]
    for _ in range(1_000):
        log.found = [] if log.found else many
        log.look()
    assert len(log.said) <= EVENTS_MAX + EACH_S * LOOK_S * 1_000


def test_what_the_log_remembers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding_log, "OPEN_MAX", 7)
    log = Log()
    log.found = [finding("orphan", f"service.s{number}") for number in range(50)]
    assert [len(log.look()) for _ in range(3)] == [7, 0, 0]


def test_it_looks_when_something_happened_and_no_more_often_than_it_must() -> None:
    log = Log()
    log.look()
    for _ in range(10):
        assert log.log.due(log.loop_s + GAP_S / 2) == log.loop_s + GAP_S
    assert log.asked == 1
    log.log.due(log.loop_s + GAP_S)
    assert log.asked == 2


def test_words_of_a_node_cannot_look_like_another_line(capfd: pytest.CaptureFixture[str]) -> None:
    log = Log()
    forged = 'x\n{"event":"finding_gone","code":"orphan"}\x1b[2J\u2028' + "y" * 10_000
    log.found = [finding("orphan", forged, forged, forged)]
    log.look()
    stderr_event(*log.said[0])
    (line,) = capfd.readouterr().err.splitlines()
    whole = json.loads(line)
    assert whole["event"] == "finding" and len(line) < 2_000
    assert all(character.isprintable() for text in whole.values() for character in str(text))
    assert os.linesep not in line


def test_the_kinds_of_m76_are_in_the_log_of_a_hub() -> None:
    """An unhealthy node, a stale placement, an orphan, a missing edge route; after the warm-up, and their ends."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop, public_fleet(web=public_service(), blog=public_service(public=False, node="w1")))
        w1, e1 = Beating(rig, "w1"), Beating(rig, "e1")
        await w1.join()
        await joins_as_edge(e1)
        running = asyncio.create_task(rig.desk.run())
        stray = ContainerState("stray", "main", "running", id="c9")
        w1.report["containers"] = (stray,)
        for node in (w1, e1):
            node.start()
        await asyncio.sleep(120)
        assert {("placement_stale", "service.blog"), ("orphan", "service.stray")} <= events(rig, "finding")
        assert ("edge_route_missing", "service.web") in events(rig, "finding")
        e1.die()
        await asyncio.sleep(120)
        assert ("node_unhealthy", "node.e1") in events(rig, "finding")
        e1.report["edge"], w1.report["containers"] = (carries(rig),), ()
        e1.start()
        await asyncio.sleep(30)
        gone = events(rig, "finding_gone")
        assert {("node_unhealthy", "node.e1"), ("edge_route_missing", "service.web")} <= gone
        assert {("placement_stale", "service.blog"), ("orphan", "service.stray")} <= gone
        assert sorted(event for event, fields in rig.logged if fields["code"] == "orphan") == [
            "finding",
            "finding_gone",
        ]
        running.cancel()
        for node in (w1, e1):
            node.die()
        rig = rig.restarted()
        running = asyncio.create_task(rig.desk.run())
        await asyncio.sleep(60)
        assert rig.logged == [], "not before what nodes say is known"
        await asyncio.sleep(60)
        assert ("node_unhealthy", "node.w1") in events(rig, "finding")
        running.cancel()

    run(main)


def events(rig: Rig, name: str) -> set[tuple[object, object]]:
    return {(fields["code"], fields["address"]) for event, fields in rig.logged if event == name}


def test_a_quiet_day_does_not_save_up_room_for_more_events_at_once() -> None:
    log = Log()
    log.look()
    log.loop_s += 86_400.0
    log.found = [finding("orphan", f"service.s{number}") for number in range(2 * EVENTS_MAX)]
    assert len(log.look()) == EVENTS_MAX
