"""Whatever runs containers on this machine. Small idempotent verbs; every call is bounded in time.

Sees every container of the machine, and is only ever told to touch those the agent names. Trouble that passes by itself
is TryLater (the service is away), anything else Failed with a remedy.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from msgspec import Struct

from holdfast.errors import Failed
from holdfast.model.container import Container, ContainerSpec, Mount

Progress = Callable[[str], None]  # one short line


class CreateContainer(Struct, frozen=True):
    """One container about to be made: its spec plus what is chosen at this moment."""

    name: str
    spec: ContainerSpec
    labels: dict[str, str]
    mounts: tuple[Mount, ...] = ()  # beside those of the spec: files of secrets
    secret_env: tuple[tuple[str, bytes], ...] = ()  # variable → content; must not show in what the runtime prints
    publish: tuple[tuple[int, str, int], ...] = ()  # inside, address, outside
    restart: bool = True  # started again by the runtime itself when it crashes (also with the agent dead)
    dns: tuple[str, ...] = ()  # whom it asks for names; () asks as the machine does


class Finished(Struct, frozen=True):
    code: int
    output: str  # the end of it, both streams


class LogLine(Struct, frozen=True):
    container: str  # id
    at_s: float
    error: bool  # said on stderr
    text: str


class PortTaken(Exception):
    """Somebody else has the port on the node's side; another one may be free."""

    def __init__(self, port: int) -> None:
        super().__init__(f"port {port} is taken")
        self.port = port


def name_taken(name: str) -> Failed:
    return Failed(
        f"a container named {name} is here that Holdfast did not make",
        remedy=f"look at it and rename or remove it: podman inspect {name}",
        code="name_taken",
    )


class Runtime(Protocol):
    async def version(self) -> str:
        """Product and version, such as "podman 4.3.1"; also a sign of life."""
        ...

    async def containers(self) -> Sequence[Container]:
        """Every container there is, foreign ones too, sorted by name."""
        ...

    async def container(self, id: str) -> Container | None:
        """One of them, as it is now, by id or name; cheaper than looking at all."""
        ...

    def is_alive(self, container: Container) -> bool:
        """Whether the very process that was seen still lives, as the kernel tells: no product is asked."""
        ...

    async def has_image(self, reference: str) -> bool: ...

    async def pull(self, reference: str, progress: Progress) -> None: ...

    async def ensure_network(self, name: str, labels: dict[str, str]) -> None: ...

    async def remove_network(self, name: str) -> None:
        """Nothing if it is not there or still in use."""
        ...

    async def create(self, made: CreateContainer) -> str:
        """Its id. One of that name and these labels that is there already is left alone and its id returned; anything
        else of that name is Failed (`name_taken`)."""
        ...

    async def start(self, id: str) -> None:
        """Raises PortTaken if a published port is somebody else's. Nothing if it runs."""
        ...

    async def stop(self, id: str, grace_s: float) -> None:
        """Asked kindly, then killed; also when its supervisor is dead. Nothing if it does not run or is not there."""
        ...

    async def remove(self, id: str) -> None:
        """With everything of its own, never a mounted directory. Must be stopped. Nothing if it is not there."""
        ...

    async def exec(self, id: str, command: Sequence[str], timeout_s: float) -> Finished: ...

    async def run(self, made: CreateContainer, timeout_s: float) -> Finished:
        """A container that runs to its end and is gone afterwards, however it ended (hooks)."""
        ...

    def logs(self, id: str, tail: int | None, since_s: float, follow: bool) -> AsyncIterator[LogLine]:
        """What it wrote, oldest first; with `follow` until it ends or the caller stops."""
        ...

    async def changed(self, at_most_s: float) -> bool:
        """Wait until something happened to some container, or the time is over (False). Within a second it also
        notices a process that is gone though its supervisor did not say so. May be wrong in both directions: whoever
        relies on it looks from time to time anyway."""
        ...

    async def close(self) -> None: ...
