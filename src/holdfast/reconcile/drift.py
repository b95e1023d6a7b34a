"""Detect drift: differences between the wanted and the observed state, by kind. Deterministic, pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, get_args

from msgspec import Struct

from holdfast.model import canonical
from holdfast.model.container import Guest, Part
from holdfast.reconcile import rollout
from holdfast.reconcile.here import Here, Seen
from holdfast.reconcile.steps import AwaitHealthy, Certify, Step, Switch, Unlist, Unroute

Kind = Literal[
    "missing",
    "orphaned",
    "wrong_state",
    "image_mismatch",
    "spec_changed",
    "unsettled",  # every container is as wanted, but the deployment has steps left
    "routes",
]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Drift(Struct, frozen=True, order=True):
    service: str
    kind: Kind
    component: str = ""
    replica: int = 0
    container: str = ""  # id


# ---- one container --------------------------------------------------------------------------------------------------

Fit = Literal["another image", "another spec", "wrong state", "as wanted"]

# T-10: a place (declared component and replica, or not) × the container in it. A container made from another spec has
# that kind first; whether it runs is checked only for the right one.
TABLE: Mapping[tuple[bool, Fit | None], Kind | None] = {
    (True, None): "missing",
    (True, "another image"): "image_mismatch",
    (True, "another spec"): "spec_changed",
    (True, "wrong state"): "wrong_state",
    (True, "as wanted"): None,
    (False, None): None,
    (False, "another image"): "orphaned",
    (False, "another spec"): "orphaned",
    (False, "wrong state"): "orphaned",
    (False, "as wanted"): "orphaned",  # a second copy: one is enough
}


def fit(part: Part, seen: Seen) -> Fit:
    if seen.container.spec != part.digest:
        return "another spec" if seen.container.image == part.spec.reference else "another image"
    return "as wanted" if seen.alive else "wrong state"


def containers(target: Guest | None, here: Here) -> tuple[Drift, ...]:
    """Of one service. While it is stopped, only a running container is wrong: nothing is created or replaced."""
    if here.held or (target is not None and not target.active):
        return tuple(sorted(_drift(seen, "wrong_state") for seen in here.containers if seen.alive))
    return tuple(sorted((*_places(target, here), *_extras(target, here))))


def _places(target: Guest | None, here: Here) -> Iterator[Drift]:
    in_place = _in_place(target, here)
    for part in target.parts if target else ():
        for replica in range(part.replicas):
            seen = in_place.get((part.spec.component, replica))
            if kind := TABLE[True, fit(part, seen) if seen else None]:
                yield Drift(part.spec.service, kind, part.spec.component, replica, seen.container.id if seen else "")


def _in_place(target: Guest | None, here: Here) -> dict[rollout.Slot, Seen]:
    """The right container of each place; if there is none, the one it will replace."""
    places = dict(rollout.keepers_of(target, here))
    wanted = {part.spec.component: part.replicas for part in target.parts} if target else {}
    for seen in sorted(here.containers, key=lambda seen: (not seen.alive, seen.container.id)):
        if seen.container.replica < wanted.get(seen.container.component, 0):
            places.setdefault((seen.container.component, seen.container.replica), seen)
    return places


def _extras(target: Guest | None, here: Here) -> Iterator[Drift]:
    in_place = {seen.container.id for seen in _in_place(target, here).values()}
    return (_drift(seen, "orphaned") for seen in here.containers if seen.container.id not in in_place)


def _drift(seen: Seen, kind: Kind) -> Drift:
    one = seen.container
    return Drift(one.service, kind, one.component, one.replica, one.id)


# ---- one service ----------------------------------------------------------------------------------------------------


def service(name: str, target: Guest | None, here: Here) -> tuple[Drift, ...]:
    """Its containers; if these are right, its routes, and what else the rollout has not finished."""
    if found := containers(target, here):
        return found
    steps = due(target, here)
    if not steps:
        return ()
    settled = target is None or here.held or not target.active or rollout.is_settled(target, here.serving)
    only_routes = settled and isinstance(steps[0], Certify | Switch | Unroute | Unlist)
    return (Drift(name, "routes" if only_routes else "unsettled"),)


def due(target: Guest | None, here: Here) -> tuple[Step, ...]:
    """Steps that change something. Waiting for a restarted container is no drift."""
    steps = rollout.next_steps(target, here)
    waits = target is not None and rollout.is_settled(target, here.serving)
    return tuple(step for step in steps if not (waits and isinstance(step, AwaitHealthy)))


# ---- whole subsystems -----------------------------------------------------------------------------------------------


def digest(rows: Iterable[Any]) -> str:
    """Over sorted rows: the order in which they were found makes no difference (T-09, T-11…T-13)."""
    return canonical.digest(b"[" + b",".join(sorted(map(canonical.encode, rows))) + b"]")


def subsystems(found: Iterable[Drift]) -> list[str]:
    """A service whose containers are right may have other steps left: that is a deployment, not drift."""
    differing = {"routes" if one.kind == "routes" else "containers" for one in found if one.kind != "unsettled"}
    return sorted(differing)
