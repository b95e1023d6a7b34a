"""The container runtime of this machine. Small idempotent verbs; every call has a time limit.

It sees every container of the machine, and touches only those the agent names. A temporary failure is TryLater
(the runtime does not answer); any other failure is Failed with a remedy.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import BinaryIO, Protocol

from msgspec import Struct

from holdfast.errors import Failed
from holdfast.model.container import Container, ContainerSpec, Mount
from holdfast.ports.allowed import Allowed

Progress = Callable[[str], None]  # one short line

# The acts of the gate that permit a verb; the thing is the name of what is made, or the id of what is touched.
CREATES = frozenset({"CREATE"})
STARTS = frozenset({"START", "RESTART"})
STOPS = frozenset({"STOP", "RESTART", "REPLACE", "CLEAN_UP", "RETIRE"})
REMOVES = frozenset({"REPLACE", "CLEAN_UP", "RETIRE"})
RUNS = frozenset({"EXEC"})


class CreateContainer(Struct, frozen=True):
    """A container about to be created: its spec, and what the agent chose for this one."""

    name: str
    spec: ContainerSpec
    labels: dict[str, str]
    mounts: tuple[Mount, ...] = ()  # in addition to those of the spec: files of secrets
    secret_env: tuple[tuple[str, bytes], ...] = ()  # variable → content; must not appear in the output of the runtime
    publish: tuple[tuple[int, str, int], ...] = ()  # container port, host address, host port
    restart: bool = True  # the runtime restarts it after a crash (also while the agent is down)
    dns: tuple[str, ...] = ()  # its DNS servers; () uses the machine's


class Finished(Struct, frozen=True):
    code: int
    output: str  # the end of it, both streams


class Pipe(Struct, frozen=True):
    """What a command reads and writes instead of nothing: paths of files on the node. `sink` is made private and new,
    with the directories above it; it is gone if the command fails, or its disk has no room for it."""

    source: str = ""
    sink: str = ""


class Piped(Struct, frozen=True):
    """`output`: the end of what it wrote to no file. `size_bytes` and `tail`: how long its file is, and how it ends."""

    code: int
    output: str
    size_bytes: int = 0
    tail: bytes = b""


class LogLine(Struct, frozen=True):
    container: str  # id
    at_s: float
    error: bool  # written to stderr
    text: str


class ImageDirectory(Struct, frozen=True):
    """A directory of an image, as part of a tar: `inside` is its name there. Reading blocks: read it in a thread."""

    inside: str
    tar: BinaryIO


class PortTaken(Exception):
    """Another process has the port on the node; another port may be free."""

    def __init__(self, port: int) -> None:
        super().__init__(f"port {port} is taken")
        self.port = port


def touches(path: str, source: str) -> bool:
    """Whether a mount of `source` shows something of `path`."""
    one, other = path.rstrip("/") + "/", source.rstrip("/") + "/"
    return one.startswith(other) or other.startswith(one)


def name_taken(name: str) -> Failed:
    return Failed(
        f"the container {name} exists, and Holdfast did not create it",
        remedy=f"look at it, then rename or remove it: podman inspect {name}",
        code="name_taken",
    )


class Commands(Protocol):
    """What runs inside containers."""

    async def exec(self, id: str, command: Sequence[str], timeout_s: float, allowed: Allowed) -> Finished: ...

    async def pipe(self, id: str, command: Sequence[str], pipe: Pipe, timeout_s: float, allowed: Allowed) -> Piped:
        """The same as the user of the container's first process, with files as input and output. Raises Failed
        (`no_space`) if the disk has no room for the output. If it is cancelled, nothing of it runs on."""
        ...

    async def run(self, made: CreateContainer, timeout_s: float, allowed: Allowed) -> Finished:
        """Run a container to its end and remove it, however it ended (hooks)."""
        ...


class Runtime(Commands, Protocol):
    async def version(self) -> str:
        """Product and version, such as "podman 4.3.1"; also proves that the runtime answers."""
        ...

    async def containers(self) -> Sequence[Container]:
        """All containers, foreign ones included, sorted by name."""
        ...

    async def container(self, id: str) -> Container | None:
        """One container as it is now, by id or name; cheaper than listing all."""
        ...

    async def users(self, path: str) -> Sequence[str]:
        """Names of all containers, foreign ones included, that mount this path, a part of it or what it lies in."""
        ...

    def is_alive(self, container: Container) -> bool:
        """Whether the process seen before still lives; asks the kernel, not the runtime."""
        ...

    async def has_image(self, reference: str) -> bool: ...

    async def image_volumes(self, reference: str) -> Sequence[str]:
        """The directories that an image declares as volumes, sorted. The image must be on this node."""
        ...

    def image_directory(
        self, made: CreateContainer, path: str, allowed: Allowed
    ) -> AbstractAsyncContextManager[ImageDirectory | None]:
        """What the image of this container has at `path`, with owners and modes; links in the path lead within the
        image. None if it has no such directory. For that the container is created, never started, and removed; it
        must have no mounts."""
        ...

    async def pull(self, reference: str, progress: Progress) -> None: ...

    async def ensure_network(self, name: str, labels: dict[str, str]) -> None: ...

    async def remove_network(self, name: str, allowed: Allowed) -> None:
        """Does nothing if the network does not exist or is still in use."""
        ...

    async def create(self, made: CreateContainer, allowed: Allowed) -> str:
        """Its id. An existing container with that name and these labels is left alone and its id returned; any other
        container with that name is Failed (`name_taken`)."""
        ...

    async def start(self, id: str, allowed: Allowed) -> None:
        """Raises PortTaken if another process has a published port. Does nothing if it runs."""
        ...

    async def stop(self, id: str, allowed: Allowed, grace_s: float | None = None) -> None:
        """SIGTERM, then SIGKILL after `grace_s`, or after the time of its spec; also when its supervisor is dead. Does
        nothing if it does not run or exist."""
        ...

    async def remove(self, id: str, allowed: Allowed) -> None:
        """Removes its layers, never a mounted directory. Must be stopped. Does nothing if it does not exist."""
        ...

    def logs(self, id: str, tail: int | None, since_s: float, follow: bool) -> AsyncIterator[LogLine]:
        """What it wrote, oldest first; with `follow` until it ends or the caller stops."""
        ...

    async def changed(self, at_most_s: float) -> bool:
        """Wait until a container changed, or the time is over (False). Within a second it also notices a process that
        is gone though its supervisor did not report it. May miss a change or report none: callers also poll from time
        to time."""
        ...

    async def close(self) -> None: ...
