"""The rules of a rollout: the next steps of a service, from the current state, forward and back. Pure.

Forward, the target is what is wanted; after a failure it is what served before. Between two steps nothing is kept, so a
crash anywhere is only a longer pause. Guaranteed: nothing changes before every image is present; no healthy old
container goes before all new ones beside it are healthy and the routes are switched; two containers that write into
the same directory never run at once; removals come last.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from holdfast.model.container import LABEL_DEPLOYMENT, Container, ContainerSpec, Guest, Part
from holdfast.reconcile.here import Here, Seen
from holdfast.reconcile.steps import (
    AwaitHealthy,
    Certify,
    Checkpoint,
    CopyAhead,
    Create,
    Drain,
    Fail,
    Hook,
    MakeNetwork,
    Pull,
    Remove,
    RemoveNetwork,
    Start,
    Step,
    Stop,
    Switch,
    Unlist,
    Unroute,
    When,
    Which,
)


def next_step(target: Guest | None, here: Here) -> Step | None:
    """None: nothing to do."""
    steps = next_steps(target, here)
    return steps[0] if steps else None


def next_steps(target: Guest | None, here: Here) -> tuple[Step, ...]:
    """All next steps that may run at the same time. A target of None is retired."""
    view = _look(target, here)
    for rule in _rules(view):
        if steps := tuple(rule(view)):
            return steps
    return ()


def is_settled(target: Guest, serving: Guest | None) -> bool:
    """Whether exactly this target was switched to. If the agent derives other containers from the entry, it is not."""
    return serving is not None and serving.deployment == target.deployment and _shape(serving) == _shape(target)


def _shape(guest: Guest) -> dict[str, tuple[str, int]]:
    return {part.spec.component: (part.digest, part.replicas) for part in guest.parts}


# ---- the state a rule sees ------------------------------------------------------------------------------------------

Slot = tuple[str, int]  # component, replica


class View(Struct, frozen=True):
    """Every container of the service is either the keeper of one slot of the target, or an extra that has to go."""

    here: Here
    parts: tuple[Part, ...]
    keepers: dict[Slot, Seen]
    extras: tuple[Seen, ...]
    settled: bool
    resting: bool  # stopped by an order, or declared inactive
    retired: bool

    def slots(self, part: Part) -> Iterator[tuple[int, Seen | None]]:
        for replica in range(part.replicas):
            yield replica, self.keepers.get((part.spec.component, replica))

    def kept(self, part: Part) -> Iterator[Seen]:
        return (seen for _, seen in self.slots(part) if seen is not None)

    def is_missing(self, part: Part) -> bool:
        return any(seen is None for _, seen in self.slots(part))

    def owes_start(self, seen: Seen) -> bool:
        return not seen.alive and seen.container.id not in self.here.tried

    def newcomers(self) -> Iterator[tuple[Part, Seen]]:
        return ((part, seen) for part in self.parts for seen in self.kept(part) if not self.is_proven(seen))

    def is_proven(self, seen: Seen) -> bool:
        """It has served before, so the new containers are not the reason that it is unhealthy."""
        for part in self.here.serving.parts if self.here.serving else ():
            if (part.spec.component, part.digest) == (seen.container.component, seen.container.spec):
                return seen.container.replica < part.replicas
        return False

    def strangers(self, part: Part) -> list[Container]:
        """They may write where this part would; that is unknown, and the agent may not stop them."""
        return [one for one in self.here.strangers if part.spec.mounts and one.running]

    def rivals(self, part: Part) -> list[Seen]:
        """Extras that must not run together with this part, whatever state they are in now."""
        return [seen for seen in self.extras if part.recreate and self._shares(part, seen)]

    def owes_checkpoint(self, part: Part) -> bool:
        """Another writer is about to get its data. Once it serves, what runs has the data already."""
        if part.spec.component not in self.here.owed:
            return False
        return not self.settled or any(map(self.owes_start, self.kept(part)))

    def writers(self, part: Part) -> list[Seen]:
        """Containers that may write into its data now, and have to be stopped first."""
        staying = self.keepers.values() if self.owes_checkpoint(part) else ()
        sharing = [seen for seen in staying if self._shares(part, seen)]
        return [seen for seen in (*self.rivals(part), *sharing) if seen.may_run]

    def _shares(self, part: Part, seen: Seen) -> bool:
        if seen.container.component == part.spec.component:
            return True
        if not part.spec.mounts:
            return False
        # A renamed component keeps the directories of its volumes. The mounts of a lost attempt are unknown.
        spec = self._spec_of(seen.container.spec)
        return spec is None or _overlap(part.spec, spec)

    def _spec_of(self, digest: str) -> ContainerSpec | None:
        serving = self.here.serving.parts if self.here.serving else ()
        return next((part.spec for part in (*self.parts, *serving) if part.digest == digest), None)


def _overlap(one: ContainerSpec, other: ContainerSpec) -> bool:
    pairs = ((a.source.rstrip("/") + "/", b.source.rstrip("/") + "/") for a in one.mounts for b in other.mounts)
    return any(a.startswith(b) or b.startswith(a) for a, b in pairs)


def _look(target: Guest | None, here: Here) -> View:
    parts = target.parts if target else ()
    keepers = keepers_of(target, here)
    kept = {seen.container.id for seen in keepers.values()}
    extras = tuple(seen for seen in _ordered(here) if seen.container.id not in kept)
    settled = target is not None and is_settled(target, here.serving)
    resting = here.held or (target is not None and not target.active)
    return View(here, parts, keepers, extras, settled, resting, retired=target is None)


def keepers_of(target: Guest | None, here: Here) -> dict[Slot, Seen]:
    """The one container of each slot; of several (a journal was lost) the best, and the same one every time."""
    keepers: dict[Slot, Seen] = {}
    digests = {part.spec.component: part for part in target.parts} if target else {}
    for seen in sorted(_ordered(here), key=lambda seen: _rank(seen, here.routed or frozenset())):
        part = digests.get(seen.container.component)
        if part and part.digest == seen.container.spec and seen.container.replica < part.replicas:
            keepers.setdefault((part.spec.component, seen.container.replica), seen)
    return keepers


def _ordered(here: Here) -> list[Seen]:
    return sorted(
        here.containers, key=lambda seen: (seen.container.component, seen.container.replica, seen.container.id)
    )


def _rank(seen: Seen, routed: frozenset[str]) -> tuple[int, bool]:
    state = 0 if seen.is_well else 1 if seen.alive else 2
    return state, seen.container.id not in routed


# ---- the rules ------------------------------------------------------------------------------------------------------


def _failure(view: View) -> Iterator[Step]:
    """A new container that failed. One that served before is left to recover: it would fail after a rollback too."""
    ill = ((part, seen) for part, seen in view.newcomers() if seen.health in WHY and not view.owes_start(seen))
    return _first(_fail(part, seen) for part, seen in ill)


def _fail(part: Part, seen: Seen) -> Step:
    again = f"it ended again after each of {seen.container.restarts} restarts"
    ended = again if seen.container.restarts > 1 else ENDED
    return Fail(part, seen.container, WHY.get(seen.health, ended) if seen.container.running else ended)


ENDED = "it ended and was not restarted"
WHY = {"failed": "it did not become healthy in time", "unhealthy": "it became healthy, then unhealthy again"}


def _stranger(view: View) -> Iterator[Step]:
    idle = (part for part in view.parts if view.is_missing(part) or any(map(view.owes_start, view.kept(part))))
    return _first(Fail(part, stranger, STRANGER) for part in idle for stranger in view.strangers(part))


STRANGER = "it has this service's labels, was not made by this agent, and may write into the same data"


def _pulls(view: View) -> Iterator[Step]:
    needed = (part for part in view.parts if view.is_missing(part) or _owes_hook(view, part, "pre_deploy"))
    images = {part.spec.reference: part.spec.image for part in needed}
    return (Pull(reference, image) for reference, image in images.items() if reference not in view.here.images)


def _networks(view: View) -> Iterator[Step]:
    active = (
        part
        for part in view.parts
        if view.is_missing(part) or _owes_hook(view, part, "pre_deploy") or any(map(view.owes_start, view.kept(part)))
    )
    wanted = {part.spec.network for part in active if part.spec.network}
    return (MakeNetwork(network) for network in sorted(wanted - view.here.networks))


def _owes_hook(view: View, part: Part, when: When) -> bool:
    if when == "pre_deploy":
        return bool(part.pre_deploy) and not view.settled and (part.spec.component, when) not in view.here.hooks
    return bool(part.post_deploy) and (part.spec.component, when) not in view.here.hooks


def _pre_deploy(view: View) -> Iterator[Step]:
    """One after the other, in the order of the file: a later one may depend on an earlier one."""
    owed = (Hook(part, "pre_deploy") for part in view.parts if _owes_hook(view, part, "pre_deploy"))
    return _first(owed)


def _post_deploy(view: View) -> Iterator[Step]:
    owed = (Hook(part, "post_deploy") for part in view.parts if _owes_hook(view, part, "post_deploy"))
    return _first(owed)


def _first(steps: Iterator[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        return


def _creations(view: View) -> Iterator[Step]:
    """Also for parts that are replaced in place: the old one is not stopped for one that cannot be created."""
    for part in view.parts:
        for replica, seen in view.slots(part):
            if seen is None:
                yield Create(part, replica)


def _starts_beside(view: View) -> Iterator[Step]:
    for part in view.parts:
        if _is_beside(view, part):
            yield from _starts(view, part)


def _is_beside(view: View, part: Part) -> bool:
    """Nothing has to be stopped before it is started."""
    return not view.rivals(part) and not view.owes_checkpoint(part)


def _starts(view: View, part: Part) -> Iterator[Step]:
    if not view.strangers(part):
        yield from (Start(seen.container, part) for seen in view.kept(part) if view.owes_start(seen))


def _healthy_beside(view: View) -> Iterator[Step]:
    return _await(view, [part for part in view.parts if _is_beside(view, part)])


def _all_healthy(view: View) -> Iterator[Step]:
    return _await(view, view.parts)


def _await(view: View, parts: Sequence[Part]) -> Iterator[Step]:
    starting = (seen for part in parts for seen in view.kept(part) if seen.alive and seen.health == "starting")
    if containers := tuple(seen.container for seen in starting):
        yield AwaitHealthy(containers)


def _replaced_in_place(view: View) -> Iterator[Step]:
    """One part after the other, so that as little as possible is down at a time."""
    for part in view.parts:
        steps = () if _is_beside(view, part) else tuple(_replace(view, part))
        if steps:
            return iter(steps)
    return iter(())


def _replace(view: View, part: Part) -> Iterator[Step]:
    owes = view.owes_checkpoint(part)
    if owes and part.spec.component not in view.here.ahead:
        return iter((CopyAhead(part, more=sum(map(view.owes_checkpoint, view.parts)) - 1),))
    if writers := view.writers(part):
        return (_stop(view, seen) for seen in writers)
    if owes:
        return iter((Checkpoint(part),))
    starts = tuple(_starts(view, part))
    if starts or view.settled:
        return iter(starts)
    return _await(view, [part])


def _unproven(view: View) -> Iterator[Step]:
    """A last check: nothing is switched to a new container that is not healthy now."""
    return _first(_fail(part, seen) for part, seen in view.newcomers() if not seen.is_well)


def _certificates(view: View) -> Iterator[Step]:
    """Before any route uses it: without its certificate the deployment fails (M-84)."""
    if view.here.routed is not None and not view.here.certified:
        yield Certify()


def _switch(view: View) -> Iterator[Step]:
    here = view.here
    if not view.settled or here.misrouted or (here.routed is not None and here.routed != _wanted_routed(view)):
        yield Switch()


def _wanted_routed(view: View) -> frozenset[str]:
    return frozenset(seen.container.id for part in view.parts for seen in backends(part, view.keepers, view.here))


def backends(part: Part, keepers: dict[Slot, Seen], here: Here) -> tuple[Seen, ...]:
    """The backends: healthy containers, and routed ones that are not judged yet (the agent restarted). If there are
    none, all of them: a route without backends does not help, and a short crash need not rewrite the proxy."""
    if not part.routes:
        return ()
    slots = ((part.spec.component, replica) for replica in range(part.replicas))
    kept = tuple(keepers[slot] for slot in slots if slot in keepers)
    return tuple(seen for seen in kept if _answers(seen, here.routed or frozenset())) or kept


def _answers(seen: Seen, routed: frozenset[str]) -> bool:
    unjudged = seen.container.running and seen.health == "starting"
    return seen.is_well or (unjudged and seen.container.id in routed)


def _unroute(view: View) -> Iterator[Step]:
    if view.here.routed:
        yield Unroute()


def _unlist(view: View) -> Iterator[Step]:
    """A stopped service keeps its names. One that left does not, also if it was stopped: DNS and edges would believe
    this node again as soon as the service is to come back."""
    if view.here.listed and (view.retired or not view.here.held):
        yield Unlist()


def _drain(view: View) -> Iterator[Step]:
    """Containers that may have got requests: one that never became healthy did not, but of one that is not judged yet
    that is unknown after a restart of the agent."""
    if view.here.routed is None:
        return
    busy = (seen for seen in _leaving(view) if seen.container.running and seen.health != "failed")
    containers = tuple(seen.container for seen in busy if seen.container.id not in view.here.drained)
    if containers:
        yield Drain(containers)


def _stops(view: View) -> Iterator[Step]:
    """While the service rests nothing else gets its data: a container that the runtime restarts is stopped then."""
    return (_stop(view, seen) for seen in _leaving(view) if seen.alive or (seen.returns and not view.resting))


def _leaving(view: View) -> tuple[Seen, ...]:
    return (*view.keepers.values(), *view.extras) if view.resting else view.extras


def _stop(view: View, seen: Seen) -> Stop:
    return Stop(seen.container, _which(view, seen))


def _which(view: View, seen: Seen) -> Which:
    if view.resting or view.retired:
        return ""
    return "failed" if seen.container.labels.get(LABEL_DEPLOYMENT) == view.here.failed else "old"


def _removals(view: View) -> Iterator[Step]:
    return (Remove(seen.container, _which(view, seen)) for seen in view.extras)


def _unused_networks(view: View) -> Iterator[Step]:
    used = {part.spec.network for part in view.parts}
    return (RemoveNetwork(network) for network in sorted(view.here.networks - used))


# ---- the order ------------------------------------------------------------------------------------------------------

Rule = Callable[[View], Iterator[Step]]

ATTEMPT: tuple[Rule, ...] = (
    _failure,
    _stranger,
    _pulls,
    _networks,
    _pre_deploy,
    _creations,
    _starts_beside,
    _healthy_beside,
    _replaced_in_place,
    _unproven,
    _certificates,
    _switch,
)
SETTLED: tuple[Rule, ...] = (
    _pulls,
    _networks,
    _creations,
    _starts_beside,
    _replaced_in_place,
    _certificates,
    _switch,
    _drain,
    _stops,
    _removals,
    _post_deploy,
    _unused_networks,
    _all_healthy,  # last: routes are corrected and failed ones removed while one is still starting
)
RESTING: tuple[Rule, ...] = (_unroute, _drain, _stops, _unlist)  # containers stay, to be started again unchanged
RETIRED: tuple[Rule, ...] = (_unroute, _drain, _stops, _removals, _unlist, _unused_networks)


def _rules(view: View) -> tuple[Rule, ...]:
    if view.retired:
        return RETIRED
    if view.resting:
        return RESTING
    return SETTLED if view.settled else ATTEMPT
