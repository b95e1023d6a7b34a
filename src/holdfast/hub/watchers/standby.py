"""Failover: which standby node runs a service while the service's own node (its home) is silent.

The hub chooses only among the nodes in a service's signed `failover` list; a node runs only what its own signed
manifest lists as standby. Such services have no data, so two copies for a moment are harmless. Each choice is one
small record in the ledger: a restarted hub keeps it, and changes nothing while it warms up.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import UNSET, Struct

from holdfast.errors import HoldfastError
from holdfast.hub.hub_time import HubTime
from holdfast.hub.ledger.writes import noted
from holdfast.hub.nodes.member import Member
from holdfast.hub.nodes.registry import Registry
from holdfast.hub.watcher import NO_HINTS, Hints
from holdfast.hub.watchers import move_releases
from holdfast.hub.watchers.edge_reports import EdgeReports
from holdfast.ledger import keys
from holdfast.model.applied import Applied
from holdfast.model.deployment import deployment_of
from holdfast.model.hub_status import StatusFinding
from holdfast.model.report import SignedPulse
from holdfast.model.revision import Entry
from holdfast.ports.ledger_store import LedgerStore, Transaction

log = logging.getLogger("holdfast.fleet")

# unclear: not joined, no check-in since this hub started, or being probed. Nothing begins or ends because of that.
Status = Literal["healthy", "silent", "unclear"]


# code → (level, remedy); {node} is filled in.
ROWS: Mapping[str, tuple[str, str]] = {
    "failed_over": (
        "warning",
        "look at its own node and its network; it goes back automatically once that runs it again",
    ),
    "no_standby": ("warning", "bring {node} or a node of its failover list back; holdfast node list"),
}


NO_STANDBY: Hints = {"standby": ()}


class Home(Struct, frozen=True):
    """The node a service is placed on. `proven`: since it is back it reported that the service runs there as applied,
    and the edges lead there again."""

    status: Status
    proven: bool = False
    held: bool = False  # an operator stopped it: it starts nowhere else


class Candidate(Struct, frozen=True):
    name: str
    status: Status
    drained: bool = False
    runs: bool = False  # reports that it runs the service already


def choose(home: Home, current: str, candidates: Sequence[Candidate]) -> str:
    """The name of the standby node from now on, "" for none. `candidates` as listed, first choice first."""
    here = next((one for one in candidates if one.name == current), None)
    if home.held or (home.status == "healthy" and home.proven):
        return ""
    if here is not None and (home.status != "silent" or here.status != "silent"):
        return current  # it stays until the home is proven, or until it is silent itself
    running = [one.name for one in candidates if one.runs and one.status != "silent"]
    if home.status == "healthy" or (home.status == "unclear" and not running):
        return ""
    free = [one.name for one in candidates if one.status == "healthy" and not one.drained]
    return next(iter([*running, *free]), current if here is not None else "")


class StandIn(Struct, frozen=True):
    """The record in the ledger: which node runs the service, since when."""

    node: str
    since_s: float


class Listed(Struct, frozen=True):
    """A service that may fail over, as applied."""

    entry: Entry
    deployment: str


class Shown(Struct, frozen=True):
    """The choices by node. Replaced as a whole, so that other threads may read it."""

    standby: Mapping[str, Mapping[str, float]] = {}  # node → services it runs for silent homes, since when
    without: Mapping[str, tuple[str, ...]] = {}  # silent home → its services that no node runs
    homes: frozenset[str] = frozenset()  # with a service that a standby node runs
    hints: Mapping[str, Hints] = {}  # of nodes that run one


class Standby:
    """Belongs to the event loop, except `findings` and `services_on`. Hint `standby`: services to run meanwhile; left
    out while the hub warms up, and then the node changes nothing."""

    def __init__(self, registry: Registry, store: LedgerStore, time: HubTime, edges: EdgeReports) -> None:
        self._registry = registry
        self._store = store
        self._time = time
        self._edges = edges
        self._listed: dict[str, Listed] = {}
        self._pulses: dict[str, SignedPulse | None] = {}  # of homes when they came back: only a newer one proves
        self._ready = False
        self._named = {
            record.key.removeprefix(keys.STANDBY): msgspec.json.decode(record.value, type=StandIn)
            for record in store.scan(keys.STANDBY)
        }
        self._shown = Shown()
        self._follow()

    # ---- events

    def committed(self, before: Applied | None, after: Applied) -> None:
        self._follow()

    def _follow(self) -> None:
        applied = self._registry.applied
        entries = applied.table.entries.items() if applied is not None else ()
        self._listed = {
            address: Listed(entry, deployment_of(entry))
            for address, entry in entries
            if entry.failover and entry.containers and address.startswith("service.")
        }
        if self._ready:
            self._look([*self._listed, *self._named])
        else:
            self._show()

    def reported(self, member: Member) -> None:
        """A report can prove only services of the node itself, or those that it is an edge of."""
        if not self._ready:
            return
        mine = [a for a, one in self._listed.items() if one.entry.node == member.name]
        carried = [a for a in self._named if a in self._listed and self._edges.carry(member, self._listed[a].entry)]
        if mine or carried:
            self._look([*mine, *carried])

    def follows_pulses(self, node: str) -> bool:
        """A home that is back proves itself with a newer pulse, even if its report is the same as before."""
        return node in self._shown.homes

    def health_changed(self, member: Member) -> None:
        if member.condition.status == "healthy":
            self._pulses[member.name] = member.pulse
        if self._ready and (self._listed or self._named):
            self._look([*self._listed, *self._named])

    def due(self, loop_s: float) -> float | None:
        """After the warm-up, silence counts."""
        if self._time.is_warm and not self._ready:
            self._ready = True
            self._look([*self._listed, *self._named])
        return None

    # ---- results

    def services_on(self, node: str) -> Mapping[str, float]:
        """Addresses of the services that it runs for silent homes, with the wall time since when."""
        return self._shown.standby.get(node, {})

    def hints(self, node: str) -> Hints:
        return self._shown.hints.get(node, NO_STANDBY) if self._ready else NO_HINTS

    def findings(self, now_s: float) -> Iterator[StatusFinding]:
        applied, shown = self._registry.applied, self._shown
        for member in list(self._registry.members.values()) if applied is not None else ():
            for address, since_s in shown.standby.get(member.name, {}).items():
                entry = applied.table.entries.get(address) if applied is not None else None
                home = entry.node if entry is not None and entry.node is not UNSET else "its own node"
                yield _failed_over(address, member.name, home, now_s - since_s)
            for address in shown.without.get(member.name, ()):
                yield _no_standby(address, member.name, now_s - member.condition.since_s)

    # ---- deciding

    def _look(self, addresses: Iterable[str]) -> None:
        put: dict[str, bytes] = {}
        delete: list[str] = []
        for address in dict.fromkeys(addresses):
            before = self._named.get(address)
            node = self._choice(address, before.node if before is not None else "")
            if node == (before.node if before is not None else ""):
                continue
            if node:
                named = self._named[address] = StandIn(node, self._time.now_s())
                put[keys.standby(address)] = msgspec.json.encode(named)
                log.warning("%s runs %s while its own node is silent", node, address)
            else:
                del self._named[address]
                delete.append(keys.standby(address))
                log.info("no other node runs %s any more", address)
        if put or delete:
            try:
                noted(self._store.submit(Transaction(expect={}, put=put, delete=delete)))
            except HoldfastError as trouble:
                log.warning("the choice of standby nodes was not written down: %s", trouble)
        self._show()

    def _choice(self, address: str, current: str) -> str:
        one = self._listed.get(address)
        if one is None or one.entry.node is UNSET:
            return ""
        home = self._registry.members.get(one.entry.node)
        if home is None:
            return ""
        names = [name for name in one.entry.failover if name != one.entry.node and name in self._registry.members]
        return choose(self._home(home, address, one), current, [self._candidate(name, address) for name in names])

    def _home(self, home: Member, address: str, one: Listed) -> Home:
        state = move_releases.state_of(home, address)
        held = state is not None and state.phase == "held"
        is_new = home.name in self._pulses and home.pulse is not self._pulses[home.name]
        proven = is_new and move_releases.is_proven(home, address, one.entry, one.deployment)
        return Home(_status(home), proven and self._edges.lead_there(address, one.entry), held)

    def _candidate(self, name: str, address: str) -> Candidate:
        applied, member = self._registry.applied, self._registry.members[name]
        assert applied is not None
        state = move_releases.state_of(member, address)
        runs = state is not None and state.standby and state.phase != "held"
        status = _status(member) if member.joined else "silent"  # revoked while it stood in: another node has to
        return Candidate(name, status, applied.table.entries[f"node.{name}"].drained, runs)

    def _show(self) -> None:
        """Sort the choices by node; wake each node whose list changed."""
        by_node: dict[str, dict[str, float]] = {}
        for address, named in sorted(self._named.items()):
            by_node.setdefault(named.node, {})[address] = named.since_s
        homes: dict[str, list[str]] = {}
        for address, one in sorted(self._listed.items()):
            if one.entry.node is not UNSET:
                homes.setdefault(one.entry.node, []).append(address)
        members = self._registry.members
        before = self._shown.standby
        standby = {name: _kept(before.get(name, {}), by_node.get(name, {})) for name in members}
        without = {
            name: tuple(address for address in mine if address not in self._named)
            for name, mine in homes.items()
            if self._ready and name in members and _status(members[name]) == "silent"
        }
        covered = frozenset(name for name, mine in homes.items() if any(address in self._named for address in mine))
        hints = {name: {"standby": tuple(mine)} for name, mine in standby.items() if mine}
        self._shown = Shown(standby, without, covered, hints)
        for name, member in members.items():
            if standby[name].keys() != before.get(name, {}).keys():
                member.bell.ring()


def _kept(before: Mapping[str, float], now: Mapping[str, float]) -> Mapping[str, float]:
    """The same services stay as they were, with their times."""
    return before if before.keys() == now.keys() else now


def _failed_over(address: str, node: str, home: str, age_s: float) -> StatusFinding:
    name = address.removeprefix("service.")
    text = f"{name} runs on {node} in place of {home}, which is silent or does not run it yet"
    return _finding("failed_over", address, node, text, age_s)


def _no_standby(address: str, node: str, age_s: float) -> StatusFinding:
    name = address.removeprefix("service.")
    text = f"{node} is silent, and none of the nodes that may run {name} in its place is healthy"
    return _finding("no_standby", address, node, text, age_s)


def _finding(code: str, address: str, node: str, text: str, age_s: float) -> StatusFinding:
    level, remedy = ROWS[code]
    return StatusFinding(code, level, text, remedy.format(node=node), address, round(max(0.0, age_s), 3))


def _status(member: Member) -> Status:
    if member.joined and member.condition.status == "healthy":
        return "healthy"
    return "silent" if member.joined and member.condition.status == "unhealthy" else "unclear"
