"""A pulse can be ahead of its report: a move is not judged by what has not come yet."""

from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.cli.waiting import moves as waiting
from holdfast.cli.waiting.awaiter import Limits, Reports
from holdfast.cli.waiting.services import Services
from holdfast.model.move_report import MoveState, MoveStates
from holdfast.model.node_view import NodeView
from holdfast.model.report import Pulse, Report
from holdfast.model.verified_report import VerifiedReport
from holdfast.status.moves import MoveAwaited, is_lost
from holdfast.status.services.settled import ServiceAwaited

MOVE = MoveAwaited("notes", 3, "w2", "w1")


class Poll:
    """One report for each look; the last one stays. A rest takes a second."""

    def __init__(self, *later: VerifiedReport) -> None:
        self.later = list(later)
        self.passed_s = 0.0

    def monotonic_s(self) -> float:
        return self.passed_s

    def rest(self, at_most_s: float) -> None:
        self.passed_s += min(1.0, at_most_s)

    def look(self) -> dict[str, VerifiedReport]:
        return {"w1": self.later.pop(0) if len(self.later) > 1 else self.later[0]}


def report(*states: MoveState, status: str = "healthy", is_here: bool = True) -> VerifiedReport:
    """`is_here`: the hub has the report that the pulse names."""
    view = NodeView("w1", ("worker",), status, joined=True, report=msgspec.json.encode(MoveStates(states)))
    pulse = cast("Pulse", object())
    return VerifiedReport(view, pulse=pulse, report=cast("Any", object()) if is_here else None)


def state(**more: Any) -> MoveState:
    return MoveState("notes", 3, "target", "w2", **more)


def told(first: VerifiedReport, *later: VerifiedReport) -> tuple[str, str, float]:
    poll = Poll(*(later or (first,)))
    seen, heard = waiting.told(MOVE, {"w1": first}, cast("Any", poll), cast("Any", poll))
    assert heard["w1"] in (first, *later)
    return seen.phase, seen.doing, poll.passed_s


def test_a_report_that_is_on_its_way_is_waited_for() -> None:
    missing = report(state(arrived=True), is_here=False)
    assert told(missing, missing, report(state(arrived=True)))[::2] == ("arrived", 2.0)


@pytest.mark.parametrize(
    "one", [state(arrived=True), state(step="receive"), state(trouble="no room")], ids=["arrived", "under way", "stuck"]
)
def test_what_a_report_says_is_taken_at_once(one: MoveState) -> None:
    assert told(report(one))[2] == 0


def test_a_silent_target_is_not_waited_for() -> None:
    assert told(report(is_here=False, status="unhealthy"))[::2] == ("unknown", 0)


def test_a_report_that_never_comes_is_named() -> None:
    assert told(report(is_here=False)) == ("unknown", "w1 has not reported about it yet", waiting.REPORT_S)


def test_data_that_the_target_took_and_does_not_have_is_lost() -> None:
    """Only both reports together say so: one of them may be of a move that is under way."""

    def lost(out: MoveState | None, into: MoveState | None) -> bool:
        nodes = {"w2": report(*([out] if out else [])), "w1": report(*([into] if into else []))}
        return is_lost(MOVE, nodes)

    taken = MoveState("notes", 3, "source", "w1", handed_over=True)
    awaiting = state(step="receive")
    assert lost(taken, awaiting)
    assert not lost(replace(taken, handed_over=False, step="copy"), awaiting)
    assert not lost(replace(taken, step="hand over"), awaiting), "it may be on its way"
    assert not lost(taken, state(arrived=True))
    assert not lost(taken, None) and not lost(None, awaiting)


def test_the_first_service_of_a_node_is_waited_for_although_its_data_takes_long() -> None:
    """The node reports no container runtime before: the command ended when the data had arrived, without the start."""
    clock = Poll(report())
    reports = Reports(None, frozenset(), cast("Any", clock))
    services = Services([ServiceAwaited("notes", "w1", "d1")], reports)
    nothing = Report("f" * 64, "w1", "0")
    reports.heard = {"w1": replace(report(), report=nothing, key="k")}
    for arrived_s in (None, None, 20.0, 20.0):
        reports.arrived_s = {"notes": arrived_s}
        services.judge()
        clock.passed_s += 10.0
        assert services.under_way() == {"notes"}
    reports.heard = {"w1": replace(report(), report=replace(nothing, runtime="podman 4.3.1"), key="k")}
    services.judge()
    assert services.under_way() == {"notes"}


def test_trouble_that_comes_back_with_each_attempt_ends_the_command_and_trouble_that_is_over_does_not() -> None:
    """A node that tries again shows no trouble meanwhile: of a full disk the command never told."""
    limits = Limits(300.0, 60.0, 60.0)
    stuck, trying = state(step="receive", trouble="no room"), state(step="receive")

    def ends_after_s(*turns: tuple[float, MoveState]) -> float:
        clock = Poll(report())
        reports = Reports(None, frozenset(), cast("Any", clock))
        moves = waiting.Moves([MOVE], reports)
        while clock.passed_s < 200:
            turn = clock.passed_s % sum(for_s for for_s, _ in turns)
            now = next(one for n, (_, one) in enumerate(turns) if turn < sum(for_s for for_s, _ in turns[: n + 1]))
            reports.heard = {"w1": report(now)}
            moves.judge()
            if min(moves.ends_s(limits, ())) <= clock.passed_s:
                return clock.passed_s
            clock.passed_s += 1.0
        return clock.passed_s

    assert ends_after_s((10.0, stuck), (3.0, trying)) == waiting.TROUBLED_S
    assert ends_after_s((5.0, stuck), (50.0, trying)) == 55.0
    assert ends_after_s((5.0, stuck), (waiting.AGAIN_S + 5.0, trying)) == 200.0
