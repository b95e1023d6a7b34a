"""The fleet as the hub sees it, and the watchers that learn what happens to it. Handles no requests."""

import asyncio
from collections.abc import Iterable

from holdfast.hub.hub_time import HubTime
from holdfast.hub.nodes.member import Member
from holdfast.hub.nodes.registry import Registry
from holdfast.hub.watcher import NO_HINTS, CommitWatcher, FindingSource, Hints, HintSource, ReportWatcher
from holdfast.model.applied import Applied, affected, manifests_of
from holdfast.model.cadence import Cadence
from holdfast.model.hub_status import StatusFinding
from holdfast.model.principal import Principal


class WatchedFleet:
    """Belongs to the event loop, except `committed` and `findings`. `wake` makes the watch loop look again."""

    def __init__(
        self,
        *,
        registry: Registry,
        commits: tuple[CommitWatcher, ...],
        reports: tuple[ReportWatcher, ...],
        hints: tuple[HintSource, ...],
        findings: tuple[FindingSource, ...],
        time: HubTime,
        wake: asyncio.Event,
    ) -> None:
        self._registry = registry
        self._commits = commits
        self._reports = reports
        self._hints = hints
        self._findings = findings
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

    def refused_for_clock(self, line: str, ahead_s: float) -> None:
        """A node whose clock is off is not silent: `status` names its clock (X23)."""
        principal = self.node_of_key(line)
        member = self._registry.members.get(principal.name) if principal is not None else None
        if member is not None:
            member.skew_s, member.clock_refused_s = ahead_s, self.attend()

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
        for watcher in self._commits:
            watcher.committed(before, applied)
        for name in affected(manifests_of(before), manifests_of(applied)) if named is None else named:
            if name in self._registry.members:
                self._registry.members[name].bell.ring()

    # ---- nodes

    def reported(self, member: Member) -> None:
        for watcher in self._reports:
            watcher.reported(member)
        self._wake.set()

    def follows_pulses(self, node: str) -> bool:
        return any(source.follows_pulses(node) for source in self._hints)

    def health_changed(self, member: Member) -> None:
        for source in self._hints:
            source.health_changed(member)

    def due(self, loop_s: float) -> float | None:
        times = [next_s for watcher in self._reports if (next_s := watcher.due(loop_s)) is not None]
        return min(times, default=None)

    def hints(self, node: str) -> Hints:
        """Those of all sources together; each source has fields of its own."""
        merged = NO_HINTS
        for source in self._hints:
            if hints := source.hints(node):
                merged = {**merged, **hints}
        return merged

    def findings(self) -> list[StatusFinding]:
        now_s = self._time.now_s()
        return [found for source in self._findings for found in source.findings(now_s)]
