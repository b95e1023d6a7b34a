"""What the revision in force wants proven on this node, and how often."""

from collections.abc import Callable

import msgspec
from msgspec import UNSET

from holdfast.agent.backups.times import DeclaredTimes
from holdfast.agent.keeper import Revision
from holdfast.model import coverage, duration
from holdfast.model.drill import Drill
from holdfast.model.fleet import Backups, Service
from holdfast.reconcile.backup_times import Every, Times

_service = msgspec.json.Decoder(Service).decode


class Declarations:
    """`content` reads a document of the revision by its digest. A service that runs here for a silent node is proven by
    its own node."""

    def __init__(self, content: Callable[[str], bytes | None], times: DeclaredTimes) -> None:
        self._content = content
        self._times = times
        self.times: Times = Every(duration.milliseconds(Backups().drill_interval) / 1000)
        self.found: dict[str, Drill | None] = {}
        self.complete = False  # every content was read: what is not found is not declared
        self.node = ""

    def follow(self, revision: Revision) -> None:
        self.node = revision.node.name
        backups = revision.document.backups
        self.times = self._times.of("drill_cron", backups.drill_interval, backups.drill_cron, backups.timezone)
        self.found, self.complete = {}, True
        if revision.node.reconcile == "observe":
            return
        for address, entry in revision.manifest.services.items():
            content, name = self._content(entry.digest), address.partition(".")[2]
            try:
                service = _service(content or b"")
            except (msgspec.DecodeError, UnicodeDecodeError):  # the keeper of the services reports it
                self.complete = False
                continue
            if coverage.is_backed_up(coverage.of_service(name, service)):
                self.found[name] = service.drill if service.drill is not UNSET else None
