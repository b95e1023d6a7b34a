"""The schedules of the revision in force, and whether their services may run them now."""

from collections.abc import Callable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.keeper import Revision
from holdfast.agent.schedules.notes import Key
from holdfast.agent.services.records import Records
from holdfast.model.container import ContainerSpec, Part
from holdfast.model.deployment import deployment_of
from holdfast.model.fleet import Service
from holdfast.model.schedule import Schedule

NOT_SERVING = "the service does not serve yet"
NOT_CONFIRMED = "the machine booted, and the hub has not answered yet"
NOT_DEPLOYED = "the deployment with its command does not serve yet"

_service = msgspec.json.Decoder(Service).decode


class Declared(Struct, frozen=True):
    schedule: Schedule
    active: bool
    deployment: str  # the one that declares it


class Declarations:
    """`content` reads a document of the revision by its digest. A service that runs here for a silent node has no
    schedules here: its own node may still run them. `running` answers the specs of a service's running containers.
    `withholds_data`: after a boot, what has data waits for the hub."""

    def __init__(
        self,
        content: Callable[[str], bytes | None],
        records: Records,
        running: Callable[[str], set[str]],
        withholds_data: Callable[[], bool],
    ) -> None:
        self._content = content
        self._records = records
        self._running = running
        self._withholds_data = withholds_data
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
                self.found |= {
                    (name, one.name): Declared(one, service.active, deployment_of(entry)) for one in service.schedule
                }

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
        if key[0] in self._rested and not self._running(key[0]):
            return NOT_SERVING
        self._rested.discard(key[0])
        part = self._part(key)
        if part is None:
            return NOT_SERVING
        if part.spec.mounts and self._withholds_data():
            return NOT_CONFIRMED
        is_new = declared.schedule.cmd not in part.runs and declared.deployment != self.serving(key)
        return NOT_DEPLOYED if is_new and part.spec.mounts else ""

    def is_between(self, key: Key) -> bool:
        """A rollout has stopped its component, and did not come to its end: perhaps no agent ran, or it tries again."""
        record, part = self._records.of(key[0]), self._part(key)
        is_rolled_out = record.applied == self.serving(key)
        return (
            part is not None and not is_rolled_out and not self.idle(key) and part.digest not in self._running(key[0])
        )

    def serving(self, key: Key) -> str:
        """The deployment whose component a run is of."""
        serving = self._records.of(key[0]).serving
        return serving.deployment if serving is not None else ""

    def spec(self, key: Key) -> ContainerSpec | None:
        """Of a run: the component as it serves now, with another command and without ports."""
        declared, part = self.found.get(key), self._part(key)
        if declared is None or part is None:
            return None
        return replace(part.spec, command=declared.schedule.cmd, ports=(), exposed=False)

    def _part(self, key: Key) -> Part | None:
        declared, serving = self.found.get(key), self._records.of(key[0]).serving
        if declared is None or serving is None:
            return None
        return next((one for one in serving.parts if one.spec.component == declared.schedule.component), None)
