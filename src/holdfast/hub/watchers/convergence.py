"""Which revisions converged: every service reported converged and its containers work, every public hostname live.

Stored as records of the hub, never as part of a revision. A service whose containers stop working soon after it
converged did not work: what this process noted of it is taken back, so that no rollback returns to it.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from holdfast.hub.hub_time import HubTime
from holdfast.hub.ledger.writes import noted
from holdfast.hub.nodes.member import Member
from holdfast.hub.nodes.registry import Registry
from holdfast.hub.watchers import edge_reports
from holdfast.hub.watchers.deployments import Deployments, Placed
from holdfast.ledger import keys
from holdfast.model.applied import Applied
from holdfast.model.deployment import ServiceState
from holdfast.model.revision import NO_HEAD, Head
from holdfast.planning.public_routes import carried
from holdfast.ports.ledger_store import LedgerStore, Transaction
from holdfast.status.services import serving

PROVEN_S = 600.0  # a service that works for so long has worked


class Converged(Struct, frozen=True):
    """`digest` binds the record to the one revision of that number it was made for."""

    digest: str
    at_s: float


class _Marked(Struct, frozen=True):
    head: Head
    deployments: Mapping[str, str]


class Convergence:
    """Belongs to the event loop, except `among`. What a node reported counts on while it is silent."""

    def __init__(self, registry: Registry, store: LedgerStore, time: HubTime, deployments: Deployments) -> None:
        self._registry = registry
        self._store = store
        self._time = time
        self._deployments = deployments
        kept = store.scan(keys.CONVERGED_SERVICES)
        # service → deployment that converged last; "public/HOSTNAME" → where it was live last
        self._good = {one.key.removeprefix(keys.CONVERGED_SERVICES): one.value.decode() for one in kept}
        self._young: dict[str, float] = {}  # service → when it converged, for PROVEN_S
        self._marked: list[_Marked] = []  # by this process, while a service is young
        self._noted = NO_HEAD
        self._begun = False

    def committed(self, before: Applied | None, after: Applied) -> None:
        self._check_head({})

    def reported(self, member: Member) -> None:
        put: dict[str, bytes] = {}
        self._forget_proven()
        for state in member.report.services if member.report is not None else ():
            is_noted = self._good.get(state.service) == state.applied
            if (is_noted and state.service not in self._young) or not self._is_good(state, member):
                continue
            works = member.report is not None and not serving.ill(state, member.report)
            if works and not is_noted:
                self._young[state.service] = self._time.now_s()
                self._good[state.service] = state.applied
                put[keys.converged_service(state.service)] = state.applied.encode()
            elif is_noted and not works:
                self._take_back(state.service)
        self._note_live(member, put)
        self._check_head(put)

    def _forget_proven(self) -> None:
        now_s = self._time.now_s()
        if any(now_s - at_s >= PROVEN_S for at_s in self._young.values()):
            self._young = {service: at_s for service, at_s in self._young.items() if now_s - at_s < PROVEN_S}
        if not self._young:
            self._marked.clear()

    def _take_back(self, service: str) -> None:
        deployment = self._good.pop(service)
        del self._young[service]
        gone = [one for one in self._marked if one.deployments.get(service) == deployment]
        self._marked = [one for one in self._marked if one not in gone]
        if any(one.head == self._noted for one in gone):
            self._noted = NO_HEAD
        delete = (keys.converged_service(service), *(keys.converged(one.head.number) for one in gone))
        noted(self._store.submit(Transaction(expect={}, put={}, delete=delete)))

    def due(self, loop_s: float) -> float | None:
        """Begin with what nodes reported to an earlier hub process."""
        if not self._begun:
            self._begun = True
            self._check_head({})
            for member in list(self._registry.members.values()):
                self.reported(member)
        return None

    def _note_live(self, member: Member, put: dict[str, bytes]) -> None:
        for state in member.report.edge if member.report is not None else ():
            placed = self._deployments.placed.get(state.service)
            if placed is None or not edge_reports.is_live(member, state.hostname, state.service, placed.entry):
                continue
            name, where = _public(state.hostname), _target(state.hostname, placed)
            if placed.entry.public[state.hostname].edge == member.name and self._good.get(name) != where:
                self._good[name] = where
                put[keys.converged_service(name)] = where.encode()

    def _is_good(self, state: ServiceState, member: Member) -> bool:
        placed = self._deployments.placed.get(state.service)
        if placed is None or placed.node != member.name or placed.deployment != state.applied:
            return False
        return state.phase == ("converged" if placed.is_active else "held") or state.phase == "converged"

    def _check_head(self, put: dict[str, bytes]) -> None:
        """Record that the head converged once all of it did; write `put` in any case."""
        applied = self._registry.applied
        if applied is not None and applied.head != self._noted and self._is_complete():
            self._noted = applied.head
            placed = {service: one.deployment for service, one in self._deployments.placed.items()}
            self._marked += [_Marked(applied.head, placed)] if self._young else []
            mark = Converged(applied.head.digest, self._time.now_s())
            put[keys.converged(applied.head.number)] = msgspec.json.encode(mark)
        if put:
            noted(self._store.submit(Transaction(expect={}, put=put)))

    def _is_complete(self) -> bool:
        return all(self._is_good_enough(service, placed) for service, placed in self._deployments.placed.items())

    def _is_good_enough(self, service: str, placed: Placed) -> bool:
        if self._observes(placed.node):
            return True
        return self._good.get(service) == placed.deployment and all(
            self._good.get(_public(hostname)) == _target(hostname, placed) or self._observes(route.edge)
            for hostname, route in carried(placed.entry).items()
        )

    def _observes(self, node: str) -> bool:
        """A node in observe mode deploys nothing, so there is nothing to wait for."""
        member = self._registry.members.get(node)
        return member is not None and member.report is not None and member.report.mode == "observe"

    def among(self, revisions: Sequence[Head]) -> tuple[int, ...]:
        """The numbers of those that converged."""
        return tuple(revision.number for revision in revisions if self._has(revision))

    def _has(self, revision: Head) -> bool:
        record = self._store.get(keys.converged(revision.number))
        return record is not None and msgspec.json.decode(record.value, type=Converged).digest == revision.digest


def _public(hostname: str) -> str:
    """Its key beside those of services: no service has such a name."""
    return f"public/{hostname}"


def _target(hostname: str, placed: Placed) -> str:
    """The backend that it must lead to, and the edge that has it."""
    route = placed.entry.public[hostname]
    return f"{route.edge} {placed.node} {placed.entry.epoch} {route.backend}"
