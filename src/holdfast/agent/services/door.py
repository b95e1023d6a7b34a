"""The door to the container runtime: the gate decides about each act, then it is done."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

from msgspec import Struct

from holdfast.errors import NotPermitted
from holdfast.gate.acts import Act
from holdfast.gate.authority import Authority, by_revision
from holdfast.gate.containers import may_make, may_touch
from holdfast.gate.decide import Decision, Park
from holdfast.model.container import Container
from holdfast.model.proven_address import ProvenAddress
from holdfast.ports.allowed import Allowed
from holdfast.ports.journal import Journal
from holdfast.ports.runtime import CreateContainer, Finished, ImageDirectory, Pipe, Piped, Runtime

Vouch = Callable[[str], ProvenAddress]  # what the signatures of the accepted revision say about an address


class Ground(Struct, frozen=True):
    """Why a container is touched. Without an authority it is the accepted revision, over the container's service."""

    act: Act
    authority: Authority | None = None


START, STOP = Ground(Act.START), Ground(Act.STOP)
REPLACE, RETIRE = Ground(Act.REPLACE), Ground(Act.RETIRE)


class Door:
    """`service` of a verb is the one that a container is for, where no label says so: a run of a schedule."""

    def __init__(self, runtime: Runtime, journal: Journal, vouch: Vouch, node: str) -> None:
        self._runtime = runtime
        self._journal = journal
        self._vouch = vouch
        self._node = node

    async def create(self, made: CreateContainer) -> str:
        return await self._runtime.create(made, self._make(Act.CREATE, made.name, made.spec.service))

    async def run(self, made: CreateContainer, timeout_s: float) -> Finished:
        return await self._runtime.run(made, timeout_s, self._make(Act.EXEC, made.name, made.spec.service))

    def image_directory(self, made: CreateContainer, path: str) -> AbstractAsyncContextManager[ImageDirectory | None]:
        return self._runtime.image_directory(made, path, self._make(Act.CREATE, made.name, made.spec.service))

    async def remove_network(self, name: str, service: str) -> None:
        await self._runtime.remove_network(name, self._make(Act.CLEAN_UP, name, service))

    async def start(self, container: Container, ground: Ground = START, service: str = "") -> None:
        await self._runtime.start(container.id, self.touch(container, ground, service))

    async def stop(self, container: Container, ground: Ground = STOP, service: str = "") -> None:
        await self._runtime.stop(container.id, self.touch(container, ground, service))

    async def remove(self, container: Container, ground: Ground = RETIRE, service: str = "") -> None:
        await self._runtime.remove(container.id, self.touch(container, ground, service))

    async def pipe(
        self, container: Container, command: Sequence[str], pipe: Pipe, timeout_s: float, service: str = ""
    ) -> Piped:
        """A command inside it, with files as input and output."""
        allowed = self.touch(container, Ground(Act.EXEC), service)
        return await self._runtime.pipe(container.id, command, pipe, timeout_s, allowed)

    def probes(self, container: Container) -> Allowed:
        """A health check runs a command inside it."""
        return self.touch(container, Ground(Act.EXEC))

    def touch(self, container: Container, ground: Ground, service: str = "") -> Allowed:
        authority = ground.authority or by_revision(self._vouch(f"service.{container.service or service}"))
        return permitted(may_touch(self._journal, ground.act, container, service, self._node, authority))

    def _make(self, act: Act, name: str, service: str) -> Allowed:
        return permitted(may_make(act, name, service, self._node, by_revision(self._vouch(f"service.{service}"))))


def permitted(decision: Decision) -> Allowed:
    if isinstance(decision, Park):
        raise NotPermitted(decision.reason, remedy=decision.sign, code="signature_required")
    return decision
