"""One pass over the services of this node: look, work off what is due, say when to look again."""

from collections.abc import Callable

from holdfast.agent.findings import Findings
from holdfast.agent.lanes import Lanes
from holdfast.agent.services.agenda import Agendas
from holdfast.agent.services.desired import Desired
from holdfast.agent.services.orphans import Orphans
from holdfast.agent.services.pacing import Pacing, Pause
from holdfast.agent.services.records import Records
from holdfast.agent.services.rollout.containers import Containers
from holdfast.agent.services.rollout.crash_loops import CrashLoops
from holdfast.agent.services.rollout.health_checks import HealthChecks
from holdfast.agent.services.rollout.inventory import ContainerInventory
from holdfast.agent.services.rollout.lane_work import LaneWork
from holdfast.errors import HoldfastError
from holdfast.model.container import Container, Guest
from holdfast.reconcile.stages import Agenda

RUNTIME = "runtime_unavailable"
DRIFT = "drift"
NO_PROGRESS = "no_progress"
NAMED = 10  # in a message


class Survey:
    """Looks at the containers of this machine, and at every service."""

    def __init__(
        self,
        *,
        inventory: ContainerInventory,
        containers: Containers,
        records: Records,
        health_checks: HealthChecks,
        orphans: Orphans,
        agendas: Agendas,
        now_s: Callable[[], float],
    ) -> None:
        self._inventory = inventory
        self._containers = containers
        self._records = records
        self._health_checks = health_checks
        self._orphans = orphans
        self._agendas = agendas
        self.now_s = now_s  # by the monotonic clock

    def is_needed(self, wanted: Desired) -> bool:
        """A node without services needs no container runtime, and does not start one (T-34)."""
        return bool(wanted.guests or self._records.services() or wanted.node.orphans != "report")

    async def look(self, wanted: Desired, released: frozenset[str]) -> Agenda:
        if not self._inventory.runtime:
            await self._inventory.meet()
            self._containers.forget_gone_secrets()
        await self._inventory.look()
        self._agendas.adopt(wanted)
        self._health_checks.follow_all(self.ours(), self._guests(wanted))
        await self._orphans.judge(wanted)
        agenda = await self._agenda(wanted, released)
        self._agendas.forget_gone(wanted, released, agenda)
        return agenda

    async def look_again(self, wanted: Desired, released: frozenset[str]) -> Agenda:
        """After work was done."""
        await self._inventory.look()
        return await self._agenda(wanted, released)

    async def _agenda(self, wanted: Desired, released: frozenset[str]) -> Agenda:
        return await self._agendas.look(wanted, released, self.now_s())

    def ours(self) -> tuple[Container, ...]:
        return self._inventory.ours()

    async def stirred(self, at_most_s: float) -> None:
        await self._inventory.stirred(at_most_s)

    def lost(self) -> None:
        self._inventory.lost()

    def down(self, wanted: Desired) -> set[str]:
        """Services of which a container does not run that must: podman may bring it back, or the agent will. Also
        those whose deployment could not be written down."""
        stopped = {one.service for one in self.ours() if not one.running}
        on = {name for name in stopped & wanted.guests.keys() if wanted.guests[name].active}
        return {name for name in on if not self._records.of(name).held} | self._agendas.unnoted(wanted)

    def _guests(self, wanted: Desired) -> list[Guest]:
        served = [self._records.of(name).serving for name in self._records.services()]
        return [*wanted.guests.values(), *(guest for guest in served if guest is not None)]


class Passes:
    """`changed` is called when the report shows something else."""

    def __init__(
        self,
        *,
        survey: Survey,
        work: LaneWork,
        lanes: Lanes,
        pacing: Pacing,
        crashes: CrashLoops,
        findings: Findings,
        changed: Callable[[], None],
    ) -> None:
        self._survey = survey
        self._work = work
        self._lanes = lanes
        self._pacing = pacing
        self._crashes = crashes
        self._findings = findings
        self._changed = changed

    async def stirred(self, at_most_s: float) -> None:
        """Until something happened to a container."""
        await self._survey.stirred(at_most_s)

    def is_needed(self, wanted: Desired) -> bool:
        return self._survey.is_needed(wanted)

    def none_needed(self) -> None:
        """No service is left on this node: what was found about containers is over."""
        self._crashes.look(())
        self._findings.clear(RUNTIME)
        self._findings.clear(NO_PROGRESS)

    async def once(self, wanted: Desired, released: frozenset[str]) -> Pause:
        """Works on frozen input (T-05). Trouble with the runtime is a finding."""
        began_s = self._survey.now_s()
        try:
            agenda = await self._survey.look(wanted, released)
            self._crashes.look(self._survey.ours())
            self._show_drift(wanted, agenda)
            if agenda.work:
                with self._lanes.working():
                    await self._work.work_off(wanted, agenda.work)
                    agenda = await self._survey.look_again(wanted, released)
            pause = self._pace(wanted, agenda, began_s)
        except HoldfastError as trouble:
            return self._failed(trouble)
        self._findings.clear(RUNTIME)
        return pause

    def _failed(self, trouble: HoldfastError) -> Pause:
        self._findings.add_trouble(RUNTIME, trouble)
        self._survey.lost()
        self._pacing.lost()
        self._changed()
        return self._pacing.back_off()

    def _pace(self, wanted: Desired, agenda: Agenda, began_s: float) -> Pause:
        now_s = self._survey.now_s()
        left = {work.service for work in agenda.work}
        down = self._survey.down(wanted)
        for service in self._pacing.eased(left, self._lanes.is_busy, began_s):
            self._work.arrived(service)
        if self._pacing.looked(left, down):
            self._changed()
        ours = self._survey.ours()
        if not left:
            self._findings.clear(NO_PROGRESS)
            return self._pacing.calm(down, self._crashes.next_try_s(ours), now_s, began_s)
        reason = self._pacing.stalled([(one.name, one.phase, one.running) for one in ours], agenda.work)
        if reason is not None:
            names = ", ".join(sorted(left))
            remedy = "`holdfast agent journal` on the node; `holdfast status`"
            self._findings.add(NO_PROGRESS, f"{names}: {reason}", remedy)
        return self._pacing.back_off()

    def _show_drift(self, wanted: Desired, agenda: Agenda) -> None:
        if wanted.node.reconcile == "observe" and agenda.findings:
            more = f" and {len(agenda.findings) - NAMED} more" * (len(agenda.findings) > NAMED)
            named = ", ".join(f"{one.service} {one.kind}" for one in agenda.findings[:NAMED]) + more
            self._findings.add(
                DRIFT,
                f"left as it is in observe mode: {named}",
                'set reconcile = "converge" for this node in fleet.toml and apply',
            )
        else:
            self._findings.clear(DRIFT)
