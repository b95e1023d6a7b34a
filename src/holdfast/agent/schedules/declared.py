"""The schedules of the revision in force, and whether their services may run them now."""

from collections.abc import Callable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.keeper import Revision
from holdfast.agent.schedules.notes import Key
from holdfast.agent.services.records import Records
from holdfast.model.container import ContainerSpec
from holdfast.model.fleet import Service
from holdfast.model.schedule import Schedule

NOT_SERVING = "the service does not serve yet"

_service = msgspec.json.Decoder(Service).decode


class Declared(Struct, frozen=True):
    schedule: Schedule
    active: bool


class Declarations:
    """`content` reads a document of the revision by its digest. A service that runs here for a silent node has no
    schedules here: its own node may still run them. `is_up`: a container of this service runs."""

    def __init__(self, content: Callable[[str], bytes | None], records: Records, is_up: Callable[[str], bool]) -> None:
        self._content = content
        self._records = records
        self._is_up = is_up
        self._rested: set[str] = set()  # services that were stopped or inactive, and have not been up since
        self._observes = False
        self.found: dict[Key, Declared] = {}
        self.complete = False  # every content was read: what is not found is not declared

    def follow(self, revision: Revision) -> None:
        self._observes = revision.node.reconcile == "observe"
        self.found, self.complete = {}, True
        for address, entry in revision.manifest.services.items():
            content = self._content(entry.digest)
            try:
                service = _service(content or b"") if content is None or b'"schedule"' in content else None
            except (msgspec.DecodeError, UnicodeDecodeError):  # the keeper of the services reports it
                service, self.complete = None, False
            if service is not None:
                name = address.partition(".")[2]
                self.found |= {(name, one.name): Declared(one, service.active) for one in service.schedule}

    def idle(self, key: Key) -> str:
        """Why no run of it begins now; "" if one may."""
        declared, record = self.found.get(key), self._records.of(key[0])
        if declared is None:
            return "it is not declared here"
        if self._observes:
            return "this node only observes"
        if record.held or not declared.active:
            self._rested.add(key[0])
            return "the service is stopped" if record.held else "the service is not active"
        if key[0] in self._rested and not self._is_up(key[0]):
            return NOT_SERVING
        self._rested.discard(key[0])
        return "" if self.spec(key) is not None else NOT_SERVING

    def spec(self, key: Key) -> ContainerSpec | None:
        """Of a run: the component as it serves now, with another command and without ports."""
        declared, serving = self.found.get(key), self._records.of(key[0]).serving
        if declared is None or serving is None:
            return None
        schedule = declared.schedule
        parts = (part.spec for part in serving.parts if part.spec.component == schedule.component)
        spec = next(parts, None)
        return replace(spec, command=schedule.cmd, ports=(), exposed=False) if spec is not None else None
