"""Deliver alerts to their targets: store, send, retry for an hour. Shows a finding for what is not delivered.

The caller does not wait for the delivery (H-38).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.hub import settings
from holdfast.ledger import keys
from holdfast.model.alert import Alert
from holdfast.model.applied import Applied, content
from holdfast.model.fleet import AlertTarget
from holdfast.model.hub_status import StatusFinding
from holdfast.ports.clock import Clock
from holdfast.ports.ledger_store import LedgerStore, Transaction
from holdfast.ports.notifier import MakeNotifier, Notifier
from holdfast.status.alarm_codes import OVER

log = logging.getLogger("holdfast.alarms")

QUEUE_MAX = 1_000
RETRY_S_FIRST = 1.0
RETRY_S_MAX = 60.0
TRIED_S_MAX = 3600.0

# Every alert there is: code → the alarm it ends, "" for an alarm.
RECOVERY_OF: Mapping[str, str] = {
    "node_silent": "",
    "node_back": "node_silent",
    "rollout_failed": "",
    "rollout_recovered": "rollout_failed",
    "service_unhealthy": "",
    "service_healthy": "service_unhealthy",
    **dict.fromkeys(OVER, ""),
    **{recovery: alarm for alarm, recovery in OVER.items()},
}


class Outgoing(Struct, frozen=True):
    """An alert in the ledger until every target received it, or could not for an hour."""

    id: str
    alert: Alert


class Line:
    """One target: alerts are sent in the order in which they were raised."""

    def __init__(self, notifier: Notifier, on: Sequence[str] = (), queue: Iterable[Outgoing] = ()) -> None:
        self.notifier = notifier
        self.on = frozenset(on)
        self.queue = deque(queue)
        self.task: asyncio.Task[None] | None = None
        self.trouble = ""
        self.lost = 0
        self.since_s = 0.0

    def wants(self, alert: Alert) -> bool:
        """A target without a list wants every alert. One that wants an alarm also wants its recovery."""
        return not self.on or alert.code in self.on or RECOVERY_OF.get(alert.code) in self.on


class Alarms:
    """Watches commits, so that its targets follow the applied revision. `always`: targets of this hub process itself,
    from --alert-command."""

    def __init__(
        self, store: LedgerStore, clock: Clock, make: MakeNotifier | None, always: Sequence[Notifier] = ()
    ) -> None:
        self._store = store
        self._clock = clock
        self._make = make
        self._lines: dict[str, Line] = {f"process.{notifier.name}": Line(notifier) for notifier in always}
        self._targets: dict[str, str] = {}  # address → digest of the target a line was made from, and the overlay
        self._left: dict[str, int] = {}  # id → lines that still have it

    def committed(self, before: Applied | None, after: Applied) -> None:
        """Targets come from the applied revision; one that stays keeps its queue. Those of nodes are sealed to them."""
        overlay, targets = settings.overlay(after), after.table.of_kind("alert")
        found = {f"alert.{name}": f"{e.digest} {overlay}" for name, e in targets.items() if not e.applies_to}
        for address in [address for address in self._targets if address not in found]:
            _end(self._lines.pop(address, None))
            del self._targets[address]
        for address, made_from in found.items():
            if self._targets.get(address) != made_from and self._make is not None:
                self._renew(address, made_from, after)

    def _renew(self, address: str, made_from: str, applied: Applied) -> None:
        digest, _, overlay = made_from.partition(" ")
        try:
            target = msgspec.json.decode(content(applied.contents, digest, address), type=AlertTarget)
            assert self._make is not None
            before = self._lines.get(address)
            line = Line(self._make(target, overlay), target.on, before.queue if before is not None else ())
        except (HoldfastError, msgspec.DecodeError) as trouble:
            log.warning("%s cannot be used: %s", address, trouble)
            return
        _end(self._lines.pop(address, None))
        self._lines[address], self._targets[address] = line, made_from
        self._start(line)

    # ---- sending

    def begin(self, applied: Applied | None) -> None:
        """Send what an earlier hub process could not deliver."""
        if applied is not None:
            self.committed(None, applied)
        for record in self._store.scan(keys.ALARMS):
            self._hand_out(msgspec.json.decode(record.value, type=Outgoing))

    def put(self, alert: Alert, id: str) -> dict[str, bytes]:
        """What to write in the transaction of the record that explains the alert."""
        outgoing = Outgoing(id, alert)
        wanted = any(line.wants(alert) for line in self._lines.values())
        return {keys.alarm(id): msgspec.json.encode(outgoing)} if wanted else {}

    def send(self, alert: Alert, id: str) -> None:
        log.warning("%s %s: %s", alert.code, alert.address, alert.message)
        self._hand_out(Outgoing(id, alert))

    def _hand_out(self, outgoing: Outgoing) -> None:
        lines = [line for line in self._lines.values() if line.wants(outgoing.alert)]
        self._left[outgoing.id] = len(lines)
        for line in lines:
            if len(line.queue) >= QUEUE_MAX:
                line.lost += 1
                self._done(line.queue.popleft())
            line.queue.append(outgoing)
            self._start(line)
        if not lines:
            self._settle(outgoing)

    def _start(self, line: Line) -> None:
        if line.queue and (line.task is None or line.task.done()):
            line.task = asyncio.get_running_loop().create_task(self._empty(line))

    async def _empty(self, line: Line) -> None:
        while line.queue:
            outgoing = line.queue[0]
            await self._try(line, outgoing)
            if line.queue and line.queue[0] is outgoing:
                line.queue.popleft()
            self._done(outgoing)

    async def _try(self, line: Line, outgoing: Outgoing) -> None:
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
                return
            if loop.time() + pause_s > until_s:
                line.lost += 1
                log.error("%s did not receive %s: %s", line.notifier.name, outgoing.alert.code, line.trouble)
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, RETRY_S_MAX)

    def _done(self, outgoing: Outgoing) -> None:
        self._left[outgoing.id] = self._left.get(outgoing.id, 1) - 1
        if self._left[outgoing.id] <= 0:
            self._settle(outgoing)

    def _settle(self, outgoing: Outgoing) -> None:
        self._left.pop(outgoing.id, None)
        self._store.submit(Transaction(expect={}, put={}, delete=(keys.alarm(outgoing.id),)))

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
