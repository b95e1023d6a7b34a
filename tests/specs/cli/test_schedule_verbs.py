"""`holdfast schedule list` and `schedule logs`: what a node signed about its schedules, and nothing else."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.cli.nodes import fleet_view
from holdfast.cli.orders import order_and_wait
from holdfast.cli.orders.order_results import Ended, Given
from holdfast.cli.schedules import schedule_run
from holdfast.cli.schedules.schedule_view import ScheduleView
from holdfast.model.fleet import Fleet
from holdfast.model.schedule import RunResult, Schedule, ScheduleState, ScheduleStates
from tests.fleets.build import small_fleet
from tests.fleets.commands import Scene, scene
from tests.specs.hub_fleet.test_verbs import at_once

NIGHTLY = Schedule("nightly", "web", "30 3 * * *", ("backup",), "Europe/Oslo")


def fleet() -> Fleet:
    found = small_fleet(nodes=("w1", "w2"))
    return replace(found, services={"web": replace(found.services["web"], schedule=(NIGHTLY,))})


def reports(one: Scene, *states: ScheduleState, **raw: Any) -> None:
    """The report of w1 with its section about schedules, signed as a whole."""
    document = msgspec.json.decode(one.w1.a_report(services=(one.state("converged"),), runtime="memory 1"))
    section = raw or msgspec.to_builtins(ScheduleStates(states))
    one.w1.seen = one.rig.head
    at_once(one.w1.beat(msgspec.json.encode({**document, **section})))


def ran(one: Scene, **changed: Any) -> ScheduleState:
    now_s = one.clock.now_s()
    last = RunResult(now_s - 60, now_s - 60, 2.5, "failed", 3, 2, "ended with exit code 3", ("\x1b[31mno space",))
    state = ScheduleState("web", "nightly", "30 3 * * *", "Europe/Oslo", next_s=now_s + 60, last=last)
    return replace(state, **changed)


def test_the_list_shows_what_the_node_signed(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        reports(one, ran(one, missed=2, skipped=1, queued=1, running_s=one.clock.now_s(), attempt=2))
        (row,) = one.operator.shows("schedule", "list")["schedules"]
        assert {"service", "name", "next", "last"} <= row.keys(), "the contract's"
        assert (row["service"], row["name"], row["node"], row["verified"]) == ("web", "nightly", "w1", True)
        assert row["last"]["exit_code"] == 3 and row["last"]["duration_s"] == 2.5 and row["last"]["started"]
        assert (row["missed"], row["skipped"], row["queued"]) == (2, 1, 1) and row["running"] and row["next"]
        shown = one.operator.does("schedule", "list", "web")
        assert "30 3 * * * Europe/Oslo" in shown and "failed 60 s ago" in shown
        assert "runs (attempt 2), 1 waiting, 2 missed, 1 skipped" in shown

    scene(tmp_path, story, fleet())


def test_a_node_that_reports_nothing_or_nonsense_proves_nothing(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        nonsense: tuple[Any, ...] = ([], 5, [{"service": 1}])
        for found in nonsense:
            reports(one, schedules=found)
            (row,) = one.operator.shows("schedule", "list")["schedules"]
            assert row["last"] is None and row["next"] is None and row["verified"] is False
            assert "w1 does not report it" in one.operator.does("schedule", "list")
            one.operator.does("schedule", "logs", "web", "nightly", "--json", code=5)
            assert one.operator.complaint["code"] == "no_run_yet"

    scene(tmp_path, story, fleet())


def test_the_lines_of_a_run_cannot_move_the_cursor(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        reports(one, ran(one))
        assert one.operator.does("schedule", "logs", "web", "nightly") == "\\x1b[31mno space\n"
        assert one.operator.shows("schedule", "logs", "web", "nightly")["lines"] == ["\x1b[31mno space"]

    scene(tmp_path, story, fleet())


def test_a_wrong_name_gets_the_nearest_one(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        for words, remedy in (
            (("list", "wep"), "did you mean web?"),
            (("logs", "wep", "nightly"), "did you mean web?"),
            (("logs", "web", "nightli"), "did you mean nightly?"),
            (("logs", "web", "hourly"), "schedules of web are: nightly"),
        ):
            one.operator.does("schedule", *words, "--json", code=2)
            assert remedy in one.operator.complaint["remedy"], one.operator.complaint

    scene(tmp_path, story, fleet())


def test_an_old_report_is_shown_as_such(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        reports(one, ran(one))
        one.clock.passed_s += 3600
        (row,) = one.operator.shows("schedule", "list")["schedules"]
        assert row["last"]["exit_code"] == 3 and row["verified"] is False
        assert "unverified: the report of w1 is old" in one.operator.does("schedule", "list")

    scene(tmp_path, story, fleet())


def test_numbers_that_no_clock_has_break_no_list(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        last = RunResult(-1e300, 1e300, 1e300, "failed", 10**12, 10**9, "\x1b[2Jcleared", ("",))
        reports(one, ran(one, next_s=1e300, running_s=1e300, idle="\x1b[2Jidle", last=last))
        shown = one.operator.does("schedule", "list")
        assert "\x1b" not in shown and "\\x1b[2Jidle" in shown
        one.operator.does("schedule", "logs", "web", "nightly")
        (row,) = one.operator.shows("schedule", "list")["schedules"]
        assert row["next"] == "9999-12-31T23:59:59Z"

    scene(tmp_path, story, fleet())


def test_the_end_of_another_run_is_not_the_end_of_the_ordered_one() -> None:
    other = RunResult(1.0, 1.0, 1.0, "done", 0)
    mine = replace(other, order="o-1")

    def found(last: RunResult | None, *ordered: RunResult) -> RunResult | None:
        state = ScheduleState("web", "nightly", "@daily", last=last, ordered=ordered)
        section = SimpleNamespace(section=lambda kind: ScheduleStates((state,)))
        poll: Any = SimpleNamespace(look=lambda: {"w1": section})
        return schedule_run._last(poll, ScheduleView("web", NIGHTLY, "w1", None, False), "o-1")

    assert found(None) is None and found(other) is None and found(mine) == mine
    assert found(other, mine) == mine, "another run has ended since"


@pytest.mark.parametrize(
    ("state", "code", "verified", "signed"),
    [
        ("refused", "other_life", True, 2),
        ("refused", "other_life", False, 1),  # only the hub says so: it may have begun
        ("failed", "interrupted", True, 1),
        ("failed", "other_life", True, 1),
        ("refused", "replayed", True, 1),
    ],
)
def test_an_order_that_never_began_is_signed_again_once(
    state: str, code: str, verified: bool, signed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[Given] = []

    def ordered(*given: Any) -> list[Given]:
        orders.append(Given("w1", f"o-{len(orders)}"))
        return orders[-1:]

    def ended(given: list[Given], *more: Any) -> list[Ended]:
        result: Any = SimpleNamespace(code=code, message="the agent has restarted", remedy="")
        view: Any = SimpleNamespace(state=state, result=result)
        return [Ended(given[0], view, verified)]

    monkeypatch.setattr(order_and_wait, "look", fleet_view.look)
    monkeypatch.setattr(order_and_wait, "ordered", ordered)
    monkeypatch.setattr(order_and_wait, "ended", ended)

    async def story(one: Scene) -> None:
        reports(one, ran(one))
        one.operator.does("schedule", "run", "web", "nightly", code=1)
        assert len(orders) == signed
        assert ("it is signed again, once" in one.operator.err.getvalue()) == (signed == 2)

    scene(tmp_path, story, fleet())


def test_the_run_of_an_order_that_was_signed_again_is_the_one_that_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[Given] = []

    def ordered(*given: Any) -> list[Given]:
        orders.append(Given("w1", f"o-{len(orders)}"))
        return orders[-1:]

    def ended(given: list[Given], *more: Any) -> list[Ended]:
        is_first = given[0].id == "o-0"
        result: Any = SimpleNamespace(code="other_life" if is_first else "", message="", remedy="")
        view: Any = SimpleNamespace(state="refused" if is_first else "done", result=result)
        return [Ended(given[0], view, True)]

    monkeypatch.setattr(order_and_wait, "look", fleet_view.look)
    monkeypatch.setattr(order_and_wait, "ordered", ordered)
    monkeypatch.setattr(order_and_wait, "ended", ended)

    async def story(one: Scene) -> None:
        now_s = one.clock.now_s()
        results = [RunResult(now_s - 60, now_s - 60, 2.5, "done", 0, lines=(f"{n}",), order=f"o-{n}") for n in range(2)]
        reports(one, ran(one, last=results[0], ordered=(results[1],)))
        assert one.operator.shows("schedule", "run", "web", "nightly")["lines"] == ["1"]

    scene(tmp_path, story, fleet())
