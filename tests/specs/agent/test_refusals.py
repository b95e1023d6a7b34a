"""Refusals at an agent: each told, none of them able to fill a disk or a memory (V-44, I-38)."""

import asyncio

import msgspec

from holdfast.adapters.audit_log.memory import MemoryAuditLog
from holdfast.adapters.clock.loop import LoopClock
from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.agent.link.audit_folding import KINDS_MAX, LINES_PER_MINUTE, AuditFolding
from holdfast.agent.link.order_results import HUB, UNSENT_MAX, OrderResults
from holdfast.model.audit import AuditEntry, Event
from holdfast.model.checkin import RESULTS_MAX
from holdfast.model.order import OrderResult
from holdfast.model.report import PULSE_RESULTS_MAX
from tests.fleets.build import START_S
from tests.fleets.virtual import VirtualLoop, run


def test_a_flood_is_counted_and_told_a_minute_later() -> None:
    async def scene(loop: VirtualLoop) -> None:
        clock = LoopClock(loop, START_S)
        audit = MemoryAuditLog(clock)
        refusals = AuditFolding(audit, clock)
        own = [refusals.note(Event("hub", f"act{n % 300}", f"data.{n}", "refused", "why", f"{n}")) for n in range(1000)]
        assert own.count(True) == LINES_PER_MINUTE == audit.head().number and all(own[:LINES_PER_MINUTE])
        assert len(refusals.folded) <= KINDS_MAX + 1
        await asyncio.sleep(60)
        refusals.turn()
        events = [msgspec.json.decode(line, type=AuditEntry).event for line in audit.lines(0, 10_000)]
        assert sum(event.count for event in events) == 1000 and not refusals.folded
        assert refusals.note(Event("hub", "purge", "data.x", "refused"))

    run(scene)


def result(id: str, outcome: str = "done") -> OrderResult:
    return OrderResult(id, 1, outcome)  # type: ignore[arg-type]


def test_results_are_kept_within_bounds_and_sent_under_the_ids_they_came_with() -> None:
    answers = OrderResults(MemoryJournal())
    for n in range(2 * UNSENT_MAX):
        answers.keep(result(f"{HUB}{n}"), 1)
    assert len(answers.unsent) == UNSENT_MAX and len(answers.waiting()) == RESULTS_MAX
    assert answers.waiting()[0].id == "0"
    answers.keep(result(f"{HUB}7", "failed"), 9)  # what is kept may still be brought up to date
    assert answers.unsent[f"{HUB}7"].attempt == 9
    answers.taken(["0", "7", "unknown"])
    assert len(answers.unsent) == UNSENT_MAX - 2


def test_a_pulse_tells_the_newest_and_what_was_done_before_what_was_refused() -> None:
    answers = OrderResults(MemoryJournal())
    for n in range(100):
        answers.proven(result(f"ran{n}"))
        answers.proven(result(f"refused{n}", "refused"))
        answers.proven(result(f"{HUB}{n}"))
    told = answers.told()
    assert len(told) == PULSE_RESULTS_MAX and told["ran99"] == "done" and told["refused99"] == "refused"
    assert "ran0" not in told and not any(id.startswith(HUB) for id in told)
    answers.proven(result("refused99", "failed"))
    assert answers.told()["refused99"] == "failed"
    for n in range(200, 300):
        answers.proven(result(f"ran{n}"))
    assert "refused99" not in answers.told()  # forgotten, and not remembered as something else
