"""Watchers: parts of the hub that draw conclusions from commits, reports and node health.

wiring/hub.py builds one tuple for each Protocol below and names a watcher in those that concern it;
hub/watched_fleet.py calls the watchers of a tuple in its order. A watcher changes no revision and signs nothing: it
raises alerts, shows findings and gives nodes unsigned hints. All belong to the event loop, except `findings`.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from holdfast.hub.nodes.member import Member
from holdfast.model.applied import Applied
from holdfast.model.hub_status import StatusFinding

Hints = Mapping[str, tuple[str, ...]]

NO_HINTS: Hints = {}


class CommitWatcher(Protocol):
    def committed(self, before: Applied | None, after: Applied) -> None:
        """`after` is applied now. The registry has it already."""
        ...


class ReportWatcher(Protocol):
    def reported(self, member: Member) -> None:
        """The node's report, or the revision it accepted, has changed."""
        ...

    def due(self, loop_s: float) -> float | None:
        """Do what depends on time; return when to call again, None for no need. Only the watch loop calls this: the
        first call means that the hub has begun to watch."""
        ...


class HintSource(Protocol):
    def hints(self, node: str) -> Hints:
        """Unsigned hints for this node, by field of the check-in answer."""
        ...

    def health_changed(self, member: Member) -> None: ...

    def follows_pulses(self, node: str) -> bool:
        """True: call `reported` after every pulse of this node, also when its report has not changed."""
        ...


class FindingSource(Protocol):
    def findings(self, now_s: float) -> Iterable[StatusFinding]:
        """Any thread may call it."""
        ...
