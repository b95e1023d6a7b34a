"""Which revisions came true: every service of them was once reported as converged, and every public hostname of them as
live on its edge. Notes, never part of a revision."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from holdfast.hub.ledger.writes import noted
from holdfast.hub.nodes.member import Member
from holdfast.hub.nodes.registry import Registry
from holdfast.hub.watchers import edge_reports
from holdfast.hub.watchers.deployments import Deployments, Placed
from holdfast.ledger import keys
from holdfast.model.deployment import ServiceState
from holdfast.model.revision import NO_HEAD, Head
from holdfast.planning.public_routes import carried
from holdfast.ports.clock import Clock
from holdfast.ports.ledger_store import LedgerStore, Transaction


class Converged(Struct, frozen=True):
    """`digest` binds the note to the revision of that number it was made for."""

    digest: str
    at_s: float


class Convergence:
    """Belongs to the event loop, but `among`. A node that is silent takes nothing back that it reported before."""

    def __init__(self, registry: Registry, store: LedgerStore, clock: Clock, deployments: Deployments) -> None:
        self._registry = registry
        self._store = store
        self._clock = clock
        self._deployments = deployments
        kept = store.scan(keys.CONVERGED_SERVICES)
        # service → the deployment that converged last; hostname, marked as one → where it was live last
        self._good = {one.key.removeprefix(keys.CONVERGED_SERVICES): one.value.decode() for one in kept}
        self._noted = NO_HEAD

    def begin(self) -> None:
        """What was heard before this hub listened."""
        self.follow()
        for member in list(self._registry.members.values()):
            self.heard(member)

    def follow(self) -> None:
        self._check_head({})

    def heard(self, member: Member) -> None:
        put: dict[str, bytes] = {}
        for state in member.report.services if member.report is not None else ():
            if self._is_good(state, member) and self._good.get(state.service) != state.applied:
                self._good[state.service] = state.applied
                put[keys.converged_service(state.service)] = state.applied.encode()
        self._note_live(member, put)
        self._check_head(put)

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
        """Marks the head once nothing of it is missing; writes what is new either way."""
        applied = self._registry.applied
        if applied is not None and applied.head != self._noted and self._is_complete():
            self._noted = applied.head
            mark = Converged(applied.head.digest, self._clock.now_s())
            put[keys.converged(applied.head.number)] = msgspec.json.encode(mark)
        if put:
            noted(self._store.submit(Transaction(expect={}, put=put)))

    def _is_complete(self) -> bool:
        return all(self._is_good_enough(service, placed) for service, placed in self._deployments.placed.items())

    def _is_good_enough(self, service: str, placed: Placed) -> bool:
        if self._is_left_alone(placed.node):
            return True
        return self._good.get(service) == placed.deployment and all(
            self._good.get(_public(hostname)) == _target(hostname, placed) or self._is_left_alone(route.edge)
            for hostname, route in carried(placed.entry).items()
        )

    def _is_left_alone(self, node: str) -> bool:
        """An observing node deploys nothing, so that there is nothing to wait for."""
        member = self._registry.members.get(node)
        return member is not None and member.report is not None and member.report.mode == "observe"

    def among(self, revisions: Sequence[Head]) -> tuple[int, ...]:
        """Numbers of those that converged. From any thread."""
        return tuple(revision.number for revision in revisions if self._has(revision))

    def _has(self, revision: Head) -> bool:
        record = self._store.get(keys.converged(revision.number))
        return record is not None and msgspec.json.decode(record.value, type=Converged).digest == revision.digest


def _public(hostname: str) -> str:
    """No service is called like that."""
    return f"public/{hostname}"


def _target(hostname: str, placed: Placed) -> str:
    """Where it must lead, from which edge."""
    route = placed.entry.public[hostname]
    return f"{route.edge} {placed.node} {placed.entry.epoch} {route.backend}"
