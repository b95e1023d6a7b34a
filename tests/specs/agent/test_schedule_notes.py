"""Findings about schedules: what they say, and when they are over."""

from holdfast.agent.findings import Findings
from holdfast.agent.schedules.notes import Notes
from holdfast.errors import Failed
from holdfast.model.schedule import RunResult
from holdfast.reconcile.schedule import Book

KEY = ("web", "nightly")
AT_S = 1_700_000_100.0  # 2023-11-14 22:15 UTC


def noted(book: Book) -> dict[str, tuple[str, str]]:
    findings = Findings(lambda: 7.0)
    Notes(findings).of(KEY, book)
    assert {one.address for one in findings.all()} <= {"schedule.web.nightly"}
    return {one.code: (one.message, one.remedy) for one in findings.all()}


def test_a_failed_run_is_named_by_its_minute_its_end_and_its_last_line() -> None:
    lines = ("copying", "no space left")
    last = RunResult(AT_S, AT_S + 60, 1.0, "failed", 3, 1, "ended with exit code 3", lines)
    text = "the run nightly of web at 2023-11-14 22:15 UTC ended with exit code 3"
    remedy = "holdfast schedule logs web nightly"
    said = noted(Book(AT_S, "@daily", "UTC", last=last))
    assert said == {"schedule_failed": (f"{text}; it wrote: no space left", remedy)}
    silent = RunResult(AT_S, AT_S + 60, 1.0, "failed", 3, 1, "ended with exit code 3")
    assert noted(Book(AT_S, "@daily", "UTC", last=silent)) == {"schedule_failed": (text, remedy)}
    assert noted(Book(AT_S, "@daily", "UTC", last=RunResult(AT_S, AT_S, 1.0, "done", 0))) == {}


def test_missed_runs_are_counted_and_the_newest_one_is_named() -> None:
    for missed, runs in ((1, "1 run was missed"), (2, "2 runs were missed")):
        found = noted(Book(AT_S + 3600, "@daily", "UTC", missed=missed, missed_s=AT_S))
        message, remedy = found["schedule_missed"]
        assert message.startswith(f"nightly of web: {runs}, the last one at 2023-11-14 22:15 UTC:")
        assert remedy == "holdfast schedule run web nightly"


def test_a_run_that_is_waited_for_says_until_when_and_only_so_long() -> None:
    findings = Findings(lambda: 7.0)
    notes = Notes(findings)
    notes.awaited(KEY, True, AT_S)
    (found,) = findings.all()
    assert found.code == "run_awaited"
    assert found.message == "a change of web waits for the run nightly, which ends by 2023-11-14 22:15 UTC"
    notes.awaited(KEY, False, AT_S)
    assert findings.all() == ()


def test_nothing_is_left_of_a_schedule_that_is_forgotten_and_nothing_of_others_is_lost() -> None:
    findings = Findings(lambda: 7.0)
    notes = Notes(findings)
    failed = RunResult(AT_S, AT_S, 1.0, "failed", 1, 1, "failed")
    for key in (KEY, ("web", "hourly")):
        notes.of(key, Book(AT_S, "@daily", "UTC", last=failed, missed=1, missed_s=AT_S))
        notes.waits(key, Failed("the disk is full", remedy="free space", code="no_space"))
        notes.awaited(key, True, AT_S)
    assert len(findings.all()) == 8
    notes.forget(KEY)
    assert {one.address for one in findings.all()} == {"schedule.web.hourly"} and len(findings.all()) == 4
