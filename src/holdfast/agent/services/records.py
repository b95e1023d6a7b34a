"""The agent's durable record of each service: what serves, what failed, what is held."""

from collections.abc import Callable

import msgspec
from msgspec import Struct

from holdfast.model.container import Guest
from holdfast.ports.journal import Journal

PREFIX = "service/"


class Failure(Struct, frozen=True):
    """Why a deployment failed; it is not tried again automatically."""

    deployment: str
    step: str
    code: str
    message: str
    remedy: str
    at_s: float


class Record(Struct, frozen=True, omit_defaults=True):
    applied: str = ""  # the newest deployment that was wanted here
    applied_revision: int = 0
    serving: Guest | None = None  # the last one that converged, whole: what a failed attempt goes back to
    serving_revision: int = 0
    failure: Failure | None = None
    held: bool = False  # by a `stop` order (C-30)
    hooks: tuple[str, ...] = ()  # of `applied` that ran: "pre_deploy web"

    @property
    def failed(self) -> str:
        return self.failure.deployment if self.failure is not None else ""


NOTHING = Record()

_decode = msgspec.json.Decoder(Record).decode


class Records:
    """Read once, written at every change, durable before anything acts on it."""

    def __init__(self, journal: Journal, changed: Callable[[], None]) -> None:
        self._journal = journal
        self._changed = changed
        found = journal.facts(PREFIX)
        self._known = {name.removeprefix(PREFIX): _decode(value) for name, value in found.items()}

    def of(self, service: str) -> Record:
        return self._known.get(service, NOTHING)

    def services(self) -> list[str]:
        return sorted(self._known)

    def keep(self, service: str, record: Record) -> None:
        if record == self.of(service):
            return
        self._journal.set_aside(PREFIX + service, msgspec.json.encode(record))
        self._known[service] = record
        self._changed()

    def forget(self, service: str) -> None:
        if service in self._known:
            self._journal.drop_fact(PREFIX + service)
            del self._known[service]
            self._changed()
