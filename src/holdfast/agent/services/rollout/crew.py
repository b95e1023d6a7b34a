"""What every rollout of this node shares: what is known of the machine, and the acts that need more than one port."""

import asyncio
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

from holdfast.agent.findings import Findings
from holdfast.agent.lanes import Lanes
from holdfast.agent.membership import Membership
from holdfast.agent.services.crash_loops import CrashLoops
from holdfast.agent.services.records import Failure, Record, Records
from holdfast.agent.services.rollout.attempts import Attempt
from holdfast.agent.services.rollout.health_checks import HealthChecks
from holdfast.agent.services.rollout.host_ports import LOOPBACK, Ports, own_address
from holdfast.agent.services.rollout.inventory import MADE, ContainerInventory
from holdfast.agent.time import NodeTime
from holdfast.agent.traffic.keeper import Traffic
from holdfast.agent.world import World
from holdfast.errors import HoldfastError
from holdfast.gate import copies
from holdfast.model.audit import Event
from holdfast.model.container import (
    LABEL_FLEET,
    LABEL_INFRASTRUCTURE,
    LABEL_SERVICE,
    Container,
    ContainerSpec,
)
from holdfast.model.fleet import Node
from holdfast.model.journal import Operation, Outcome
from holdfast.ports.runtime import CreateContainer, Finished
from holdfast.ports.storage import Discardable

GRACE_S = 10.0  # between asking a container to end and killing it
FAILED = "rollout_failed"
HOOK_FAILED = "hook_failed"
CHECKPOINTS_KEPT_S = 7 * 24 * 3600.0


class Crew:
    def __init__(
        self,
        world: World,
        membership: Membership,
        records: Records,
        health_checks: HealthChecks,
        time: NodeTime,
        findings: Findings,
        lanes: Lanes,
        traffic: Traffic,
        changed: Callable[[], None],
    ) -> None:
        self.world = world
        self.traffic = traffic
        self.routes = traffic.routes
        self.records = records
        self.health_checks = health_checks
        self.time = time
        self.lanes = lanes
        self.changed = changed
        self.ports = Ports()
        self.inventory = ContainerInventory(world.runtime, world.journal, membership.fleet, changed)
        self.images: set[str] = set()  # known to be here
        self._asked: dict[str, asyncio.Future[bool]] = {}
        self.networks: set[str] = set()
        self.under_way: set[str] = set()  # operations
        self.attempts: dict[str, Attempt] = {}  # the newest of each service
        self.address = LOOPBACK
        self._me = membership
        self._findings = findings
        self.crashes = CrashLoops(world.clock, findings)

    def follow(self, node: Node) -> None:
        """Behind a proxy containers are this machine's own business (M-04); without one they answer the overlay."""
        self.address = LOOPBACK if self.routes.has_proxy else own_address(node.address, self._me.address)

    # ---- the journal

    def operation(self, kind: str, service: str, arguments: dict[str, str]) -> Operation:
        return Operation(self.world.random.token(16).hex(), kind, service, self.time.now_s(), arguments)

    def begin(self, operation: Operation, names: Collection[str]) -> None:
        self.world.journal.begin(operation, None, [MADE + name for name in sorted(set(names))])
        self.inventory.note(names)
        self.under_way.add(operation.id)

    def finish(self, operation: Operation, attempt: Attempt, outcome: Outcome) -> None:
        """A disk that fails now changes nothing that was done: the next start finds it unfinished, and looks."""
        self.under_way.discard(operation.id)
        try:
            self.world.journal.steps(operation.id, attempt.records())
            self.world.journal.finish(operation.id, outcome)
            last = attempt.steps[-1].name if attempt.steps else ""
            self.world.audit.append(
                Event("agent", operation.kind, f"service.{operation.lane}", outcome, last, operation.id)
            )
        except (HoldfastError, OSError) as trouble:
            message = getattr(trouble, "message", str(trouble))
            self._findings.add("state_unwritable", message, "check the disk of this node")
        self.world.say("service", {"service": operation.lane, "kind": operation.kind, "outcome": outcome})

    def watch(self, service: str, attempt: Attempt) -> None:
        self.attempts[service] = attempt
        self.changed()

    # ---- telling

    def failed(self, service: str, failure: Failure, record: Record) -> None:
        serving = record.serving.deployment if record.serving is not None else ""
        still = "what served before still does" if serving else "nothing serves"
        self._findings.add(
            FAILED,
            f"service.{service}: step {failure.step!r} failed: {failure.message}; {still}",
            failure.remedy,
            f"service.{service}",
        )
        self.world.say(FAILED, {"service": service, "step": failure.step, "message": failure.message})

    def hook_failed(self, service: str, trouble: HoldfastError) -> None:
        self._findings.add_trouble(HOOK_FAILED, trouble, f"service.{service}")

    def served(self, service: str) -> None:
        for code in (FAILED, HOOK_FAILED):
            self._findings.clear(code, f"service.{service}")

    async def tail(self, id: str, lines: int) -> list[str]:
        """The last it said; silence where nobody can be asked."""
        found: list[str] = []
        with suppress(HoldfastError, TimeoutError, ValueError):
            async with asyncio.timeout(5.0):
                async for line in self.world.runtime.logs(id, lines, 0.0, False):
                    found.append(line.text.rstrip()[:300])
        return found[-lines:]

    # ---- what several ports do together

    async def stop(self, container: Container) -> None:
        await self.world.runtime.stop(container.id, GRACE_S)
        self.health_checks.stopped(container.id)
        await self.inventory.refresh(container.id)

    async def images_here(self, references: Iterable[str]) -> frozenset[str]:
        """Of these. Several rollouts that want to know the same ask once; each goes by the answer it got, whatever
        another one has forgotten meanwhile."""
        return frozenset([one for one in sorted(set(references)) if one in self.images or await self._is_here(one)])

    async def _is_here(self, reference: str) -> bool:
        if reference not in self._asked:
            self._asked[reference] = asyncio.ensure_future(self._ask(reference))
        return await asyncio.shield(self._asked[reference])

    async def _ask(self, reference: str) -> bool:
        try:
            here = await self.world.runtime.has_image(reference)
            if here:
                self.images.add(reference)
            return here
        finally:
            del self._asked[reference]

    async def make_network(self, name: str, service: str) -> None:
        await self.world.runtime.ensure_network(name, {LABEL_FLEET: self._me.fleet, LABEL_SERVICE: service})
        self.networks.add(name)

    def prepare_mounts(self, spec: ContainerSpec) -> None:
        own = f"{self.world.data_dir}/{spec.service}/"
        for mount in spec.mounts:
            inside = mount.source.removeprefix(own)
            if mount.source.startswith(own) and "/" not in inside:
                self.world.storage.volume(spec.service, inside)
            else:
                self.world.storage.host_path(spec.service, mount.source)

    async def run_once(self, name: str, spec: ContainerSpec, at_most_s: float) -> Finished:
        """To its end, and gone afterwards."""
        self.prepare_mounts(spec)
        mounts, secret_env = self.world.secrets.prepare(name, spec.secrets)
        labels = {LABEL_FLEET: self._me.fleet, LABEL_SERVICE: spec.service, LABEL_INFRASTRUCTURE: "hook"}
        try:
            return await self.world.runtime.run(
                CreateContainer(name, spec, labels, mounts, secret_env, restart=False, dns=self.traffic.dns), at_most_s
            )
        finally:
            self.world.secrets.forget(name)

    async def checkpoint(self, service: str, id: str, operation: Operation) -> None:
        loop = asyncio.get_running_loop()
        now_s = self.time.now_s()
        made = await loop.run_in_executor(None, self.world.storage.checkpoint, service, id, now_s)
        self.world.journal.note_made(made.path, operation.id, True)
        if self.time.alarm is None:  # a clock that is years ahead makes everything look old
            await loop.run_in_executor(None, self._prune, service, now_s)

    def _prune(self, service: str, now_s: float) -> None:
        """Older than seven days, and never the newest; only what this agent itself marked (gate)."""
        kept = [one for one in self.world.storage.checkpoints() if one.service == service]
        for old in kept[:-1]:
            if now_s - old.made_s < CHECKPOINTS_KEPT_S:
                continue
            proof = copies.may_discard(self.world.journal, old, self._me.node)
            if isinstance(proof, Discardable):
                self.world.storage.discard(proof)
                self.world.journal.forget_made(old.path)
