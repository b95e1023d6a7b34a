"""Wait until everything that a command changed has settled: services, then DNS names, then edges.

Uses only the signed reports of nodes.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from holdfast.cli import receipts
from holdfast.cli.report_poll import ReportPoll
from holdfast.cli.show_steps import StepLines, under_way
from holdfast.cli.show_waiting import WaitingLines
from holdfast.cli.tools import Toolbox
from holdfast.model import duration
from holdfast.model.applied import Applied
from holdfast.model.duration import aged
from holdfast.status import blockers, dns
from holdfast.status.blockers import Blocker
from holdfast.status.dns import DnsObserved, NamesAwaited, NamesObserved
from holdfast.status.edges import settled as edge_settled
from holdfast.status.edges.settled import EdgeAwaited, EdgeObserved
from holdfast.status.services import settled as service_settled
from holdfast.status.services.settled import Awaited, Observed

if TYPE_CHECKING:
    from holdfast.model.verified_report import VerifiedReport

SILENT_S = 2.0  # an agent that reports no services this long after its receipt runs none; the same with routes
PARKED_S = 1.0  # changes parked before this revision are cleared within this time
STALE_S = 3.0  # findings older than this revision are cleared by then, if solved
TROUBLED_S = 10.0  # a DNS server in trouble for this long does not recover
SLACK_S = 2.0  # an edge stops trying on its own: wait for its last report, which has the reason
LOOK_S = 0.5  # while one of these runs


class Wanted(Struct, frozen=True):
    """Everything a command waits for. `asked`: nodes whose manifest it changed."""

    services: tuple[Awaited, ...] = ()
    edges: tuple[EdgeAwaited, ...] = ()
    names: NamesAwaited = NamesAwaited()
    asked: frozenset[str] = frozenset()

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes whose reports are needed."""
        edges = {one.edge for one in self.edges if one.edge}
        return frozenset({one.node for one in self.services} | edges | set(self.names.nodes))


class Limits(Struct, frozen=True):
    """[timeouts] of the fleet (M-64)."""

    deploy_s: float
    undeploy_s: float
    edge_route_s: float


class Watch:
    """Looks until each has settled or its time is up. `branch` None: this command changed nothing."""

    def __init__(self, wanted: Wanted, branch: receipts.Branch | None, box: Toolbox) -> None:
        self._wanted = wanted
        self._branch = branch
        self._box = box
        self._lines = StepLines(box.terminal)
        self._since_s: dict[tuple[object, str], float] = {}  # first seen silent, parked, in trouble
        self._settled_s: dict[Awaited, float] = {}
        self._began_s = box.clock.monotonic_s()
        self._began_at_s = float(int(box.clock.now_s()))  # as findings have it
        self._waiting_lines = WaitingLines(box.terminal, self._began_s)
        self._unheard: frozenset[str] = frozenset()  # silent nodes for which only DNS names changed
        self.services: tuple[Observed, ...] = ()
        self.edges: tuple[EdgeObserved, ...] = ()
        self.dns = DnsObserved()
        self.hindrances: tuple[Blocker, ...] = ()  # why services or hostnames are still waiting

    # ---- looking

    def look(self, heard: "Mapping[str, VerifiedReport]", only_new: bool = False) -> None:
        """`only_new`: do not show steps that finished before this command."""
        self.services = tuple(self._service(one, heard.get(one.node)) for one in self._wanted.services)
        for one, seen in zip(self._wanted.services, self.services, strict=True):
            if seen.is_settled:
                self._settled_s.setdefault(one, self._box.clock.monotonic_s())
        of = self._wanted.names
        nodes = tuple(self._names(of, node, heard.get(node)) for node in of.nodes)
        self.dns = DnsObserved(nodes, changes=bool(of.nodes))
        self.edges = tuple(self._edge(one, heard.get(one.edge)) for one in self._wanted.edges)
        if only_new:
            self._lines.pass_over(self.services, self.edges)
        elif self._branch is not None:  # steps of an unchanged edge belong to an earlier command
            self._lines.pass_over((), [one for one in self.edges if one.edge not in self._wanted.asked])
        self._lines.show(self.services, self.dns, self.edges, self._box.clock.now_s())
        self._tell_waiting(heard)

    def _tell_waiting(self, heard: "Mapping[str, VerifiedReport]") -> None:
        """Show at once why something waits, so that the operator can act before the time is up."""
        unsigned = self._unsigned(heard)
        if self._is_over() and not unsigned:
            self.hindrances = ()
            return
        names = [one.node for one in self.dns.those("waiting")] if not self.dns.is_settled else []
        pairs = list(zip(self._wanted.services, self.services, strict=True))
        concerned = blockers.concerns(pairs, self.edges, sorted({*names, *unsigned}))
        found = blockers.of(concerned, heard, self._accepts)
        self.hindrances = tuple(one for one in found if self._is_current(one))
        waiting = under_way(self.services, self.dns, self.edges, self._box.clock.now_s(), whole=True)
        waiting += [_unconfirmed(node, heard[node]) for node in unsigned]
        self._waiting_lines.show(self.hindrances, waiting, self._box.clock.monotonic_s())

    def _unsigned(self, heard: "Mapping[str, VerifiedReport]") -> list[str]:
        if self._branch is None:
            return []
        asked = {node: heard[node] for node in sorted(self._wanted.asked - self._unheard) if node in heard}
        return [node for node, word in asked.items() if word.key and not self._accepts(word)]

    def _is_current(self, one: Blocker) -> bool:
        waited_s = self._box.clock.monotonic_s() - self._began_s
        return self._branch is None or one.since_s >= self._began_at_s or waited_s >= STALE_S

    def _accepts(self, word: "VerifiedReport | None") -> bool:
        return self._branch is None or (word is not None and receipts.accepted(word, self._branch))

    def _service(self, one: Awaited, word: "VerifiedReport | None") -> Observed:
        signed = self._accepts(word)
        found = service_settled.judge(one, word, signed)
        if found.phase == "parked" and not self._lasts(one, "parked", PARKED_S):
            return replace(found, phase="settling")
        is_silent = found.phase == "settling" and signed and service_settled.says_nothing(word)
        return service_settled.unwatched(one) if is_silent and self._lasts(one, "silent", SILENT_S) else found

    def _names(self, of: NamesAwaited, node: str, word: "VerifiedReport | None") -> NamesObserved:
        if node in self._unheard:
            return NamesObserved(node, "unknown", f"{node} is silent")
        found = dns.judge(of, node, word, self._accepts(word))
        if found.phase != "waiting" or not found.message:
            self._since_s.pop((node, "names"), None)
            return found
        if dns.says_nothing(word):
            is_silent = self._lasts(node, "no names", SILENT_S)
            return replace(found, phase="unknown") if is_silent else found
        return replace(found, phase="failed") if self._lasts(node, "names", TROUBLED_S) and not of.leaves else found

    def _edge(self, one: EdgeAwaited, word: "VerifiedReport | None") -> EdgeObserved:
        is_asked = one.edge in self._wanted.asked - self._unheard
        is_silent = word is not None and word.key and (word.status == "unhealthy" or one.edge in self._unheard)
        if word is not None and is_silent and not is_asked:
            return edge_settled.unheard(one, word.age_s)
        signed = not is_asked or self._accepts(word)
        found = edge_settled.judge(one, word, signed, self._worker(one))
        if found.phase != "waiting":
            return found
        broken = self.dns.those("failed")
        if broken and one.node:
            return edge_settled.gated(found, f"{broken[0].node}: {broken[0].message}")
        has_none = signed and edge_settled.says_nothing(word) and self._lasts(one, "silent", SILENT_S)
        return edge_settled.unwatched(one) if has_none and one.node else found

    def _worker(self, one: EdgeAwaited) -> Observed | None:
        pairs = zip(self._wanted.services, self.services, strict=True)
        mine = (seen for wanted, seen in pairs if (wanted.service, wanted.node) == (one.service, one.node))
        return next(mine, None)

    def _lasts(self, one: object, what: str, for_s: float) -> bool:
        now_s = self._box.clock.monotonic_s()
        return now_s - self._since_s.setdefault((one, what), now_s) >= for_s

    # ---- waiting

    def wait(
        self, lookout: ReportPoll, applied: Applied, without: Collection[str], unheard: Collection[str] = ()
    ) -> None:
        """`without`: nodes that did not confirm the revision in time. `unheard`: those of them for which only DNS names
        changed."""
        if unheard:
            self._unheard = frozenset(unheard)
            self.look(lookout.look())
        if not self._is_over():
            limits = limits_of(applied)
            while (left_s := self._left_s(limits, without)) > 0:
                lookout.rest(min(left_s, self._next_s()))
                self.look(lookout.look())
        self._lines.show_rest(self.dns, self.edges)
        self._box.terminal.settle()

    def _next_s(self) -> float:
        """How long to wait for new reports before a reminder or a check is due."""
        if self._since_s:
            return LOOK_S
        now_s = self._box.clock.monotonic_s()
        stale_s = self._began_s + STALE_S - now_s
        due_s = max(self._waiting_lines.due_in_s(now_s), LOOK_S)
        return min(stale_s, due_s) if stale_s > 0 else due_s

    def _is_over(self) -> bool:
        settled = [one.is_settled for one in self.services] + [one.is_settled for one in self.edges]
        return all(settled) and self.dns.is_settled

    def _left_s(self, limits: Limits, without: Collection[str]) -> float:
        return max(self._ends_s(limits, without), default=0.0) - self._box.clock.monotonic_s()

    def _ends_s(self, limits: Limits, without: Collection[str]) -> list[float]:
        """The deadlines of everything that has not settled."""
        services = zip(self._wanted.services, self.services, strict=True)
        edges = zip(self._wanted.edges, self.edges, strict=True)
        ends = [
            *(
                self._service_s(one, limits)
                for one, seen in services
                if not seen.is_settled and one.node not in without
            ),
            *(self._edge_s(one, limits) for one, seen in edges if not seen.is_settled and one.edge not in without),
        ]
        waiting = [one.node for one in self.dns.those("waiting")]
        if not self.dns.is_settled and set(waiting) - set(without) and self._is_anything_there(without):
            ends.append(self._names_s(limits))
        return ends

    def _service_s(self, one: Awaited, limits: Limits) -> float:
        """A service that moves leaves its old node only after it runs on the new one."""
        if one.deployment:
            return self._began_s + limits.deploy_s
        arrives = [other for other in self._wanted.services if other.service == one.service and other.deployment]
        return self._since(arrives) + limits.undeploy_s

    def _edge_s(self, one: EdgeAwaited, limits: Limits) -> float:
        """The time of an edge starts when the service runs on its node."""
        if not one.node:
            return self._since(self._of(one.service)) + max(limits.undeploy_s, limits.edge_route_s) + SLACK_S
        homes = [home for home in self._of(one.service) if home.node == one.node]
        return self._since(homes) + limits.edge_route_s + SLACK_S

    def _names_s(self, limits: Limits) -> float:
        comes = [one for one in self._wanted.services if one.deployment]
        is_leaving = self._wanted.names.leaves
        allowed_s = max(limits.undeploy_s, limits.edge_route_s) if is_leaving else limits.edge_route_s
        return self._since(comes or self._wanted.services) + allowed_s + SLACK_S

    def _of(self, service: str) -> list[Awaited]:
        return [one for one in self._wanted.services if one.service == service]

    def _since(self, those: Sequence[Awaited]) -> float:
        """When the last of those settled. While one has not, its own deadline holds, and this one moves with it."""
        return max((self._settled_s.get(one, self._began_s) for one in those), default=self._began_s)

    def _is_anything_there(self, without: Collection[str]) -> bool:
        """Whether DNS names can still change: not if every service failed, or its node did not get the revision."""
        known = [one for one in self.services if one.is_settled or one.node not in without]
        return not self.services or any(one.phase not in ("failed", "parked", "unknown") for one in known)


def _unconfirmed(node: str, one: "VerifiedReport") -> str:
    if one.status == "unhealthy":
        return f"{node} is silent (last contact {aged(one.age_s)} ago); it takes the revision when it is back"
    return f"confirmation of {node}"


def limits_of(applied: Applied) -> Limits:
    timeouts = applied.fleet().timeouts
    texts = (timeouts.deploy, timeouts.undeploy, timeouts.edge_route)
    deploy_s, undeploy_s, edge_route_s = (duration.milliseconds(text) / 1000 for text in texts)
    return Limits(deploy_s, undeploy_s, edge_route_s)
