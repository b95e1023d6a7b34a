"""A machine made of values: it performs the steps of a rollout, crashes when told to, and checks every promise at once.

It plays the agent as the agent plays it: `target` is what is wanted, or what served before once that has failed.
What the journal keeps survives `forget` (a killed agent); what was only remembered does not.
"""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model.container import Container, ContainerSpec, Guest, Part, labels_of, name_of
from holdfast.model.passport import Passport
from holdfast.reconcile.here import Here, Seen, Word
from holdfast.reconcile.rollout import backends, is_settled, keepers_of, next_steps
from holdfast.reconcile.steps import (
    AwaitHealthy,
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
    Unroute,
)
from holdfast.reconcile.writers import writers_of

STEPS_MAX = 400


class Guestroom(Struct):
    """One container and what only the simulation knows of it."""

    container: Container
    spec: ContainerSpec
    recreate: bool
    word: Word = "starting"


class World:
    def __init__(self, proxied: bool = True, sick: Callable[[str], bool] = lambda image: ":sick" in image) -> None:
        self.wanted: Guest | None = None
        self.rooms: dict[str, Guestroom] = {}
        self.foreign = {"foreign-1": "untouched"}
        self.images: set[str] = set()
        self.serving: Guest | None = None
        self.routed: set[str] | None = set() if proxied else None
        self.networks: set[str] = set()
        self.known_networks: set[str] = set()
        self.hooks: dict[str, set[tuple[str, str]]] = {}
        self.passports: dict[str, Passport] = {}  # by source of the mount, as the journal keeps them
        self.data: set[str] = set()  # sources that have content
        self.copied: list[str] = []
        self.ahead: set[str] = set()
        self.tried: set[str] = set()
        self.drained: set[str] = set()
        self.failed = ""
        self.held = False
        self.steps: list[str] = []
        self.hooks_run: list[tuple[str, str, str]] = []
        self._sick = sick
        self._next_id = 0

    # ---- the agent -------------------------------------------------------------------------------------------------

    def want(self, guest: Guest | None) -> None:
        if guest is None or self.wanted is None or guest.deployment != self.wanted.deployment:
            self.failed = ""
            self.tried.clear()
        self.wanted = guest

    @property
    def target(self) -> Guest | None:
        failed = self.wanted is not None and self.failed == self.wanted.deployment
        return self.serving if failed else self.wanted

    @property
    def attempt(self) -> str:
        return self.wanted.deployment if self.wanted else ""

    def here(self) -> Here:
        return Here(
            containers=tuple(Seen(room.container, room.word) for room in self.rooms.values()),
            serving=self.serving,
            routed=None if self.routed is None else frozenset(self.routed),
            images=frozenset(self.images),
            networks=frozenset(self.networks if self.target is None else self.known_networks),
            hooks=frozenset(self.hooks.get(self.target.deployment if self.target else "", set())),
            owed=self._owed(),
            ahead=frozenset(self.ahead),
            tried=frozenset(self.tried),
            drained=frozenset(self.drained),
            failed=self.failed,
            held=self.held,
        )

    def _owed(self) -> frozenset[str]:
        target = self.target
        runs = any(Seen(room.container, room.word).may_run for room in self.rooms.values())
        owing = (part for part in (target.parts if target else ()) if self._owes(part, self.attempt, runs))
        return frozenset(part.spec.component for part in owing)

    def _owes(self, part: Part, deployment: str, runs: bool) -> bool:
        known = ((mount.source, self.passports.get(mount.source)) for mount in part.spec.mounts)
        return any(
            passport is not None and not passport.admits(writers_of(part), deployment) and (runs or source in self.data)
            for source, passport in known
        )

    def _admit(self, part: Part) -> None:
        """As the agent does it when a container is created or started."""
        for mount in part.spec.mounts:
            passport = self.passports.setdefault(mount.source, Passport(mount.source, "shop", self.attempt))
            if not passport.admits(writers_of(part), self.attempt):
                assert mount.source not in self.data, "a new writer gets data that was not copied"
                self._note(mount.source, part)

    def _note(self, source: str, part: Part) -> None:
        passport = self.passports[source]
        known = set(passport.attempt) if passport.deployment == self.attempt else set()
        attempt = tuple(sorted(known | writers_of(part)))
        self.passports[source] = replace(passport, deployment=self.attempt, attempt=attempt)

    def step(self) -> bool:
        """One step of one kind; False at rest."""
        steps = next_steps(self.target, self.here())
        for step in steps:
            self.perform(step)
        return bool(steps)

    def run(self) -> int:
        for taken in range(STEPS_MAX):
            if not self.step():
                return taken
        raise AssertionError(f"does not come to rest: {self.steps[-20:]}")

    def forget(self) -> None:
        """The agent was killed: its journal stays, its memory goes."""
        self.tried.clear()
        self.drained.clear()
        self.ahead.clear()
        self.known_networks.clear()
        for room in self.rooms.values():
            if room.container.running:
                room.word = "starting"

    # ---- trouble ---------------------------------------------------------------------------------------------------

    def crash(self, id: str, comes_back: bool) -> None:
        room = self.rooms[id]
        if room.container.running:
            room.container = replace(room.container, running=False, phase="exited", exit_code=1)
            room.word = "starting" if comes_back else "failed"

    def vanish(self, id: str) -> None:
        """Somebody removed it by hand."""
        del self.rooms[id]

    # ---- the steps -------------------------------------------------------------------------------------------------

    def perform(self, step: Step) -> None:
        self.steps.append(step.name)
        served = self.served()
        getattr(self, "_" + type(step).__name__.lower())(step)
        self._check_served(served, step)
        assert self.foreign == {"foreign-1": "untouched"}

    def _pull(self, step: Pull) -> None:
        self.images.add(step.reference)

    def _makenetwork(self, step: MakeNetwork) -> None:
        self.networks.add(step.network)
        self.known_networks.add(step.network)

    def _removenetwork(self, step: RemoveNetwork) -> None:
        assert not any(room.spec.network == step.network for room in self.rooms.values())
        self.networks.discard(step.network)
        self.known_networks.discard(step.network)

    def _hook(self, step: Hook) -> None:
        assert self.target is not None
        assert step.part.spec.reference in self.images
        assert step.part.spec.network in {"", *self.networks}
        self.hooks_run.append((self.target.deployment, step.part.spec.component, step.when))
        if step.when == "pre_deploy" and step.part.pre_deploy == ("fails",):
            self._give_up()
            return
        self.hooks.setdefault(self.target.deployment, set()).add((step.part.spec.component, step.when))

    def _create(self, step: Create) -> None:
        assert self.target is not None
        assert all(part.spec.reference in self.images for part in self.target.parts if not self._is_filled(part))
        assert step.part.spec.network in {"", *self.networks}
        name = name_of(step.part.spec, step.part.digest, step.replica)
        assert name not in {room.container.name for room in self.rooms.values()}, "made twice"
        self._next_id += 1
        labels = labels_of(step.part.spec, step.part.digest, self.target.deployment, step.replica)
        made = Container(f"c{self._next_id:03d}", name, "created", labels=labels, image=step.part.spec.reference)
        self.rooms[made.id] = Guestroom(made, step.part.spec, step.part.recreate)

    def _is_filled(self, part: Part) -> bool:
        keepers = keepers_of(self.target, self.here())
        return all((part.spec.component, replica) in keepers for replica in range(part.replicas))

    def _start(self, step: Start) -> None:
        room = self.rooms[step.container.id]
        assert not room.container.running
        room.recreate = step.part.recreate  # may be declared anew for the same container
        self._check_writers(room)
        self._admit(step.part)
        self.data |= {mount.source for mount in room.spec.mounts}
        room.container = replace(room.container, running=True, phase="running")
        room.word = "starting"
        self.tried.add(step.container.id)

    def _check_writers(self, room: Guestroom) -> None:
        """Never two copies of a part that is replaced in place, never two writers in one directory."""
        sources = {mount.source for mount in room.spec.mounts}
        for other in self.rooms.values():
            if other is room or not Seen(other.container, other.word).alive:
                continue
            assert not sources & {mount.source for mount in other.spec.mounts}, "two writers"
            generations = room.spec.component == other.spec.component and room.spec != other.spec
            assert not (room.recreate and generations), "two generations of a part that is replaced in place"

    def _awaithealthy(self, step: AwaitHealthy) -> None:
        for one in step.containers:
            room = self.rooms[one.id]
            assert room.word == "starting"
            if not room.container.running:  # the runtime brings it back, as it said
                room.container = replace(room.container, running=True, phase="running")
            room.word = "failed" if self._sick(room.spec.image) else "healthy"
            if room.word == "healthy" and self.target is not None and is_settled(self.target, self.serving):
                self.tried.discard(one.id)

    def _fail(self, step: Fail) -> None:
        assert self.wanted is not None and not self.failed
        self._give_up()

    def _give_up(self) -> None:
        assert self.wanted is not None
        self.passports = {at: replace(one, deployment="", attempt=()) for at, one in self.passports.items()}
        self.failed = self.wanted.deployment
        self.tried.clear()

    def _copyahead(self, step: CopyAhead) -> None:
        assert self._owes(step.part, self.attempt, runs=True), "copied for no new writer"
        self.ahead.add(step.part.spec.component)

    def _checkpoint(self, step: Checkpoint) -> None:
        assert self.ahead, "nothing was copied while it ran"
        self.ahead.clear()
        sources = {mount.source for mount in step.part.spec.mounts}
        assert sources
        for room in self.rooms.values():
            if sources & {mount.source for mount in room.spec.mounts}:
                assert not Seen(room.container, room.word).alive, "somebody still writes"
        assert self._owes(step.part, self.attempt, runs=False), "copied for no new writer"
        self.copied.append(step.part.spec.component)
        for source in sources:
            self._note(source, step.part)

    def _switch(self, step: Switch) -> None:
        assert self.target is not None
        keepers = keepers_of(self.target, self.here())
        if not is_settled(self.target, self.serving):
            for part in self.target.parts:
                for replica in range(part.replicas):
                    self._check_proven(part, replica, keepers[part.spec.component, replica])
            self.tried.clear()  # the attempt is over
        if self.target is self.wanted:
            self._prove(self.target)
        self.serving = self.target
        if self.routed is not None:
            answers = (backends(part, keepers, self.here()) for part in self.target.parts)
            self.routed = {seen.container.id for many in answers for seen in many}

    def _prove(self, target: Guest) -> None:
        writers: dict[str, set[str]] = {}
        for part in target.parts:
            for mount in part.spec.mounts:
                writers.setdefault(mount.source, set()).update(writers_of(part))
        for source, found in writers.items():
            self.passports[source] = replace(
                self.passports[source], writers=tuple(sorted(found)), deployment="", attempt=()
            )

    def _check_proven(self, part: Part, replica: int, seen: Seen) -> None:
        before = {(one.digest, n) for one in (self.serving.parts if self.serving else ()) for n in range(one.replicas)}
        if (part.digest, replica) not in before:
            assert seen.container.running and seen.health == "healthy", "switched to one that is not proven"

    def _unroute(self, step: Unroute) -> None:
        assert self.routed
        self.routed = set()

    def _drain(self, step: Drain) -> None:
        assert self.routed is not None and not {one.id for one in step.containers} & self.routed
        self.drained |= {one.id for one in step.containers}

    def _stop(self, step: Stop) -> None:
        self._check_beside()
        room = self.rooms[step.container.id]
        room.container = replace(room.container, running=False, phase="exited", exit_code=143)
        room.word = "failed"

    def _check_beside(self) -> None:
        """Before the switch nothing is stopped unless everything that could be started beside it is healthy."""
        target = self.target
        if target is None or self.held or not target.active or is_settled(target, self.serving):
            return
        keepers = keepers_of(target, self.here())
        for part in target.parts:
            for replica in range(part.replicas if not part.recreate else 0):
                self._check_proven(part, replica, keepers[part.spec.component, replica])

    def _remove(self, step: Remove) -> None:
        room = self.rooms.pop(step.container.id)
        assert not Seen(room.container, room.word).alive, "removed alive"
        assert step.container.id not in (self.routed or set()), "removed with a route"

    # ---- what a user sees --------------------------------------------------------------------------------------------

    def served(self) -> set[str]:
        """Components that answer: a healthy container of what serves, with a route where there is a proxy. Parts that
        are replaced in place are not promised to."""
        keepers = keepers_of(self.serving, self.here()).values()
        healthy = (seen.container for seen in keepers if seen.is_well and not self.rooms[seen.container.id].recreate)
        return {one.component for one in healthy if self.routed is None or one.id in self.routed}

    def _check_served(self, before: set[str], step: Step) -> None:
        """No step takes away a component that answered, unless that is what was asked for."""
        if self.target is None or self.held or not self.target.active or isinstance(step, Fail):
            return
        rolling = {part.spec.component for part in self.target.parts if part.routes and not part.recreate}
        assert not (before & rolling) - self.served(), f"{step.name} took away what served"
