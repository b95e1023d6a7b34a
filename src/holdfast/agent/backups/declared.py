"""What the revision in force wants backed up on this node, how often, and for whom."""

from collections.abc import Callable

import msgspec
from msgspec import UNSET, Struct

from holdfast.agent.backups.times import DeclaredTimes
from holdfast.agent.keeper import Revision
from holdfast.model import backup_key, coverage, dump, duration
from holdfast.model.coverage import Covered
from holdfast.model.fleet import Backups, Service, Snapshot
from holdfast.model.storage_target import counts
from holdfast.model.trust import Trust, outside_scope
from holdfast.reconcile.backup_times import Every, Times
from holdfast.reconcile.retention import Policy


class _Stored(Struct, frozen=True):
    """Of a storage target, as much as counts here; one that cannot be read is named by targets/attached.py."""

    state: str = "attached"


_service = msgspec.json.Decoder(Service).decode
_state = msgspec.json.Decoder(_Stored).decode


class Wanted(Struct, frozen=True):
    """One service with data to back up."""

    service: str
    epoch: int
    covered: tuple[Covered, ...]
    snapshot: Snapshot
    component: str = ""  # that the commands of the method run in
    port: int = 0  # of it, for a call over gRPC
    mounted: tuple[tuple[str, str], ...] = ()  # path in its container → place of a volume that is held whole

    @property
    def whole(self) -> tuple[str, ...]:
        """Places that are held whole, relative to the data directory of the service."""
        return tuple(sorted({one.place for one in self.covered if one.extent == "whole" and one.place is not None}))

    @property
    def dumped(self) -> tuple[str, ...]:
        """The place that a dump stands for."""
        return tuple(sorted({one.place for one in self.covered if one.extent == "dump" and one.place is not None}))

    @property
    def partial(self) -> tuple[str, ...]:
        return tuple(sorted({one.place for one in self.covered if one.extent == "partial" and one.place is not None}))

    @property
    def left(self) -> tuple[str, ...]:
        """Volumes that no backup holds: a restore leaves them as they are."""
        return tuple(sorted({one.volume for one in self.covered if one.extent == "none" and one.protect}))


class Declarations:
    """`content` reads a document of the revision by its digest; `trust` answers the operators of the revision;
    `has_own` whether the node itself has files to back up. A service that runs here for a silent node is backed up by
    its own node."""

    def __init__(
        self,
        content: Callable[[str], bytes | None],
        trust: Callable[[], Trust | None],
        times: DeclaredTimes,
        has_own: Callable[[], bool],
    ) -> None:
        self._content = content
        self._trust = trust
        self._times = times
        self._has_own = has_own
        self._observes = False
        self._keeps_hub = False
        self.times: Times = Every(duration.milliseconds(Backups().interval) / 1000)
        self.found: dict[str, Wanted] = {}
        self.awaited: dict[str, Wanted] = {}  # that come to this node with their data
        self.complete = False  # every content was read: what is not found is not declared
        self.node = ""
        self.timeout_s = 600.0
        self._backups = Backups()

    def follow(self, revision: Revision) -> None:
        self.node = revision.node.name
        self._backups = revision.document.backups
        self.times = self._times.of("cron", self._backups.interval, self._backups.cron, self._backups.timezone)
        self.timeout_s = duration.milliseconds(revision.document.timeouts.snapshot) / 1000
        self.found, self.awaited, self.complete = {}, {}, True
        self._observes = revision.node.reconcile == "observe"
        self._keeps_hub = "hub" in revision.node.roles and self._has_storage(revision)
        if self._observes:
            return
        for address, entry in {**revision.manifest.services, **revision.awaited}.items():
            content, name = self._content(entry.digest), address.partition(".")[2]
            try:
                service = _service(content or b"")
            except (msgspec.DecodeError, UnicodeDecodeError):  # the keeper of the services reports it
                self.complete = False
                continue
            covered = coverage.of_service(name, service)
            if coverage.is_backed_up(covered):
                snapshot = service.snapshot if service.snapshot is not UNSET else Snapshot()
                component = dump.component(service)
                mounted = coverage.mounted(name, service, component)
                wanted = Wanted(name, entry.epoch, covered, snapshot, component, dump.port(service), mounted)
                (self.awaited if address in revision.awaited else self.found)[name] = wanted
        self.look()

    def look(self) -> None:
        """The files of the node itself: they come and go with its routes, without a revision. The node of the hub also
        keeps the file of the hub on its storage targets."""
        is_kept = bool(self.node) and not self._observes
        self._set(backup_key.of_node(self.node), is_kept and self._has_own())
        self._set(backup_key.of_hub(self.node), is_kept and self._keeps_hub)

    def _has_storage(self, revision: Revision) -> bool:
        """One is declared that is in use; whether it can be reached now does not matter."""
        contents = [self._content(entry.digest) or b"{}" for entry in revision.manifest.storage.values()]
        return any(_state(content).state == "attached" for content in contents)

    def _set(self, name: str, is_wanted: bool) -> None:
        if is_wanted:
            self.found.setdefault(name, Wanted(name, 0, (), Snapshot()))
        else:
            self.found.pop(name, None)

    @property
    def policy(self) -> Policy:
        return Policy(*counts(self._backups.retain))

    def operators(self, service: str) -> frozenset[str]:
        """Age recipients of the operators who may open its backups: those whose scope covers the service, or the
        node."""
        trust = self._trust()
        operators = trust.operators if trust is not None else ()
        return frozenset(
            operator.recipient
            for operator in operators
            if operator.recipient is not UNSET and outside_scope(operator, (backup_key.address(service),)) is None
        )
