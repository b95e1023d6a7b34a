"""Acts on single containers that need several ports: start, stop, remove, run once."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from msgspec.structs import replace

from holdfast.agent.lanes import Lanes
from holdfast.agent.services.data.volumes import ALONE, Admission, Volumes
from holdfast.agent.services.door import REPLACE, START, STOP, Door, Ground
from holdfast.agent.services.rollout.health_checks import HealthChecks
from holdfast.agent.services.rollout.inventory import ContainerInventory
from holdfast.errors import HoldfastError
from holdfast.model.container import (
    LABEL_FLEET,
    LABEL_INFRASTRUCTURE,
    LABEL_SERVICE,
    LABEL_SPEC,
    Container,
    ContainerSpec,
    Mount,
    Published,
    spec_digest,
)
from holdfast.ports.runtime import Closed, CreateContainer, Finished

TAIL_S = 5.0
TAIL_LINES = 20
LINE_CHARS = 300
SAID_CHARS = 1500
READER = "-image"  # ends the name of what reads an image; the journal has it, so that a crash leaves none behind

Publish = tuple[tuple[int, str, int], ...]  # inside, address, outside


class SecretDelivery(Protocol):
    """Opens secrets with this node's own key, for one container at a time."""

    def prepare(self, name: str, spec: ContainerSpec) -> tuple[tuple[Mount, ...], tuple[tuple[str, bytes], ...]]:
        """Files to mount, and variables with their content. Again after a reboot: files do not survive one."""
        ...

    def value(self, name: str, digest: str, fleet: str, address: str) -> bytes:
        """Of a secret that no container gets; only if the seal names this address."""
        ...

    def forget(self, name: str) -> None:
        """The container is gone."""
        ...

    def forget_all_but(self, names: list[str]) -> None:
        """After a start: other containers may have gone while no agent ran."""
        ...


class Containers:
    """`dns` answers which DNS servers a new container asks."""

    def __init__(
        self,
        *,
        door: Door,
        inventory: ContainerInventory,
        health_checks: HealthChecks,
        secrets: SecretDelivery,
        volumes: Volumes,
        dns: Callable[[], tuple[str, ...]],
        lanes: Lanes,
        fleet: str,
    ) -> None:
        self._door = door
        self._inventory = inventory
        self._health_checks = health_checks
        self._secrets = secrets
        self._volumes = volumes
        self._dns = dns
        self._lanes = lanes
        self._fleet = fleet
        self._unseen: set[str] = set()  # prepared, and not in the inventory yet

    # ---- looking

    async def look(self) -> None:
        await self._inventory.look()

    def of(self, service: str) -> tuple[Container, ...]:
        return self._inventory.of(service)

    def labelled(self, kind: str) -> tuple[Container, ...]:
        """Of this fleet and for this purpose (`run` of a schedule, `drill`), as they were last seen."""
        labels = {LABEL_FLEET: self._fleet, LABEL_INFRASTRUCTURE: kind}
        return tuple(one for one in self._inventory.all() if labels.items() <= one.labels.items())

    def note(self, names: list[str]) -> None:
        """These names are in the journal now."""
        self._inventory.note(names)

    def illness(self, container: Container) -> str | None:
        """Why this container does not serve; None if it does, or may still be starting."""
        if container.running and self._health_checks.word(container) not in ("failed", "unhealthy"):
            return None
        return self._health_checks.why(container.id) or "it does not stay up"

    def is_ill(self, container: Container) -> bool:
        return self._health_checks.word(container) in ("failed", "unhealthy")

    async def last_words(self, container: Container) -> str:
        """Why it is ill and the last lines it wrote, for a message; "" where neither is known."""
        lines = await self._tail(container.id)
        ended = f"exit {container.last_end}" if container.last_end and not container.running else ""
        why = ", ".join(filter(None, (ended, self._health_checks.why(container.id))))
        said = f"; its last lines: {' ⏎ '.join(lines)}"[:SAID_CHARS] if lines else ""
        return (f" ({why})" if why else "") + said

    async def _tail(self, id: str) -> list[str]:
        found: list[str] = []
        with suppress(HoldfastError, TimeoutError, ValueError):
            async with asyncio.timeout(TAIL_S):
                async for line in self._inventory.logs(id, TAIL_LINES):
                    found.append(line.text.rstrip()[:LINE_CHARS])
        return found[-TAIL_LINES:]

    # ---- acting

    async def create(
        self, name: str, spec: ContainerSpec, labels: dict[str, str], publish: Publish, deployment: str
    ) -> None:
        """It is not started: what served before may still use the volumes."""
        await self._volumes.ready(spec, deployment, f"{name}{READER}")
        id = await self._door.create(self._prepared(name, spec, labels, publish, restart=True))
        ports = tuple(Published(*port) for port in publish)
        self._inventory.add(Container(id, name, "created", labels=labels, image=spec.reference, ports=ports))

    def prepared(self, name: str, spec: ContainerSpec, labels: dict[str, str], deployment: str) -> CreateContainer:
        """A container that runs once, for this deployment: it may use the volumes of its service, and its secrets are
        opened; `forget_secrets` once it is gone."""
        self._volumes.attach(spec, Admission(frozenset(), deployment))
        return self._prepared(name, spec, labels, (), restart=False)

    def beside(self, name: str, spec: ContainerSpec, kind: str, closed: Closed) -> CreateContainer:
        """One that has other directories in the place of the volumes of its service, in a closed network. It is no copy
        of the service that serves, and no orphan. Its secrets are opened; `forget_secrets` once it is gone."""
        labels = {LABEL_FLEET: self._fleet, LABEL_INFRASTRUCTURE: kind, LABEL_SPEC: spec_digest(spec)}
        return replace(self._prepared(name, spec, labels, (), restart=False), dns=(), closed=closed)

    def _prepared(
        self, name: str, spec: ContainerSpec, labels: dict[str, str], publish: Publish, restart: bool
    ) -> CreateContainer:
        self._unseen.add(name)
        mounts, secret_env = self._secrets.prepare(name, spec)
        return CreateContainer(name, spec, labels, mounts, secret_env, publish, restart, self._dns())

    async def start(
        self,
        container: Container,
        spec: ContainerSpec | None,
        admission: Admission = ALONE,
        ground: Ground = START,
    ) -> None:
        """`spec` prepares mounts and secrets again: a service could have put a link where a mount was."""
        if spec is not None:
            await self._volumes.ready(spec, admission.deployment, f"{container.name}{READER}")
            self._volumes.attach(spec, admission)
            await self._volumes.own(spec)
            self._secrets.prepare(container.name, spec)
        await self._door.start(container, ground)

    async def stop(self, container: Container, ground: Ground = STOP) -> None:
        await self._lanes.alone(container.service)
        await self._door.stop(container, ground)
        self._health_checks.stopped(container.id)
        await self._inventory.refresh(container.id)

    async def remove(self, container: Container, ground: Ground = REPLACE) -> None:
        await self._door.remove(container, ground)
        self._health_checks.forget(container.id)
        self.forget_secrets(container.name)
        await self._inventory.refresh(container.id)

    async def run_once(self, name: str, spec: ContainerSpec, deployment: str, at_most_s: float) -> Finished:
        """Until it ends; the container is gone afterwards."""
        labels = {LABEL_FLEET: self._fleet, LABEL_SERVICE: spec.service, LABEL_INFRASTRUCTURE: "hook"}
        try:
            return await self._door.run(self.prepared(name, spec, labels, deployment), at_most_s)
        finally:
            self.forget_secrets(name)

    def attempt_failed(self, service: str) -> None:
        """What this deployment added may write into the volumes no longer."""
        self._volumes.failed(service)

    def forget_secrets(self, name: str) -> None:
        self._unseen.discard(name)
        self._secrets.forget(name)

    def forget_gone_secrets(self) -> None:
        """A container that is created meanwhile is not in the inventory, and needs its files."""
        seen = {one.name for one in self._inventory.all()}
        self._unseen -= seen
        self._secrets.forget_all_but([*seen, *self._unseen])
