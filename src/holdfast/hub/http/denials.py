"""Write every refusal into the audit log; beyond a number, equal ones are folded into one line.

The event loop never waits for a disk or for the log: what cannot be written is counted, and the count is written later.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.model.audit import Event

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.ports.audit_log import AuditLog

log = logging.getLogger("holdfast.hub")

WINDOW_S = 60.0
LINES_PER_SOURCE = 100  # in a window
SOURCES_MAX = 1_000  # counted one by one in a window; the rest are "others"
KINDS_MAX = 500  # of folded lines per source
WAITING_MAX = 2_000  # lines on their way to the disk
OTHERS = "others"


class Window:
    """What was refused in the current minute. Pure: `note` gives what to write now, `end` what was folded."""

    def __init__(self) -> None:
        self._written: dict[str, int] = {}
        self._folded: dict[str, dict[Event, int]] = {}

    def note(self, event: Event) -> Event | None:
        source = event.source
        if source not in self._written and len(self._written) >= SOURCES_MAX:
            source = OTHERS
        if self._written.get(source, 0) < LINES_PER_SOURCE:
            self._written[source] = self._written.get(source, 0) + 1
            return event
        folded = self._folded.setdefault(source, {})
        alike = replace(event, source=source, target="")  # the caller chooses the target freely, so it is left out
        if alike not in folded and len(folded) >= KINDS_MAX:
            alike = Event("several", "several", result="denied", source=source)
        folded[alike] = folded.get(alike, 0) + 1
        return None

    def end(self) -> list[Event]:
        found = [replace(event, count=count) for alike in self._folded.values() for event, count in alike.items()]
        self._written.clear()
        self._folded.clear()
        return found


class Denials:
    """For one event loop. One thread writes, in the order in which things happened."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit
        self._window = Window()
        self._timer: asyncio.TimerHandle | None = None
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="hub-audit")
        self._waiting = 0
        self._lost = 0

    def record(self, event: Event) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WINDOW_S, self._turn)
        now = self._window.note(event)
        if now is not None:
            self._write(now)

    async def close(self) -> None:
        """Everything that was refused is in the log when this returns."""
        await self._written()  # so that there is room for what was folded, and for how much was lost
        self._turn()
        await self._written()
        self._writer.shutdown(wait=True)

    async def _written(self) -> None:
        """Returns when everything submitted so far is written and counted."""
        await asyncio.get_running_loop().run_in_executor(self._writer, _nothing)
        while self._waiting:
            await asyncio.sleep(0)

    def _turn(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for event in self._window.end():
            self._write(event)
        if self._lost:
            lost, self._lost = self._lost, 0
            self._write(Event("several", "several", result="denied", detail="not written one by one", count=lost))

    def _write(self, event: Event) -> None:
        if self._waiting >= WAITING_MAX:
            self._lost += event.count
            return
        self._waiting += 1
        done = self._done
        loop = asyncio.get_running_loop()
        self._writer.submit(self._append, event, lambda: loop.call_soon_threadsafe(done))

    def _append(self, event: Event, done: Callable[[], object]) -> None:
        try:
            self._audit.append(event, durable=False)
        except Exception:
            log.exception("a refusal could not be written into the audit log: %s", event)
        finally:
            done()

    def _done(self) -> None:
        self._waiting -= 1


def _nothing() -> None:
    """Runs after everything that was submitted before it."""
