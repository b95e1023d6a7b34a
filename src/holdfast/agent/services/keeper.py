"""Every service of this node: looked at, decided about, kept as the manifest in force says; hub or no hub (H-23).

A pass works on frozen input, stage by stage (T-06), several services at once, one change at a time for each of them in
its lane; whatever it could not finish in five minutes goes on there, and the next pass leaves it alone (C-35).
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.acceptance.accept import Accepting
from holdfast.agent.findings import Findings
from holdfast.agent.lanes import Lanes
from holdfast.agent.membership import Membership
from holdfast.agent.services import status as service_status
from holdfast.agent.services.desired import Desired, desired
from holdfast.agent.services.observe_mode import ObservedService
from holdfast.agent.services.orphans import Orphans
from holdfast.agent.services.records import Record, Records
from holdfast.agent.services.retired_data import Retired
from holdfast.agent.services.rollout.crew import Crew
from holdfast.agent.services.rollout.driver import Rollout
from holdfast.agent.services.rollout.health_checks import HealthChecks
from holdfast.agent.time import NodeTime
from holdfast.agent.traffic.keeper import Traffic
from holdfast.agent.world import World
from holdfast.errors import Failed, HoldfastError, TryLater
from holdfast.model.container import Container, Guest, name_of
from holdfast.model.deployment import ServiceState
from holdfast.model.report import ContainerState, Departure, RetiredData
from holdfast.reconcile import drift, leaving, stages
from holdfast.reconcile.drift import Subsystem
from holdfast.reconcile.here import Word
from holdfast.reconcile.progress import Guard, fingerprint
from holdfast.reconcile.stages import Agenda, Look, Work

LOOK_S = 10.0  # at least so often everything is looked at (T-04); events say the rest
PASS_S_MAX = 295.0  # T-07: over before whoever waits for it in PROCESSING gives up
SOON_S = 0.05  # never sooner
DOWN_S = 0.5  # while something does not run that should
AGAIN_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)  # between passes that did not get there
STANDBY_FACT = "standby"
RUNTIME = "runtime_unavailable"
DRIFT = "drift"


def _nobody_knows(container: Container) -> Word:
    """Of a container that was seen on a better day."""
    return "starting"


class Pause(Struct, frozen=True):
    at_most_s: float = LOOK_S
    deaf: bool = False  # also if something happens


class Services:
    """`changes` counts what a report would show; `tell` says that it is worth sending one."""

    def __init__(
        self,
        world: World,
        membership: Membership,
        accepting: Accepting,
        time: NodeTime,
        findings: Findings,
        lanes: Lanes,
        traffic: Traffic,
        tell: Callable[[], None],
    ) -> None:
        self._world = world
        self._me = membership
        self._accepting = accepting
        self._time = time
        self._findings = findings
        self._lanes = lanes
        self._tell = tell
        self.changes = 0
        self.busy = False
        self.runtime = ""  # product and version, "" while none answers
        self.left_behind = Retired(world, accepting, self.changed)
        self.records = Records(world.journal, self.changed)
        self.health_checks = HealthChecks(world.prober, world.clock, self._felt)
        self.crew = Crew(
            world, membership, self.records, self.health_checks, time, findings, lanes, traffic, self.changed
        )
        self.strays = Orphans(world, self.crew, membership, findings)
        self._standby = frozenset(msgspec.json.decode(world.journal.fact(STANDBY_FACT) or b"[]", type=list[str]))
        self._released: frozenset[str] = frozenset()
        self._wanted: Desired | None = None
        self._bell = asyncio.Event()
        self._calm = asyncio.Event()
        self._calm.set()
        self._is_kept = False
        self._has_looked = False  # since this process began: before that it knows of nothing
        self._tries = 0
        self._unrest: set[str] = set()  # services that are not yet where they must be
        self._rest_told: frozenset[str] = frozenset()  # at rest when they were last shown
        lanes.freed = self._tell_rest
        self._stuck: dict[str, HoldfastError] = {}  # why, where waiting alone will not help
        self._later: dict[str, tuple[int, float]] = {}  # services that did not get there: tries, when again
        self._drift: tuple[Subsystem, ...] = ()
        self._guard = Guard()

    # ---- what others say

    def changed(self) -> None:
        self.changes += 1
        self._tell()

    def follow(self) -> None:
        """A revision was accepted, or the agent started with one."""
        self._wanted = None
        self._tries = 0
        self.left_behind.due = True  # what leaves with it leaves data behind
        self.wake()

    def stand_in(self, named: Sequence[str] | None) -> None:
        """Which services of other nodes the hub asks for; those that no signed manifest lists are nobody's business."""
        manifest = self._accepting.in_force
        if named is None or manifest is None:
            return
        listed = frozenset(named) & manifest.standby.keys()
        if listed != self._standby:
            try:
                self._world.journal.set_aside(STANDBY_FACT, msgspec.json.encode(sorted(listed)))
            except HoldfastError as trouble:  # no reason to fall silent: the hub says it again
                self._findings.add_trouble("state_unwritable", trouble)
                return
            self._standby = listed
            self._world.say("standby", {"services": sorted(listed)})
            self.follow()

    def release(self, named: Sequence[str]) -> None:
        """Which services that moved away are proven at their new home: until then they serve here."""
        ours = frozenset(named).intersection(f"service.{name}" for name in self.records.services())
        if self._released != ours:
            self._released = ours
            self.wake()

    def wake(self) -> None:
        self._calm.clear()
        self._bell.set()

    def _felt(self, id: str) -> None:
        """A container became healthy or ill. Routes may have to follow; a rollout that waits for it hears it itself."""
        self.changed()
        if not self.busy:
            self.wake()

    async def settled(self) -> None:
        """Until no pass is due or under way; at once where nobody makes any."""
        if self._is_kept:
            await self._calm.wait()

    # ---- the loop

    async def run(self) -> None:
        """Until cancelled. Trouble is a finding, and tried again; nothing here ends the agent."""
        self._is_kept = True
        while True:
            try:
                pause = await self._pass()
                self._findings.clear(RUNTIME)
            except HoldfastError as trouble:
                self._findings.add_trouble(RUNTIME, trouble)
                self.runtime, self._has_looked = "", False  # what was seen before may not be so any more
                self.changed()
                pause = self._back_off()
            except Exception as trouble:  # a mistake of ours must not keep every other service from being looked after
                self._findings.add(
                    "internal_error", f"{type(trouble).__name__}: {trouble}", "report this, with the log"
                )
                self._world.say("internal_error", {"message": repr(trouble)})
                pause = self._back_off()
            self._end_pass()
            await self._rest(pause)

    def _back_off(self) -> Pause:
        """What happens meanwhile is no reason to try again sooner: most of it, it did itself."""
        self._tries += 1
        return Pause(AGAIN_S[min(self._tries, len(AGAIN_S)) - 1], deaf=True)

    def _end_pass(self) -> None:
        if self.busy:
            self.busy = False
            self.changed()
        if not self._bell.is_set():
            self._calm.set()
        self._tell_rest()

    def _tell_rest(self) -> None:
        """Coming to rest changes nothing but the word for it: nobody else would say it."""
        if self.resting() != self._rest_told:
            self._tell()

    async def _rest(self, pause: Pause) -> None:
        """Until somebody rings, something happened to a container, or it is time to look anyway."""
        if self._bell.is_set():
            self._bell.clear()
            return
        rung = asyncio.ensure_future(self._bell.wait())
        waiting: set[asyncio.Future[Any]] = {rung}
        if self._is_needed():
            waiting.add(asyncio.ensure_future(self._stirred(pause)))
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        self._bell.clear()

    async def _stirred(self, pause: Pause) -> bool:
        if pause.deaf:
            await asyncio.sleep(pause.at_most_s)
            return True
        try:
            return await self._world.runtime.changed(pause.at_most_s)
        except HoldfastError:
            await asyncio.sleep(1.0)
            return True

    def _is_needed(self) -> bool:
        """A node without services needs no container runtime, and does not start one (T-34)."""
        wanted = self._frozen()
        if wanted is None:
            return False
        return bool(wanted.guests or self.records.services() or wanted.node.orphans != "report")

    # ---- one pass

    def _frozen(self) -> Desired | None:
        if self._wanted is None:
            self._wanted = desired(self._world, self._accepting, self._me.fleet, self._standby)
            if self._wanted is not None:
                self._note(self._wanted)
        return self._wanted

    def _note(self, wanted: Desired) -> None:
        """Which revision brought what; a new deployment starts without the old one's failure, and lifts a hold."""
        self.crew.follow(wanted.node)
        self._lanes.resize(wanted.settings.parallel)
        self._note_deployments(wanted)
        for name in self.crew.attempts.keys() - wanted.guests.keys():
            if not self._lanes.is_busy(name):  # it left with an earlier revision, or leaves now: how it came is over
                del self.crew.attempts[name]
        if wanted.trouble is not None:
            self._findings.add_trouble("content_missing", wanted.trouble)
        else:
            self._findings.clear("content_missing")

    def _note_deployments(self, wanted: Desired) -> None:
        """A disk that is full now must not make one inherit a hold, or the hooks that ran for the one before."""
        for name in sorted(self._unnoted(wanted)):
            deployment = wanted.guests[name].deployment
            fresh = replace(
                self.records.of(name),
                applied=deployment,
                applied_revision=wanted.revision,
                failure=None,
                held=False,
                hooks=(),
            )
            try:
                self.records.keep(name, fresh)
            except HoldfastError as trouble:
                self._stuck[name] = trouble
                continue
            self.crew.served(name)  # of an older one nobody needs to hear any more
            self.crew.attempts.pop(name, None)
            self._stuck.pop(name, None)
            self._later.pop(name, None)

    def _unnoted(self, wanted: Desired) -> set[str]:
        """Services of which it could not be written down what is wanted: nothing is begun with those."""
        return {name for name, guest in wanted.guests.items() if self.records.of(name).applied != guest.deployment}

    async def _pass(self) -> Pause:
        """How soon to look again."""
        wanted = self._frozen()
        if wanted is None:
            return Pause()
        self._note_deployments(wanted)
        await self.left_behind.look()
        if not self._is_needed():
            return Pause()
        if not self.runtime:
            self.runtime = await self._world.runtime.version()
            await self.crew.inventory.look()
            self._world.secrets.forget_all_but([one.name for one in self.crew.inventory.all()])
        await self.crew.inventory.look()
        self._adopt(wanted)
        self.health_checks.follow_all(self.crew.inventory.ours(), self._parts(wanted))
        await self.strays.judge(wanted)
        agenda = await self._agenda(wanted)
        self._forget_gone(wanted, agenda)
        self._show_drift(wanted, agenda)
        if agenda.work:
            self.busy = True
            self.changed()
            await self._work_off(wanted, agenda.work)
            await self.crew.inventory.look()
            agenda = await self._agenda(wanted)
        return self._pace(wanted, agenda)

    def _forget_gone(self, wanted: Desired, agenda: Agenda) -> None:
        """Of what never ran nothing is here, so that no rollout takes it away; nor does anybody need to hear of it."""
        here = {work.service for work in agenda.work} | {one.service for one in self.crew.inventory.ours()}
        for name in sorted(self._leaving(wanted) - here):
            if not self._lanes.is_busy(name):
                self.records.forget(name)
                self.crew.served(name)

    def _pace(self, wanted: Desired, agenda: Agenda) -> Pause:
        self._has_looked = True
        left = {work.service for work in agenda.work}
        now_s = self._world.clock.monotonic_s()
        for name in [name for name, (_, at_s) in self._later.items() if at_s <= now_s and name not in left]:
            if not self._lanes.is_busy(name):
                del self._later[name]  # it was looked at, and owes nothing any more
        down = self._down(wanted) | self._unnoted(wanted)
        if left | down | self._later.keys() != self._unrest:
            self._unrest = left | down | self._later.keys()
            self.changed()
        if not left:
            self._tries = 0
            self._guard = Guard()
            self._findings.clear("no_progress")
            self.crew.crashes.settle(self.crew.inventory.ours())
            next_s = self.crew.crashes.next_try_s(self.crew.inventory.ours())
            soon_s = min(LOOK_S if next_s is None else next_s, DOWN_S if down - self._later.keys() else LOOK_S)
            again_s = min((at_s - now_s for _, at_s in self._later.values() if at_s > now_s), default=LOOK_S)
            return Pause(max(min(soon_s, again_s), SOON_S))
        seen = [(one.name, one.phase, one.running) for one in self.crew.inventory.ours()]
        self._guard = self._guard.after(fingerprint(seen, [f"{work.stage} {work.service}" for work in agenda.work]))
        reason = self._guard.reason()
        if reason is not None:
            names = ", ".join(sorted(left))
            self._findings.add(
                "no_progress", f"{names}: {reason}", "holdfast agent journal on the node; holdfast status"
            )
        return self._back_off()

    def _down(self, wanted: Desired) -> set[str]:
        """Services of which something that must run does not: podman may bring it back, or the agent will."""
        stopped = {one.service for one in self.crew.inventory.ours() if not one.running}
        on = {name for name in stopped & wanted.guests.keys() if wanted.guests[name].active}
        return {name for name in on if not self.records.of(name).held}

    async def _work_off(self, wanted: Desired, work: Sequence[Work]) -> None:
        """Stage by stage; what does not end in its time goes on in its lane."""
        until_s = self._world.clock.monotonic_s() + PASS_S_MAX
        for _, items in groupby(work, key=lambda item: item.stage):
            tasks = [self._put(wanted, item.service) for item in items]
            left_s = max(until_s - self._world.clock.monotonic_s(), 0.0)
            _, late = await asyncio.wait(tasks, timeout=left_s)
            if late:
                return

    def _put(self, wanted: Desired, service: str) -> "asyncio.Future[None]":
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        rollout = Rollout(self.crew, service, wanted.guests.get(service), wanted.revision)

        async def work() -> None:
            address = f"service.{service}"
            try:
                await rollout.run()
                self._stuck.pop(service, None)
                self._later.pop(service, None)
                self._findings.clear("service_waits", address)
                self._findings.clear("internal_error", address)
            except HoldfastError as trouble:
                self._try_later(service)
                if not isinstance(trouble, TryLater):
                    self._stuck[service] = trouble
                self._findings.add_trouble("service_waits", trouble, address)
                self._world.say("service_waits", {"service": service, "code": trouble.code, "message": trouble.message})
            except Exception as trouble:  # as in `run`: of a lane nobody else would hear it
                self._try_later(service)
                message = f"{address}: {type(trouble).__name__}: {trouble}"[:500]
                self._findings.add("internal_error", message, "report this, with the log", address)
                self._world.say("internal_error", {"service": service, "message": repr(trouble)[:500]})
            finally:
                if not ended.done():
                    ended.set_result(None)

        self._lanes.put(service, work)
        return ended

    def _try_later(self, service: str) -> None:
        """Ever more rarely, and nobody else waits for it."""
        tries, _ = self._later.get(service, (0, 0.0))
        pause_s = AGAIN_S[min(tries, len(AGAIN_S) - 1)]
        self._later[service] = (tries + 1, self._world.clock.monotonic_s() + pause_s)

    # ---- looking

    async def _agenda(self, wanted: Desired) -> Agenda:
        names = sorted(wanted.guests.keys() | self._leaving(wanted))
        now_s = self._world.clock.monotonic_s()
        waiting = {name for name, (_, at_s) in self._later.items() if at_s > now_s}
        busy = {name for name in names if self._lanes.is_busy(name)} | self._unnoted(wanted) | waiting
        looks = [await self._look_at(wanted, name) for name in names if name not in busy]
        self._note_drift(self._drifted(looks))
        return stages.work(looks, busy=busy, mode=wanted.node.reconcile)

    def _drifted(self, looks: Sequence[Look]) -> tuple[Subsystem, ...]:
        """By hashes over sorted rows (T-09…T-12): which part of this node is not as it must be."""
        targets = [look.target for look in looks if look.target is not None]
        routes = self.crew.routes
        served = [look for look in looks if not look.here.held]  # what was stopped keeps its names
        told = [route for look in served for route in routes.board.of(look.service)]
        expected = [route for look in served for route in routes.wanted(look.target, look.here)]
        found = drift.found_rows(seen.container for look in looks for seen in look.here.containers)
        return drift.subsystems(
            {"containers": drift.wanted_rows(targets), "routes": expected},
            {"containers": found, "routes": told},
            routes.has_proxy,
        )

    def _note_drift(self, subsystems: tuple[Subsystem, ...]) -> None:
        if subsystems != self._drift:
            self._drift = subsystems
            self._world.say("drift", {"subsystems": list(subsystems)})

    def _leaving(self, wanted: Desired) -> set[str]:
        """Made here, and not in the manifest any more: taken away, data stays. Not while something is unread (C-05)."""
        if not wanted.complete:
            return set()
        known = {one.service for one in self.crew.inventory.ours()} | set(self.records.services())
        return {name for name in known - wanted.guests.keys() if not self._serves_on(name)}

    def _serves_on(self, name: str) -> bool:
        manifest, record = self._accepting.in_force, self.records.of(name)
        if manifest is None or record.held:
            return False
        return leaving.serves_on(manifest, f"service.{name}", record.serving, self._released)

    async def _look_at(self, wanted: Desired, name: str) -> Look:
        rollout = Rollout(self.crew, name, wanted.guests.get(name), wanted.revision)
        return Look(name, rollout.target, await rollout.here())

    def _parts(self, wanted: Desired) -> list[Guest]:
        served = [record.serving for name in self.records.services() if (record := self.records.of(name)).serving]
        return [*wanted.guests.values(), *(guest for guest in served if guest is not None)]

    def _adopt(self, wanted: Desired) -> None:
        names = {
            name_of(part.spec, part.digest, replica): part.digest
            for guest in wanted.guests.values()
            for part in guest.parts
            for replica in range(part.replicas)
        }
        if self.crew.inventory.adopt(names, "adopted"):
            for name, guest in wanted.guests.items():
                self._adopt_serving(name, guest)

    def _adopt_serving(self, name: str, guest: Guest) -> None:
        """Everything that is wanted is here already: it serves, and must not be torn down like a first attempt."""
        slots = {(part.spec.component, n, part.digest) for part in guest.parts for n in range(part.replicas)}
        here = {(one.component, one.replica, one.spec) for one in self.crew.inventory.of(name)}
        record = self.records.of(name)
        if record.serving is None and slots <= here:
            revision = record.applied_revision
            self.records.keep(name, replace(record, serving=guest, serving_revision=revision))

    def _show_drift(self, wanted: Desired, agenda: Agenda) -> None:
        if wanted.node.reconcile == "observe" and agenda.findings:
            said = ", ".join(f"{one.service} {one.kind}" for one in agenda.findings[:10])
            self._findings.add(
                DRIFT,
                f"{len(agenda.findings)} differences, left as they are in observe mode: {said}",
                'set reconcile = "converge" for this node in fleet.toml and apply',
            )
        else:
            self._findings.clear(DRIFT)

    # ---- for whoever was asked to change one, in its lane

    def known(self, service: str) -> Record:
        wanted = self._frozen()
        if wanted is None or service not in wanted.guests:
            raise Failed(
                f"service.{service} is not applied on this node",
                remedy="holdfast ps shows where it is",
                code="not_found",
            )
        self._note_deployments(wanted)
        if service in self._unnoted(wanted):
            raise self._stuck[service]
        return self.records.of(service)

    def forgive(self, service: str, record: Record) -> None:
        self.records.keep(service, record)
        self._later.pop(service, None)
        self.crew.served(service)
        self.crew.crashes.forgive(self.crew.inventory.of(service))

    async def drive(self, service: str) -> None:
        """To where it must be, in the lane this runs in."""
        wanted = self._frozen()
        assert wanted is not None
        await self.crew.inventory.look()
        await Rollout(self.crew, service, wanted.guests[service], wanted.revision).run()
        self.wake()

    @property
    def observes(self) -> bool:
        wanted = self._frozen()
        return wanted is not None and wanted.node.reconcile == "observe"

    def in_place(self, service: str) -> ObservedService:
        wanted, serving = self._frozen(), self.records.of(service).serving
        guests = [wanted.guests[service] if wanted is not None else None, serving]
        return ObservedService(self.crew, service, [guest for guest in guests if guest is not None])

    def is_active(self, service: str) -> bool:
        """As it is declared."""
        wanted = self._frozen()
        return wanted is not None and service in wanted.guests and wanted.guests[service].active

    # ---- telling

    def containers(self) -> tuple[ContainerState, ...]:
        inventory = self.crew.inventory
        ours = inventory.ours()
        ids = {one.id for one in ours}
        others = [one for one in inventory.all() if one.id not in ids and self.strays.is_shown(one)]
        ours = tuple(one for one in ours if self.strays.is_shown(one))
        return service_status.containers(ours, others, self.health_checks.word if self.runtime else _nobody_knows)

    def states(self) -> tuple[ServiceState, ...]:
        wanted = self._wanted
        if wanted is None:
            return ()
        self._rest_told = self.resting()
        return service_status.states(
            wanted.guests,
            self.records.of,
            self.crew.attempts,
            self._is_at_rest,
            self._stuck,
            wanted.standby,
            wanted.revision,
        )

    def left(self) -> tuple[Departure, ...]:
        return service_status.left(self._wanted.guests, self.crew.attempts) if self._wanted is not None else ()

    @property
    def retired(self) -> tuple[RetiredData, ...]:
        return self.left_behind.found

    def resting(self) -> frozenset[str]:
        """Services with which nothing is under way or due."""
        guests = self._wanted.guests if self._wanted is not None else {}
        return frozenset(name for name in guests if self._is_at_rest(name))

    def _is_at_rest(self, service: str) -> bool:
        calm = self._has_looked and not self._bell.is_set()
        return calm and service not in self._unrest and not self._lanes.is_busy(service)

    @property
    def running(self) -> int | None:
        return service_status.running(self.crew.inventory.ours()) if self.runtime else None
