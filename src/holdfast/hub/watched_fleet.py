"""The fleet as the hub sees it, and the watchers that learn what happens to it. Handles no requests."""

import asyncio
import logging
from collections.abc import Iterable

from holdfast.errors import HoldfastError
from holdfast.hub.hub_time import HubTime
from holdfast.hub.nodes.member import Member
from holdfast.hub.nodes.registry import Registry
from holdfast.hub.watcher import NO_HINTS, Hints, Watcher
from holdfast.model.applied import Applied, affected, head_of, manifests_of
from holdfast.model.audit import Event
from holdfast.model.cadence import Cadence
from holdfast.model.hub_status import StatusFinding
from holdfast.model.principal import Principal
from holdfast.model.revision import Head
from holdfast.ports.audit_log import AuditLog
from holdfast.ports.hub_link import HubReader

log = logging.getLogger("holdfast.fleet")

COMMITS_AUDITED = 100  # at once; there are more only after a ledger was copied from another hub


class WatchedFleet:
    """Belongs to the event loop, except `committed` and `findings`. `wake` makes the watch loop look again."""

    def __init__(
        self,
        hub: HubReader,
        registry: Registry,
        watchers: tuple[Watcher, ...],
        audit: AuditLog,
        time: HubTime,
        wake: asyncio.Event,
    ) -> None:
        self._hub = hub
        self._registry = registry
        self._watchers = watchers
        self._audit = audit
        self._time = time
        self._wake = wake

    @property
    def members(self) -> dict[str, Member]:
        return self._registry.members

    @property
    def cadence(self) -> Cadence:
        return self._registry.cadence

    def attend(self) -> float:
        """The loop's time. The first call notes the loop: each node then has a whole window to check in."""
        if self._time.begin():
            for member in self._registry.members.values():
                member.turn_s = self._time.loop_s()
        return self._time.loop_s()

    def node_of_key(self, line: str) -> Principal | None:
        self.applied()
        return self._registry.principal_of(line)

    def set_pace(self, pace: Cadence) -> None:
        """Nodes learn it with their next answer; silence is measured by it from now on."""
        self._registry.set_pace(pace)
        self._wake.set()

    # ---- commits

    def committed(self, nodes: Iterable[str] | None = None) -> None:
        """After a commit, from any thread: wake the named nodes, or each node whose manifest changed."""
        named = tuple(nodes) if nodes is not None else None
        self._time.call_soon(lambda: self.follow(named))

    def applied(self) -> Applied | None:
        """The applied revision; registry and watchers have followed it."""
        if not self._registry.is_current:
            self.follow()
        return self._registry.applied

    def follow(self, named: tuple[str, ...] | None = None) -> None:
        before = self._registry.applied
        for gone in self._registry.refresh():
            gone.bell.ring()
        applied = self._registry.applied
        if applied is None:
            return
        for watcher in self._watchers:
            watcher.committed(before, applied)
        self._audit_commits(head_of(before), applied.head)
        for name in affected(manifests_of(before), manifests_of(applied)) if named is None else named:
            if name in self._registry.members:
                self._registry.members[name].bell.ring()

    def _audit_commits(self, before: Head, now: Head) -> None:
        """The ledger has who signed. The audit log also has that this hub took the revision, and when (I-38)."""
        try:
            taken = self._hub.records(now.number, min(now.number - before.number, COMMITS_AUDITED))
        except HoldfastError as trouble:  # status shows the damaged record; no request is refused because of it
            log.warning("commits since %d are not in the audit log: %s", before.number, trouble.message)
            return
        for record in reversed(taken):
            names = ",".join(signer.operator for signer in record.approval.signers)
            target = f"revision.{record.number}"
            self._audit.append(Event(f"operator:{names}", "commit", target, "done", record.digest), durable=False)

    # ---- nodes

    def reported(self, member: Member) -> None:
        for watcher in self._watchers:
            watcher.reported(member)
        self._wake.set()

    def follows_pulses(self, node: str) -> bool:
        return any(watcher.follows_pulses(node) for watcher in self._watchers)

    def health_changed(self, member: Member) -> None:
        for watcher in self._watchers:
            watcher.health_changed(member)

    def due(self, loop_s: float) -> float | None:
        times = [next_s for watcher in self._watchers if (next_s := watcher.due(loop_s)) is not None]
        return min(times, default=None)

    def hints(self, node: str) -> Hints:
        """Those of all watchers together; each watcher has fields of its own."""
        merged = NO_HINTS
        for watcher in self._watchers:
            if hints := watcher.hints(node):
                merged = {**merged, **hints}
        return merged

    def findings(self) -> list[StatusFinding]:
        now_s = self._time.now_s()
        return [found for watcher in self._watchers for found in watcher.findings(now_s)]
