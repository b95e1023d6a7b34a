"""One service driven to its target, step by step: what was decided (reconcile/) is done, and what came of it is told.

Forward the target is what is wanted. When a step fails, that is written down first, and the target is what served
before; nothing is remembered in between that a crash could lose.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.agent.services.records import Failure, Record
from holdfast.agent.services.rollout.attempts import Attempt
from holdfast.agent.services.rollout.crew import Crew
from holdfast.errors import Failed, HoldfastError, TryLater
from holdfast.model.container import Container, Guest, Part, Published, labels_of, name_of
from holdfast.model.journal import Operation, Outcome
from holdfast.ports.proxy import Backend
from holdfast.ports.runtime import CreateContainer, PortTaken
from holdfast.reconcile import rollout, steps
from holdfast.reconcile.here import Here

DRAIN_S_MAX = 10.0
HOOK_S_MAX = 240.0  # less than [timeouts] deploy gives: whoever deploys hears that it was the hook
LOOK_S = 0.2  # while waiting for health, so often it is checked that the container is still there
PULL_TRIES = 3
PORT_TRIES = 5
STEPS_MAX = 1000  # no service needs so many; a table that goes in circles must not go on for ever
TAIL_LINES = 20

_WHEN = ("pre_deploy", "post_deploy")
_QUIET = (steps.Certify, steps.Switch, steps.AwaitHealthy)

Perform = Callable[[Any], Awaitable[None]]


class Rollout:
    """`wanted` is None for a service that leaves this node."""

    def __init__(self, crew: Crew, service: str, wanted: Guest | None, revision: int) -> None:
        self._crew = crew
        self._world = crew.world
        self._service = service
        self._wanted = wanted
        self._revision = revision
        self._operation: Operation | None = None
        self._attempt = Attempt(crew.time.now_s, crew.changed)
        self._tried: set[str] = set()
        self._drained: set[str] = set()
        self._checkpoints: set[str] = set()
        self._removed: set[str] = set()  # networks
        self._performers: Mapping[type, Perform] = {
            steps.Pull: self._pull,
            steps.MakeNetwork: self._make_network,
            steps.Hook: self._hook,
            steps.Create: self._create,
            steps.Start: self._start,
            steps.AwaitHealthy: self._await_healthy,
            steps.Stop: self._stop,
            steps.Checkpoint: self._checkpoint,
            steps.Certify: self._certify,
            steps.Switch: self._switch,
            steps.Unroute: self._unroute,
            steps.Unlist: self._unlist,
            steps.Drain: self._drain,
            steps.Remove: self._remove,
            steps.RemoveNetwork: self._remove_network,
        }

    # ---- where to

    @property
    def _record(self) -> Record:
        return self._crew.records.of(self._service)

    @property
    def target(self) -> Guest | None:
        """What served before, once the wanted one failed; None where nothing did."""
        if self._wanted is not None and self._record.failed == self._wanted.deployment:
            return self._record.serving
        return self._wanted

    @property
    def _is_attempt(self) -> bool:
        target, record = self.target, self._record
        return target is not None and target is self._wanted and not rollout.is_settled(target, record.serving)

    # ---- the way there

    async def run(self) -> None:
        """Until at rest. Raises what keeps it from getting there; a failed attempt that went back is no such thing."""
        outcome: Outcome = "failed"
        self._doubt()
        try:
            for _ in range(STEPS_MAX):
                step = rollout.next_step(self.target, await self.here())
                if step is None:
                    outcome = "done"
                    break
                await self._take(step)
            else:
                raise Failed(
                    f"service.{self._service} does not come to rest after {STEPS_MAX} steps",
                    remedy="report this, with `holdfast agent journal` of the node",
                    code="no_progress",
                )
            self._rest()
        finally:
            self._close(outcome)

    def _doubt(self) -> None:
        """Somebody may have pruned images or networks since they were seen last."""
        for guest in (self._wanted, self._record.serving):
            for part in guest.parts if guest is not None else ():
                self._crew.images.discard(part.spec.reference)
                self._crew.networks.discard(part.spec.network)

    async def _take(self, step: steps.Step) -> None:
        if isinstance(step, steps.Fail):
            message = await self._last_words(step)
            self._fail(step.name, "unhealthy", message, "mend what it says and deploy again")
            return
        if isinstance(step, _QUIET) and self._operation is None and not self._is_attempt:
            await self._performers[type(step)](step)  # renewed, lost by the proxy, or healed: no deployment is
            return
        self._begin()
        self._attempt.begin(step.name)
        try:
            await self._performers[type(step)](step)
        except HoldfastError as trouble:
            self._attempt.failed(trouble.message)
            if self._is_attempt and (isinstance(step, steps.Pull) or not isinstance(trouble, TryLater)):
                self._fail(step.name, trouble.code, trouble.message, self._and_then(trouble.remedy))
                return
            raise
        if not self._is_ill(step):
            self._attempt.done()

    def _and_then(self, remedy: str) -> str:
        """What failed is not begun again by itself, nor by a deploy that finds nothing changed."""
        if "deploy again" in remedy:
            return remedy
        name = self._service
        return f"{remedy}; then holdfast restart {name}, or holdfast deploy {name} if its file changed"

    def _is_ill(self, step: steps.Step) -> bool:
        """Waited for in vain: whether that is a failure, the table says next."""
        waited = step.containers if isinstance(step, steps.AwaitHealthy) else ()
        return any(self._crew.health_checks.word(one) in ("failed", "unhealthy") for one in waited)

    def _fail(self, step: str, code: str, message: str, remedy: str) -> None:
        """Durable before anything is undone: after a crash the way back goes on, not the attempt."""
        assert self._wanted is not None
        if self._attempt.steps and self._attempt.steps[-1].outcome == "running":
            self._attempt.failed(message)
        failure = Failure(self._wanted.deployment, step, code, message, remedy, round(self._crew.time.now_s(), 3))
        self._crew.records.keep(self._service, replace(self._record, failure=failure))
        self._crew.failed(self._service, failure, self._record)
        self._tried.clear()

    async def _last_words(self, step: steps.Fail) -> str:
        lines = await self._crew.tail(step.container.id, TAIL_LINES)
        why = self._crew.health_checks.why(step.container.id)
        message = f"{steps.label(step.container)}: {step.why}{f' ({why})' if why else ''}"
        return message + (f"; it said last: {' ⏎ '.join(lines)}"[:1500] if lines else "")

    def _rest(self) -> None:
        if self._wanted is None:
            self._crew.records.forget(self._service)
            self._crew.served(self._service)  # what failed of it is nobody's concern any more

    # ---- written down

    def _begin(self) -> None:
        """Once, before the first thing is done: names are known to be ours before there is anything by them (W10)."""
        if self._operation is not None:
            return
        kind = "deploy" if self._wanted is not None else "retire"
        arguments = {"deployment": self._wanted.deployment} if self._wanted is not None else {}
        operation = self._crew.operation(kind, self._service, arguments)
        names = [name for guest in (self._wanted, self._record.serving) if guest for name in _names(guest)]
        self._crew.begin(operation, names)
        self._operation = operation
        self._crew.watch(self._service, self._attempt)

    def _close(self, outcome: Outcome) -> None:
        if self._operation is not None:
            failed = outcome == "failed" or (
                self._wanted is not None and self._record.failed == self._wanted.deployment
            )
            self._crew.finish(self._operation, self._attempt, "failed" if failed else "done")

    # ---- what is here

    async def here(self) -> Here:
        crew, target, record = self._crew, self.target, self._record
        containers = crew.inventory.of(self._service)
        seen = tuple(crew.health_checks.seen(one, self._health_of(one)) for one in containers)
        guests = [guest for guest in (target, record.serving) if guest is not None]
        parts = [part for guest in guests for part in guest.parts]
        routes = crew.routes
        here = Here(
            containers=seen,
            strangers=crew.inventory.strangers(self._service),
            serving=record.serving,
            routed=self._routed(containers),
            listed=bool(routes.board.of(self._service)),
            images=await crew.images_here({part.spec.reference for part in parts}),
            networks=self._networks(parts),
            hooks=self._hooks_done(),
            checkpoints=frozenset(self._checkpoints),
            tried=frozenset(self._tried | crew.crashes.backing_off(containers)),
            drained=frozenset(self._drained),
            failed=record.failed,
            held=record.held,
        )
        if not routes.has_proxy:
            return here
        wanted = routes.wanted(target, here)
        return replace(
            here,
            certified=all(route.certificate for route in wanted if route.mode == "l7"),
            misrouted=wanted != routes.board.of(self._service),
        )

    def _networks(self, parts: Sequence[Part]) -> frozenset[str]:
        """Those known to be there; one that is left behind, also by an agent that did not make it."""
        named = {part.spec.network for part in parts if part.spec.network}
        known = named & self._crew.networks
        return frozenset(known if self._wanted is not None else (known | named) - self._removed)

    def _hooks_done(self) -> frozenset[tuple[str, str]]:
        """On the way back nothing is run again: what served had its hooks when it was new."""
        if self.target is not None and self.target is not self._wanted:
            return frozenset((part.spec.component, when) for part in self.target.parts for when in _WHEN)
        return frozenset(_hook(text) for text in self._record.hooks)

    def _health_of(self, container: Container) -> Part | None:
        for guest in (self.target, self._wanted, self._record.serving):
            for part in guest.parts if guest is not None else ():
                if (part.spec.component, part.digest) == (container.component, container.spec):
                    return part
        return None

    def _routed(self, containers: tuple[Container, ...]) -> frozenset[str] | None:
        if not self._crew.routes.has_proxy:
            return None
        told = {back for route in self._crew.routes.board.of(self._service) for back in route.backends}
        return frozenset(one.id for one in containers if told.intersection(_backends(one)))

    # ---- the steps

    async def _pull(self, step: steps.Pull) -> None:
        for tried in range(1, PULL_TRIES + 1):
            try:
                await self._world.runtime.pull(step.reference, self._attempt.say)
                break
            except TryLater:
                if tried == PULL_TRIES:
                    raise
                await asyncio.sleep(tried)
        self._crew.images.add(step.reference)

    async def _make_network(self, step: steps.MakeNetwork) -> None:
        await self._crew.make_network(step.network, self._service)

    async def _remove_network(self, step: steps.RemoveNetwork) -> None:
        await self._world.runtime.remove_network(step.network)
        self._crew.networks.discard(step.network)
        self._removed.add(step.network)

    async def _hook(self, step: steps.Hook) -> None:
        """In the image of the component, never on the host. Without its volumes before: the old one still has them."""
        part = step.part
        command = part.pre_deploy if step.when == "pre_deploy" else part.post_deploy
        mounts = () if step.when == "pre_deploy" else part.spec.mounts
        spec = replace(part.spec, command=command, mounts=mounts, ports=())
        name = _hook_name(part, step.when)
        finished = await self._crew.run_once(name, spec, HOOK_S_MAX)
        note = f"{step.when} {part.spec.component}"
        if finished.code == 0 or step.when == "post_deploy":  # tried once: what serves is not taken back for it
            self._crew.records.keep(self._service, replace(self._record, hooks=(*self._record.hooks, note)))
        if finished.code != 0:
            said = f": {_one_line(finished.output)}" if finished.output.strip() else ""
            trouble = Failed(
                f"the {step.when} hook of {part.spec.component} ended with {finished.code}{said}",
                remedy=f"mend hooks.{step.when} in services/{self._service}.toml and deploy again",
                code="hook_failed",
            )
            if step.when == "pre_deploy":
                raise trouble
            self._crew.hook_failed(self._service, trouble)
            self._attempt.failed(trouble.message)

    async def _create(self, step: steps.Create) -> None:
        part = step.part
        name = name_of(part.spec, part.digest, step.replica)
        self._crew.prepare_mounts(part.spec)
        mounts, secret_env = self._world.secrets.prepare(name, part.spec.secrets)
        publish = self._crew.ports.choose(name, part.spec.ports, self._crew.address, self._crew.inventory.all())
        deployment = self.target.deployment if self.target is not None else ""
        labels = labels_of(part.spec, part.digest, deployment, step.replica)
        try:
            dns = self._crew.traffic.dns
            id = await self._world.runtime.create(
                CreateContainer(name, part.spec, labels, mounts, secret_env, publish, dns=dns)
            )
        except Failed as trouble:
            if trouble.code != "image_missing":
                raise
            self._crew.images.discard(part.spec.reference)  # somebody tidied up: it is pulled again
            raise TryLater(trouble.message, remedy="it is pulled again by itself", code=trouble.code) from trouble
        doors = tuple(Published(*door) for door in publish)
        self._crew.inventory.add(Container(id, name, "created", labels=labels, image=part.spec.reference, ports=doors))
        self._crew.ports.settled(name)

    async def _start(self, step: steps.Start) -> None:
        container, part = step.container, step.part
        for tried in range(1, PORT_TRIES + 1):
            try:
                self._crew.prepare_mounts(part.spec)  # again: whoever had it could have put a link there
                self._world.secrets.prepare(container.name, part.spec.secrets)
                await self._world.runtime.start(container.id)
                break
            except PortTaken as taken:
                self._crew.ports.refused(taken.port)
                if tried == PORT_TRIES or await self._has_served(container):
                    raise Failed(
                        f"port {taken.port} of this node, which {steps.label(container)} answers on, is taken",
                        remedy=f"see who has it and end that: ss -ltnp 'sport = :{taken.port}'",
                        code="port_taken",
                    ) from taken
                container = await self._made_anew(container, part)
        self._tried.add(container.id)
        if container.started_s > 0 and not self._is_attempt:
            self._crew.crashes.healed(container)
        started = await self._crew.inventory.refresh(container.id)
        if started is not None:
            self._crew.health_checks.follow(started, part)

    async def _has_served(self, container: Container) -> bool:
        return container.started_s > 0

    async def _made_anew(self, container: Container, part: Part) -> Container:
        """It never ran, so there is nothing to lose: the same again, with another port."""
        await self._world.runtime.remove(container.id)
        await self._crew.inventory.refresh(container.id)
        await self._create(steps.Create(part, container.replica))
        name = name_of(part.spec, part.digest, container.replica)
        found = next((one for one in self._crew.inventory.of(self._service) if one.name == name), None)
        if found is None:
            raise TryLater(f"{name} is gone as soon as it was made", remedy="it is tried again", code="runtime_away")
        return found

    async def _await_healthy(self, step: steps.AwaitHealthy) -> None:
        """Until one of them is something else than starting. Also notices one that ended meanwhile. Nothing is changed
        here, so another service may have this one's place."""
        async with self._crew.lanes.resting():
            await self._wait_for([one.id for one in step.containers])

    async def _wait_for(self, ids: Sequence[str]) -> None:
        while not await self._crew.health_checks.moved(ids, LOOK_S):
            for id in ids:
                found = await self._crew.inventory.refresh(id)
                part = self._health_of(found) if found is not None else None
                if found is None or self._crew.health_checks.seen(found, part).health != "starting":
                    return

    async def _stop(self, step: steps.Stop) -> None:
        await self._crew.stop(step.container)
        self._tried.discard(step.container.id)

    async def _checkpoint(self, step: steps.Checkpoint) -> None:
        assert self._operation is not None and self._wanted is not None
        component, at = step.part.spec.component, int(self._operation.begun_s)  # a later attempt finds other data
        await self._crew.checkpoint(self._service, f"{self._wanted.deployment}-{component}-{at}", self._operation)
        self._checkpoints.add(component)

    async def _certify(self, step: steps.Certify) -> None:
        assert self.target is not None
        self._crew.routes.certify(self.target, await self.here())

    async def _switch(self, step: steps.Switch) -> None:
        target, record = self.target, self._record
        assert target is not None
        if self._is_attempt and not await self._all_alive(target):
            return  # it answered once and is gone: the table is asked again
        await self._crew.routes.switch(target, await self.here())
        if target is self._wanted:
            revision = record.applied_revision or self._revision
            self._crew.records.keep(
                self._service, replace(record, serving=target, serving_revision=revision, failure=None)
            )
            self._crew.served(self._service)

    async def _all_alive(self, target: Guest) -> bool:
        """Looked at once more, before what served so far is let go."""
        wanted = {part.digest for part in target.parts}
        here = [one for one in self._crew.inventory.of(self._service) if one.spec in wanted]
        gone = [one for one in here if not self._world.runtime.is_alive(one)]
        for one in gone:
            await self._crew.inventory.refresh(one.id)
        return not gone

    async def _unroute(self, step: steps.Unroute) -> None:
        await self._crew.routes.unroute(self._service)

    async def _unlist(self, step: steps.Unlist) -> None:
        await self._crew.routes.unlist(self._service)

    async def _drain(self, step: steps.Drain) -> None:
        gone = [backend for one in step.containers for backend in _backends(one)]
        await self._crew.routes.drained(gone, DRAIN_S_MAX)
        self._drained.update(one.id for one in step.containers)

    async def _remove(self, step: steps.Remove) -> None:
        await self._world.runtime.remove(step.container.id)
        self._crew.health_checks.forget(step.container.id)
        self._world.secrets.forget(step.container.name)
        await self._crew.inventory.refresh(step.container.id)


def _backends(container: Container) -> tuple[Backend, ...]:
    return tuple(Backend(port.address, port.outside) for port in container.ports)


def _names(guest: Guest) -> list[str]:
    """Also of what runs once: what a crash leaves of that goes like everything that is not wanted."""
    hooks = [_hook_name(part, when) for part in guest.parts for when in _WHEN]
    return [name_of(one.spec, one.digest, replica) for one in guest.parts for replica in range(one.replicas)] + hooks


def _hook_name(part: Part, when: str) -> str:
    return f"{name_of(part.spec, part.digest, 0)}-{when.partition('_')[0]}"


def _one_line(output: str) -> str:
    return " ⏎ ".join(line for line in output.splitlines() if line.strip())[-500:]


def _hook(text: str) -> tuple[str, str]:
    when, _, component = text.partition(" ")
    return component, when
