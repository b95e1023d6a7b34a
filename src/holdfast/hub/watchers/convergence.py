"""Which revisions converged: every service reported converged, every public hostname live.

Stored as records of the hub, never as part of a revision.
"""

from collections.abc import Sequence

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


class Converged(Struct, frozen=True):
    """`digest` binds the record to the one revision of that number it was made for."""

    digest: str
    at_s: float


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
        self._noted = NO_HEAD
        self._begun = False

    def committed(self, before: Applied | None, after: Applied) -> None:
        self._check_head({})

    def reported(self, member: Member) -> None:
        put: dict[str, bytes] = {}
        for state in member.report.services if member.report is not None else ():
            if self._is_good(state, member) and self._good.get(state.service) != state.applied:
                self._good[state.service] = state.applied
                put[keys.converged_service(state.service)] = state.applied.encode()
        self._note_live(member, put)
        self._check_head(put)

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
