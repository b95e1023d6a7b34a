"""Wait until everything that a command changed has settled: moves of data, services, then DNS names, then edges.

Uses only the signed reports of nodes.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.cli.tools import Toolbox
from holdfast.cli.waiting import receipts
from holdfast.cli.waiting.awaiter import Awaited, Awaiter, Limits, Reports
from holdfast.cli.waiting.dns import Names
from holdfast.cli.waiting.edges import Edges
from holdfast.cli.waiting.moves import Moves
from holdfast.cli.waiting.progress import Progress
from holdfast.cli.waiting.report_poll import ReportPoll
from holdfast.cli.waiting.services import Services
from holdfast.cli.waiting.wanted import Wanted
from holdfast.model import duration
from holdfast.model.applied import Applied
from holdfast.status import blockers
from holdfast.status.blockers import Blocker, Concern

if TYPE_CHECKING:
    from holdfast.model.verified_report import VerifiedReport

STALE_S = 3.0  # findings older than this revision are cleared by then, if solved
LOOK_S = 0.5  # while an awaiter measures how long something lasts


class Watch:
    """Looks until each has settled or its time is up. `branch` None: this command changed nothing."""

    def __init__(self, wanted: Wanted, branch: receipts.Branch | None, box: Toolbox) -> None:
        self._clock = box.clock
        self._reports = Reports(branch, wanted.asked, box.clock)
        self._began_at_s = float(int(box.clock.now_s()))  # as findings have it
        self._progress = Progress(box.terminal, self._reports.began_s)
        self.moves = Moves(wanted.moves, self._reports)
        self.services = Services(wanted.services, self._reports)
        self.names = Names(wanted.names, self.services, self._reports)
        self.edges = Edges(wanted.edges, self.services, self.names, self._reports)
        self._awaiters: tuple[Awaiter, ...] = (self.moves, self.services, self.names, self.edges)
        self.hindrances: tuple[Blocker, ...] = ()  # why services or hostnames are still waiting

    def look(self, heard: "Mapping[str, VerifiedReport]", only_new: bool = False) -> None:
        """`only_new`: do not show steps that finished before this command."""
        self._reports.heard = heard
        for awaiter in self._awaiters:
            awaiter.judge()
        those = self._awaited()
        if only_new:
            self._progress.pass_over(those)
        elif self._reports.branch is not None:  # steps of an unchanged edge belong to an earlier command
            self._progress.pass_over([one for one in self.edges.awaited() if one.node not in self._reports.asked])
        self._progress.show(those, self._clock.now_s())
        self._show_waiting(those)

    def _awaited(self) -> list[Awaited]:
        return [one for awaiter in self._awaiters for one in awaiter.awaited()]

    def _show_waiting(self, those: list[Awaited]) -> None:
        """Show at once why something waits, so that the operator can act before the time is up."""
        unsigned, heard = self._reports.unsigned(), self._reports.heard
        waiting = [one for one in those if not one.is_settled]
        if not waiting and not unsigned:
            self.hindrances = ()
            return
        concerned = [Concern(node) for node in unsigned] + [concern for one in those for concern in one.concerns]
        found = blockers.of(concerned, heard, self._reports.accepts)
        self.hindrances = tuple(one for one in found if self._is_current(one))
        self._progress.show_blockers(self.hindrances)
        texts = self._silences(waiting, unsigned)
        texts += [one.text(self._clock.now_s(), whole=True) for one in waiting]
        texts += [_unconfirmed(node, heard[node]) for node in unsigned]
        self._progress.remind(texts, self._clock.monotonic_s())

    def _silences(self, waiting: Sequence[Awaited], unsigned: Collection[str]) -> list[str]:
        """First, and each time: the steps of a node that has become silent are as it last reported them (N47)."""
        nodes = {one.node for one in waiting} - set(unsigned)
        words = [self._reports.heard[node].silence for node in sorted(nodes) if node in self._reports.heard]
        return [f"{word}; it continues when it is back" for word in words if word]

    def _is_current(self, one: Blocker) -> bool:
        waited_s = self._clock.monotonic_s() - self._reports.began_s
        return self._reports.branch is None or one.since_s >= self._began_at_s or waited_s >= STALE_S

    def wait(
        self, lookout: ReportPoll, applied: Applied, without: Collection[str], unheard: Collection[str] = ()
    ) -> None:
        """`without`: nodes that did not confirm the revision in time. `unheard`: those of them for which only DNS names
        changed."""
        if unheard:
            self._reports.unheard = frozenset(unheard)
            self.look(lookout.look())
        if any(not one.is_settled for one in self._awaited()):
            limits = limits_of(applied)
            while (left_s := self._left_s(limits, without)) > 0:
                lookout.rest(min(left_s, self._next_s()))
                self.look(lookout.look())
        self._progress.end(self._awaited())

    def unanswered(self) -> tuple[Blocker, ...]:
        """Findings about these services that wait for an answer, although they run."""
        those = [(one.service, one.node) for one in self.services.seen]
        return blockers.unanswered(those, self._reports.heard, self._reports.accepts)

    def _next_s(self) -> float:
        """How long to wait for new reports before a reminder or a check is due."""
        if self._reports.since_s:
            return LOOK_S
        now_s = self._clock.monotonic_s()
        stale_s = self._reports.began_s + STALE_S - now_s
        due_s = max(self._progress.due_in_s(now_s), LOOK_S)
        return min(stale_s, due_s) if stale_s > 0 else due_s

    def _left_s(self, limits: Limits, without: Collection[str]) -> float:
        ends_s = [end_s for awaiter in self._awaiters for end_s in awaiter.ends_s(limits, without)]
        return max(ends_s, default=0.0) - self._clock.monotonic_s()


def _unconfirmed(node: str, one: "VerifiedReport") -> str:
    if one.silence:
        return f"{one.silence}; it takes the revision when it is back"
    return f"confirmation of {node}"


def limits_of(applied: Applied) -> Limits:
    timeouts = applied.fleet().timeouts
    texts = (timeouts.deploy, timeouts.undeploy, timeouts.edge_route)
    return Limits(*(duration.milliseconds(text) / 1000 for text in texts))
