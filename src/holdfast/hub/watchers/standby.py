"""Who stands in for whom: services of silent nodes that another node, listed by their operators, runs meanwhile.

The hub chooses among the nodes in a service's signed `failover` list and nothing else; a node runs only what its own
signed manifest lists as standby. Such services have no data, so two copies for a moment harm nobody. What was said is
one small record per service in the ledger: a restarted hub goes on saying it, and changes nothing while it warms up.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from msgspec import UNSET, Struct

from holdfast.errors import HoldfastError
from holdfast.hub.ledger.writes import noted
from holdfast.hub.nodes.member import Member
from holdfast.hub.nodes.registry import Registry
from holdfast.hub.watchers import move_releases
from holdfast.hub.watchers.edge_reports import EdgeReports
from holdfast.ledger import keys
from holdfast.model.deployment import deployment_of
from holdfast.model.report import SignedPulse
from holdfast.model.revision import Entry
from holdfast.ports.clock import Clock
from holdfast.ports.ledger_store import LedgerStore, Transaction

log = logging.getLogger("holdfast.fleet")

# unclear: not joined, not heard since this hub started, or being probed. Nothing begins or ends because of that.
Status = Literal["healthy", "silent", "unclear"]


class Home(Struct, frozen=True):
    """The node a service is placed on. `proven`: it said since it is back that the service runs there as applied, and
    its edges lead there again."""

    status: Status
    proven: bool = False
    held: bool = False  # stopped on purpose: nobody starts it elsewhere


class Candidate(Struct, frozen=True):
    name: str
    status: Status
    drained: bool = False
    runs: bool = False  # says it stands in already


def choose(home: Home, current: str, candidates: Sequence[Candidate]) -> str:
    """The name of the node that stands in from now on, "" for none. `candidates` as listed, first choice first."""
    here = next((one for one in candidates if one.name == current), None)
    if home.held or (home.status == "healthy" and home.proven):
        return ""
    if here is not None and (home.status != "silent" or here.status != "silent"):
        return current  # sticky: until its home is proven, or it falls silent itself
    running = [one.name for one in candidates if one.runs and one.status != "silent"]
    if home.status == "healthy" or (home.status == "unclear" and not running):
        return ""
    free = [one.name for one in candidates if one.status == "healthy" and not one.drained]
    return next(iter([*running, *free]), current if here is not None else "")


class StandIn(Struct, frozen=True):
    """What survives a restart of the hub."""

    node: str
    since_s: float


class Listed(Struct, frozen=True):
    """A service that may fail over, as applied."""

    entry: Entry
    deployment: str


class Standby:
    """Belongs to the event loop. What it decides stands in the members' `standby`; their bells ring when it changes."""

    def __init__(self, registry: Registry, store: LedgerStore, clock: Clock, edges: EdgeReports) -> None:
        self._registry = registry
        self._edges = edges
        self._store = store
        self._clock = clock
        self._listed: dict[str, Listed] = {}
        self._words: dict[str, SignedPulse | None] = {}  # of homes when they came back: what is newer proves
        self._ready = False
        self._named = {
            record.key.removeprefix(keys.STANDBY): msgspec.json.decode(record.value, type=StandIn)
            for record in store.scan(keys.STANDBY)
        }
        self.follow()

    # ---- what happens

    def follow(self) -> None:
        """Another revision is applied."""
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

    def begin(self) -> None:
        """The warm-up is over: from now on silence is silence."""
        self._ready = True
        self._look([*self._listed, *self._named])

    def changed(self, member: Member) -> None:
        """A node is not as it was."""
        if member.condition.status == "healthy":
            self._words[member.name] = member.pulse
        if self._ready and (self._listed or self._named):
            self._look([*self._listed, *self._named])

    def told(self, member: Member) -> None:
        """A node spoke; only its own services, or those it is an edge of, can be proven by that."""
        if not self._ready:
            return
        mine = [a for a, one in self._listed.items() if one.entry.node == member.name]
        carried = [a for a in self._named if a in self._listed and self._edges.carry(member, self._listed[a].entry)]
        if mine or carried:
            self._look([*mine, *carried])

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
                named = self._named[address] = StandIn(node, self._clock.now_s())
                put[keys.standby(address)] = msgspec.json.encode(named)
                log.warning("%s stands in for the silent home of %s", node, address)
            else:
                del self._named[address]
                delete.append(keys.standby(address))
                log.info("nobody stands in for %s any more", address)
        if put or delete:
            try:
                noted(self._store.submit(Transaction(expect={}, put=put, delete=delete)))
            except HoldfastError as trouble:
                log.warning("who stands in was not written down: %s", trouble)
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
        is_new = home.name in self._words and home.pulse is not self._words[home.name]
        proven = is_new and move_releases.is_proven(home, address, one.entry, one.deployment)
        return Home(_status(home), proven and self._edges.lead_there(address, one.entry), held)

    def _candidate(self, name: str, address: str) -> Candidate:
        applied, member = self._registry.applied, self._registry.members[name]
        assert applied is not None
        state = move_releases.state_of(member, address)
        runs = state is not None and state.standby and state.phase != "held"
        status = _status(member) if member.joined else "silent"  # shut out while it stood in: somebody else has to
        return Candidate(name, status, applied.table.entries[f"node.{name}"].drained, runs)

    # ---- showing

    def _show(self) -> None:
        """Every member's own list, and which homes are listened to word by word."""
        by_node: dict[str, dict[str, float]] = {}
        for address, named in sorted(self._named.items()):
            by_node.setdefault(named.node, {})[address] = named.since_s
        homes: dict[str, list[str]] = {}
        for address, one in sorted(self._listed.items()):
            if one.entry.node is not UNSET:
                homes.setdefault(one.entry.node, []).append(address)
        for name, member in self._registry.members.items():
            mine = homes.get(name, [])
            member.has_standby = any(address in self._named for address in mine)
            silent = self._ready and _status(member) == "silent"
            member.without_standby = tuple(address for address in mine if silent and address not in self._named)
            runs = by_node.get(name, {})
            if runs.keys() != member.standby.keys():
                member.standby = runs
                member.bell.ring()


def _status(member: Member) -> Status:
    if member.joined and member.condition.status == "healthy":
        return "healthy"
    return "silent" if member.joined and member.condition.status == "unhealthy" else "unclear"
