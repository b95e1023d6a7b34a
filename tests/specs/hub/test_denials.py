"""Every refusal is in the audit log, and whoever floods gets a count instead of lines (S02, D13)."""

import asyncio

import msgspec
from msgspec.structs import replace

from holdfast.adapters.audit_log.memory import MemoryAuditLog
from holdfast.adapters.clock.virtual import VirtualClock
from holdfast.errors import Failed
from holdfast.hub.http.denials import (
    KINDS_MAX,
    LINES_PER_SOURCE,
    OTHERS,
    SOURCES_MAX,
    Denials,
    Window,
)
from holdfast.model.audit import AuditEntry, Event

DENIED = Event("viewer:ci", "commit", "POST /v1/revisions", "denied", "permission_denied", "192.0.2.1")


def test_a_hundred_a_minute_are_lines_and_the_rest_is_one() -> None:
    window = Window()
    written = [window.note(DENIED) for _ in range(1_000)]
    assert written == [DENIED] * LINES_PER_SOURCE + [None] * 900
    assert window.end() == [replace(DENIED, target="", count=900)]
    assert window.end() == []
    assert window.note(DENIED) == DENIED, "the next minute begins anew"


def test_sources_do_not_silence_each_other() -> None:
    window = Window()
    for _ in range(500):
        window.note(DENIED)
    other = replace(DENIED, source="192.0.2.2")
    assert window.note(other) == other


def test_unlike_refusals_of_a_flood_are_told_apart_up_to_a_number() -> None:
    window = Window()
    for number in range(LINES_PER_SOURCE + 1_000):
        window.note(replace(DENIED, principal=f"viewer:{number % 700}", target=f"GET /{number}"))
    folded = window.end()
    assert len(folded) == KINDS_MAX + 1
    assert sum(event.count for event in folded) == 1_000


def test_memory_is_bounded_however_many_addresses_flood() -> None:
    window = Window()
    lines = sum(window.note(replace(DENIED, source=str(n))) is not None for n in range(SOURCES_MAX + 5_000))
    folded = window.end()
    assert lines == SOURCES_MAX + LINES_PER_SOURCE
    assert {event.source for event in folded} == {OTHERS}
    assert lines + sum(event.count for event in folded) == SOURCES_MAX + 5_000


def counted(log: MemoryAuditLog) -> int:
    return sum(msgspec.json.decode(line, type=AuditEntry).event.count for line in log.lines(0, 100_000))


def test_every_single_one_is_in_the_log_when_it_is_closed() -> None:
    log = MemoryAuditLog(VirtualClock(0.0))

    async def flood() -> None:
        denials = Denials(log)
        for number in range(5_000):
            denials.record(replace(DENIED, source=f"192.0.2.{number % 40}"))
        await denials.close()

    asyncio.run(flood())
    assert counted(log) == 5_000
    assert len(log.lines(0, 100_000)) <= 40 * (LINES_PER_SOURCE + 1)
    log.verify()


def test_a_log_that_cannot_be_written_stops_nobody() -> None:
    class Full(MemoryAuditLog):
        def append(self, event: Event, durable: bool = True) -> AuditEntry:
            raise Failed("the disk is full", remedy="make room")

    async def refuse() -> None:
        denials = Denials(Full(VirtualClock(0.0)))
        denials.record(DENIED)
        await denials.close()

    asyncio.run(refuse())
