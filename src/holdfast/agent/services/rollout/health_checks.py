"""Probe the containers of this node: one task for each that runs. reconcile/healthy.py judges the answers."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence

from holdfast.errors import HoldfastError
from holdfast.model.container import Container, Guest, Part
from holdfast.model.fleet import Health
from holdfast.ports.allowed import Allowed
from holdfast.ports.clock import Clock
from holdfast.ports.prober import HealthProber, Verdict
from holdfast.reconcile import healthy
from holdfast.reconcile.healthy import Proof, Watch
from holdfast.reconcile.here import Seen, Word

UNCHECKED_S = 0.05  # between two looks at the age of a starting container that has no check
WHOLE_S = 1.0  # a runtime lists starts in whole seconds
LOOK_S = 0.2  # a rollout that waits for health looks so often whether the container still runs


class Probed:
    def __init__(self, container: Container, proof: Proof, watch: Watch) -> None:
        self.container = container
        self.proof = proof
        self.watch = watch
        self.told: Word = "starting"
        self.why = ""  # of the last bad answer
        self.task: asyncio.Task[None] | None = None


class HealthChecks:
    """`felt` is called when the health of a container changed. No start period is longer than `start_s` answers,
    unless that is 0.0. `may_run` asks the gate whether a command may run inside a container; `inside` are the types of
    checks that run one. `is_alive` looks whether the process of a container, as it was last seen, is alive now."""

    def __init__(
        self,
        prober: HealthProber,
        clock: Clock,
        may_run: Callable[[Container], Allowed],
        is_alive: Callable[[Container], bool],
        felt: Callable[[], None],
        start_s: Callable[[], float] = lambda: 0.0,
        inside: frozenset[str] = frozenset({"exec"}),
    ) -> None:
        self._prober = prober
        self._may_run = may_run
        self._is_alive = is_alive
        self._clock = clock
        self._felt = felt
        self._patients: dict[str, Probed] = {}
        self._moved = asyncio.Condition()
        self._start_s = start_s
        self._inside = inside

    # ---- following

    def follow(self, container: Container, part: Part | None) -> None:
        """It was started just now: its start period begins."""
        self.forget(container.id)
        self._admit(container, healthy.proof(part, self._start_s()))

    def follow_all(self, containers: Iterable[Container], guests: Iterable[Guest]) -> None:
        """After a look at all containers."""
        parts = {(part.spec.component, part.digest): part for guest in guests for part in guest.parts}
        here = {}
        for one in containers:
            here[one.id] = one
            part = parts.get((one.component, one.spec))
            self.seen(one, part)
        for id in [id for id in self._patients if id not in here]:
            self.forget(id)

    def seen(self, container: Container, part: Part | None) -> Seen:
        """A container as it is now, with its health."""
        proof = healthy.proof(part, self._start_s())
        lived_s = max(0.0, self._clock.now_s() - container.started_s - WHOLE_S)
        patient = self._patients.get(container.id) or self._admit(container, proof, lived_s)
        patient.container, patient.proof = container, proof
        patient.watch = healthy.looked(patient.watch, container, self._clock.monotonic_s())
        self._settle(patient)
        self._attend(patient)
        return Seen(container, self._judge(patient), healthy.returns(patient.watch, container))

    def _admit(self, container: Container, proof: Proof, lived_s: float = 0.0) -> Probed:
        patient = Probed(container, proof, healthy.begin(container, self._clock.monotonic_s(), lived_s))
        self._patients[container.id] = patient
        self._attend(patient)
        return patient

    def stopped(self, id: str) -> None:
        """By this agent: the runtime will not bring it back."""
        patient = self._patients.get(id)
        if patient is not None:
            patient.watch = healthy.stopped(patient.watch)

    def forget(self, id: str) -> None:
        patient = self._patients.pop(id, None)
        if patient is not None and patient.task is not None:
            patient.task.cancel()

    # ---- asking

    def word(self, container: Container) -> Word:
        patient = self._patients.get(container.id)
        return self._judge(patient) if patient is not None else "starting"

    def settle_s(self, part: Part) -> float:
        """How long it must stay up if it has no check: less with `lab fast`."""
        return healthy.proof(part, self._start_s()).settle_s

    def why(self, id: str) -> str:
        patient = self._patients.get(id)
        return patient.why if patient is not None else ""

    async def moved(self, ids: Collection[str], at_most_s: float) -> bool:
        """True as soon as one of them is not "starting" any more."""
        until_s = self._clock.monotonic_s() + at_most_s
        while not any(self._is_settled(id) for id in ids):
            left_s = until_s - self._clock.monotonic_s()
            if left_s <= 0:
                return False
            try:
                async with asyncio.timeout(left_s), self._moved:
                    await self._moved.wait()
            except TimeoutError:
                return any(self._is_settled(id) for id in ids)
        return True

    def _is_settled(self, id: str) -> bool:
        patient = self._patients.get(id)
        return patient is None or self._judge(patient) != "starting"

    def _judge(self, patient: Probed) -> Word:
        return healthy.word(patient.watch, patient.container, patient.proof, self._clock.monotonic_s())

    # ---- probing

    def _attend(self, patient: Probed) -> None:
        """A container that runs is probed; one that does not is seen by the next look at all containers."""
        if patient.container.running and (patient.task is None or patient.task.done()):
            patient.task = asyncio.ensure_future(self._probe(patient))

    def _settle(self, patient: Probed) -> None:
        """The last look may be old: podman is slow on a busy machine."""
        is_over = healthy.may_settle(patient.watch, patient.proof, self._clock.monotonic_s())
        if is_over and self._is_alive(patient.container):
            patient.watch = healthy.settled(patient.watch)

    async def _probe(self, patient: Probed) -> None:
        while patient.container.running and self._patients.get(patient.container.id) is patient:
            checks = patient.proof.checks
            if not checks:
                self._settle(patient)
                await self._tell(patient)
                if self._judge(patient) != "starting":
                    return
                await asyncio.sleep(UNCHECKED_S)
                continue
            life = patient.watch.life
            verdict = await self._verdict(patient.container, checks)
            if patient.watch.life == life:  # else it answered for one that is gone
                patient.watch = healthy.probed(patient.watch, verdict.ok)
                patient.why = "" if verdict.ok else verdict.why
            await self._tell(patient)
            pause_s = healthy.pause_s(patient.watch, checks[0])
            await asyncio.sleep(healthy.in_step(pause_s, checks[0], self._clock.monotonic_s()))

    async def _verdict(self, container: Container, checks: Sequence[Health]) -> Verdict:
        """The first bad one, or that of the last check."""
        for check in checks:
            try:
                allowed = self._may_run(container) if check.type in self._inside else None
            except HoldfastError as trouble:
                return Verdict(False, trouble.message)
            verdict = await self._prober.probe(container, check, allowed)
            if not verdict.ok:
                break
        return verdict

    async def _tell(self, patient: Probed) -> None:
        word = self._judge(patient)
        if word == patient.told:
            return
        patient.told = word
        self._felt()
        async with self._moved:
            self._moved.notify_all()
