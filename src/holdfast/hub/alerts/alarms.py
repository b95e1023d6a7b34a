"""Deliver alerts to their targets: store, hold back in quiet hours, send, retry for an hour. Shows a finding for each
that is not delivered.

The caller does not wait for the delivery (H-38).
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.hub import settings
from holdfast.hub.alerts.line import Line, Outgoing
from holdfast.hub.ledger.writes import noted
from holdfast.ledger import keys
from holdfast.model.alert import Alert
from holdfast.model.applied import Applied, content
from holdfast.model.fleet import AlertTarget
from holdfast.model.hub_status import StatusFinding
from holdfast.ports.calendar import Calendar
from holdfast.ports.clock import Clock
from holdfast.ports.ledger_store import LedgerStore, Transaction
from holdfast.ports.notifier import MakeNotifier, Notifier
from holdfast.status import quiet_hours

log = logging.getLogger("holdfast.alarms")

QUEUE_MAX = 1_000
RETRY_S_FIRST = 1.0
RETRY_S_MAX = 60.0
TRIED_S_MAX = 3600.0
DELIVERED = "that an alert was delivered"


class Alarms:
    """Watches commits, so that its targets follow the applied revision. `always`: targets of this hub process itself,
    from --alert-command."""

    def __init__(
        self,
        store: LedgerStore,
        clock: Clock,
        make: MakeNotifier | None,
        always: Sequence[Notifier] = (),
        calendar: Calendar | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._make = make
        self._calendar = calendar
        self._lines: dict[str, Line] = {f"process.{notifier.name}": Line(notifier) for notifier in always}
        self._targets: dict[str, str] = {}  # address → digest of the target a line was made from, and the overlay
        self._left: dict[str, list[str]] = {}  # id → names of lines that still have it

    def committed(self, before: Applied | None, after: Applied) -> None:
        """Targets come from the applied revision; one that stays keeps its queue. Those of nodes are sealed to them."""
        overlay, targets = settings.overlay(after), after.table.of_kind("alert")
        found = {f"alert.{name}": f"{e.digest} {overlay}" for name, e in targets.items() if not e.applies_to}
        for address in [address for address in self._targets if address not in found]:
            self._drop(address)
            del self._targets[address]
        for address, made_from in found.items():
            if self._targets.get(address) != made_from and self._make is not None:
                self._renew(address, made_from, after)

    def _drop(self, address: str) -> None:
        """What waits only for this target is done."""
        line = self._lines.pop(address, None)
        _end(line)
        for outgoing in line.queue if line is not None else ():
            self._done(address, outgoing)

    def _renew(self, address: str, made_from: str, applied: Applied) -> None:
        digest, _, overlay = made_from.partition(" ")
        try:
            target = msgspec.json.decode(content(applied.contents, digest, address), type=AlertTarget)
            assert self._make is not None
            before = self._lines.get(address)
            queue = before.queue if before is not None else ()
            line = Line(self._make(target, overlay), target.on, queue, quiet_hours.of(target), self._calendar)
        except (HoldfastError, msgspec.DecodeError) as trouble:
            log.warning("%s cannot be used: %s", address, trouble)
            return
        _end(self._lines.pop(address, None))
        self._lines[address], self._targets[address] = line, made_from
        self._start(address, line)

    # ---- sending

    def begin(self, applied: Applied | None) -> None:
        """Send what an earlier hub process could not deliver."""
        if applied is not None:
            self.committed(None, applied)
        stored = [msgspec.json.decode(record.value, type=Outgoing) for record in self._store.scan(keys.ALARMS)]
        for outgoing in sorted(stored, key=lambda one: (one.alert.at_s, one.alert.level)):  # an alarm first
            self._hand_out(outgoing)

    def put(self, alert: Alert, id: str, about: str) -> dict[str, bytes]:
        """What to write in the transaction of the record that explains the alert."""
        outgoing = Outgoing(id, alert, about)
        wanted = any(line.wants(alert) for line in self._lines.values())
        return {keys.alarm(id): msgspec.json.encode(outgoing)} if wanted else {}

    def send(self, alert: Alert, id: str, about: str) -> None:
        log.warning("%s %s: %s", alert.code, alert.address, alert.message)
        self._hand_out(Outgoing(id, alert, about))

    def _hand_out(self, outgoing: Outgoing) -> None:
        wanting = [name for name, line in self._lines.items() if line.wants(outgoing.alert)]
        self._left[outgoing.id] = [name for name in wanting if name not in outgoing.done]
        for name in list(self._left[outgoing.id]):
            line = self._lines[name]
            if len(line.queue) >= QUEUE_MAX:
                line.lost += 1
                self._done(name, line.queue.popleft())
            for dropped in line.take(outgoing, self._clock.now_s()):
                self._done(name, dropped)
            self._start(name, line)
        if not self._left.get(outgoing.id, True):
            self._settle(outgoing)

    def _start(self, name: str, line: Line) -> None:
        if line.queue and (line.task is None or line.task.done()):
            line.task = asyncio.get_running_loop().create_task(self._empty(name, line))

    async def _empty(self, name: str, line: Line) -> None:
        while line.queue:
            outgoing = line.ready(self._clock.now_s())
            if outgoing is None:
                await line.rest(self._clock.now_s())
            elif await self._try(line, outgoing):
                if outgoing in line.queue:
                    line.queue.remove(outgoing)
                self._done(name, outgoing)

    async def _try(self, line: Line, outgoing: Outgoing) -> bool:
        """True if it was delivered or given up; False if quiet hours have begun."""
        loop = asyncio.get_running_loop()
        until_s, pause_s = loop.time() + TRIED_S_MAX, RETRY_S_FIRST
        while True:
            try:
                await line.notifier.send(outgoing.alert)
            except HoldfastError as trouble:
                line.since_s = line.since_s if line.trouble else self._clock.now_s()
                line.trouble = trouble.message
            else:
                line.trouble = ""
                return True
            if loop.time() + pause_s > until_s:
                line.lost += 1
                log.error("%s did not receive %s: %s", line.notifier.name, outgoing.alert.code, line.trouble)
                return True
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, RETRY_S_MAX)
            if line.holds(outgoing, self._clock.now_s()):
                return False

    def _done(self, name: str, outgoing: Outgoing) -> None:
        """Others may still wait for it, for hours if these are quiet: a restart must not send it here again."""
        left = self._left.get(outgoing.id, [])
        if name in left:
            left.remove(name)
        if not left:
            self._settle(outgoing)
            return
        wanting = [known for known, line in self._lines.items() if line.wants(outgoing.alert)]
        done = tuple(known for known in wanting if known not in left)
        put = {keys.alarm(outgoing.id): msgspec.json.encode(replace(outgoing, done=done))}
        noted(self._store.submit(Transaction(expect={}, put=put)), DELIVERED)

    def _settle(self, outgoing: Outgoing) -> None:
        self._left.pop(outgoing.id, None)
        noted(self._store.submit(Transaction(expect={}, put={}, delete=(keys.alarm(outgoing.id),))), DELIVERED)

    def close(self) -> None:
        for line in self._lines.values():
            _end(line)

    # ---- showing

    def findings(self, now_s: float) -> Iterator[StatusFinding]:
        for name, line in list(self._lines.items()):
            if line.trouble or line.lost:
                lost = f"; {line.lost} were given up" if line.lost else ""
                text = f"alerts do not reach {line.notifier.name}: {line.trouble or 'they did before'}{lost}"
                remedy = "check [[alerts]] in fleet.toml and how the hub reaches it; then `holdfast apply`"
                age_s = max(0.0, now_s - line.since_s) if line.since_s else 0.0
                yield StatusFinding("alert_undelivered", "warning", text, remedy, _address(name), round(age_s, 3))


def _end(line: Line | None) -> None:
    if line is not None and line.task is not None:
        line.task.cancel()


def _address(name: str) -> str:
    return name if name.startswith("alert.") else ""
