"""Findings about schedules: what failed, what was missed, what waits."""

from collections.abc import Collection
from datetime import UTC, datetime

from holdfast.agent.findings import Findings
from holdfast.errors import HoldfastError
from holdfast.reconcile.schedule import Book

FAILED, MISSED, WAITS, AWAITED = "schedule_failed", "schedule_missed", "schedule_waits", "run_awaited"
UNKNOWN = "run_unknown"

TIME_MAX_S = 253_402_300_799.0  # the end of the year 9999: a timeout may be longer

Key = tuple[str, str]  # service, schedule


class Notes:
    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._unknown: set[str] = set()

    def of(self, key: Key, book: Book) -> None:
        """Until a run is done again."""
        service, name = key
        last = book.last
        if last is not None and last.outcome != "done":
            said = f"; it wrote: {last.lines[-1]}" if last.lines else ""
            text = f"the run {name} of {service} at {_time(last.due_s)} {last.message}{said}"
            self._findings.add(FAILED, text, f"holdfast schedule logs {service} {name}", address(key))
        else:
            self._findings.clear(FAILED, address(key))
        if book.missed:
            runs = "1 run was missed" if book.missed == 1 else f"{book.missed} runs were missed"
            why = "no agent ran, the clock jumped, a rollout was interrupted, or too many waited"
            text = f"{name} of {service}: {runs}, the last one at {_time(book.missed_s)}: {why}"
            self._findings.add(MISSED, text, f"holdfast schedule run {service} {name}", address(key))
        else:
            self._findings.clear(MISSED, address(key))

    def waits(self, key: Key, trouble: HoldfastError) -> None:
        self._findings.add_trouble(WAITS, trouble, address(key))

    def goes_on(self, key: Key) -> None:
        self._findings.clear(WAITS, address(key))

    def awaited(self, key: Key, is_awaited: bool, until_s: float) -> None:
        """An operation on the service waits until this run ends."""
        if is_awaited:
            text = f"a change of {key[0]} waits for the run {key[1]}, which ends by {_time(until_s)}"
            self._findings.add(AWAITED, text, "wait: it continues automatically", address(key))
        else:
            self._findings.clear(AWAITED, address(key))

    def unknown(self, names: Collection[str]) -> None:
        """Containers that this agent may neither take over nor remove."""
        for name in self._unknown - set(names):
            self._findings.clear(UNKNOWN, f"container.{name}")
        for name in names:
            text = f"{name} is labelled as a run of a schedule, but this agent did not make it, or has lost its journal"
            remedy = f"when it has ended, or must not go on, on this node: podman rm --force {name}"
            self._findings.add(UNKNOWN, text, remedy, f"container.{name}")
        self._unknown = set(names)

    def forget(self, key: Key) -> None:
        for code in (FAILED, MISSED, WAITS, AWAITED):
            self._findings.clear(code, address(key))


def address(key: Key) -> str:
    return "schedule." + ".".join(key)


def _time(at_s: float) -> str:
    return datetime.fromtimestamp(min(at_s, TIME_MAX_S), UTC).strftime("%Y-%m-%d %H:%M UTC")
