"""The schedules in a report that is too long: lines first, then schedules."""

from msgspec.structs import replace

from holdfast.agent.link.report_limits import STAGES, fitted
from holdfast.agent.schedules.keeper import FEW, LINES_FEW, SchedulesReport
from holdfast.model.checkin import REPORT_BYTES_MAX
from holdfast.model.schedule import RunResult, ScheduleState


def reported(count: int) -> SchedulesReport:
    last = RunResult(1.0, 1.0, 1.0, "done", 0, lines=tuple(f"{n}\x00" + "ü" * 199 for n in range(20)))
    states = [ScheduleState("web", f"job-{n}", "* * * * *", last=last) for n in range(count - 1)]
    return SchedulesReport((*states, ScheduleState("web", "new", "* * * * *")))


def test_the_stages_leave_out_lines_then_schedules() -> None:
    left = reported(FEW + 10)
    lines, kept = [], []
    for stage in STAGES:
        left = left.shorter(stage)
        kept.append(len(left.schedules))
        lines.append(max((len(one.last.lines) for one in left.schedules if one.last is not None), default=0))
        assert all(one.last is not None or one.name == "new" for one in left.schedules)
    whole = FEW + 10
    assert lines == [20, LINES_FEW, 0, 0, 0, 0, 0] and kept == [whole, whole, whole, whole, whole, FEW, 0]


def test_the_last_lines_are_those_that_stay() -> None:
    first = reported(2).shorter("few_steps").schedules[0].last
    assert first is not None and [line.split("\x00")[0] for line in first.lines] == ["17", "18", "19"]


def test_results_of_runs_by_order_are_shortened_too() -> None:
    (state,) = reported(2).schedules[:1]
    assert state.last is not None
    whole = SchedulesReport((replace(state, ordered=(state.last,)),))
    assert whole.shorter("certificates") == whole
    assert [len(one.lines) for one in whole.shorter("few_steps").schedules[0].ordered] == [LINES_FEW]
    assert whole.shorter("few").schedules[0].ordered == ()


def test_any_number_of_schedules_fits() -> None:
    for count in (10, 64, 640, 6400):
        assert len(fitted((reported(count),))) <= REPORT_BYTES_MAX
