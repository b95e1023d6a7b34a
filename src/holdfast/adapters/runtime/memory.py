"""A runtime in memory: deterministic, with controls for every failure that tests need."""

import asyncio
import io
import tarfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.errors import Failed, TryLater
from holdfast.model.container import STOP_S, Container, Mount, Published, is_same
from holdfast.ports import runtime as port
from holdfast.ports.allowed import Allowed, check
from holdfast.ports.clock import Clock
from holdfast.ports.conversation import Conversation
from holdfast.ports.runtime import (
    RUNS,
    CreateContainer,
    Finished,
    ImageDirectory,
    LogLine,
    Pipe,
    Piped,
    PortTaken,
    Progress,
    name_taken,
    touches,
)

RESTARTS_MAX = 5
RESTART_S = 0.15  # how long podman takes to restart a crashed container
TIMED_OUT = 124
KILLED = 137
PIDS_FROM = 1 << 22  # no process of this machine has such a number: Linux counts below it
When = Literal["before", "after"]


class Behaviour(Struct, frozen=True):
    """What a container does after its start. By default it keeps running and obeys."""

    exit_after_s: float | None = None
    exit_code: int = 0
    start_s: float = 0.0
    stop_s: float = 0.0  # how long it takes to stop; beyond the grace it is killed
    says: tuple[str, ...] = ()
    start_trouble: str = ""  # why it cannot start
    executes: Callable[[Sequence[str]], Finished] = lambda command: Finished(0, "")
    pipes: Callable[[Sequence[str], bytes], tuple[Finished, bytes]] = lambda command, read: (Finished(0, ""), b"")
    exec_s: float = 0.0
    oom: bool = False  # its end is one for want of memory


class Directory(Struct, frozen=True):
    """A directory of an image: its files by path, all of one owner."""

    files: Mapping[str, bytes] = {}
    owner: tuple[int, int] = (0, 0)
    mode: int = 0o755


class Image(Struct, frozen=True):
    """An image in a registry: how long a pull takes, and its error; what it declares as volumes and has in
    directories."""

    pull_s: float = 0.0
    trouble: Exception | None = None
    lines: tuple[str, ...] = ("Copying blob", "Writing manifest")
    volumes: tuple[str, ...] = ()
    directories: Mapping[str, Directory] = {}


class Call(Struct, frozen=True):
    at_s: float
    verb: str
    subject: str  # container name, image reference or network name


class _Kept(Struct):
    """One container, with state that the port does not show."""

    seen: Container
    behaviour: Behaviour
    made: CreateContainer | None = None  # None: a foreign container
    supervised: bool = True
    lines: list[LogLine] = field(default_factory=list)
    ending: asyncio.TimerHandle | None = None


class MemoryRuntime:
    """Tests control it by `images`, `here`, `behaviours`, `taken`, `away`, `cut`, `crash`, `place`, `power_cut`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.images: dict[str, Image] = {}  # images in registries, by reference
        self.here: set[str] = set()  # images on the node, which need no pull
        self.behaviours: dict[str | tuple[str, ...], Behaviour] = {}  # by command, else by image as written or pulled
        self.taken: set[int] = set()  # ports of the node that another process holds
        self.away = False  # the service does not answer
        self.restart_s = RESTART_S
        self.networks: dict[str, dict[str, str]] = {}
        self._subnets: dict[int, str] = {}  # of closed networks, by number
        self.mounted: dict[str, tuple[Mount, ...]] = {}  # of foreign containers, by name
        self.calls: list[Call] = []
        self.files: dict[str, bytes] = {}  # of the node, by path: what commands read and write
        self._cuts: list[tuple[str, str, When, Exception]] = []
        self._kept: dict[str, _Kept] = {}
        self._count = 0
        self._bell = asyncio.Event()
        self._spoken = asyncio.Event()  # replaced each time, so that every waiter is woken

    # ---- controls for tests -----------------------------------------------------------------------------------------

    def cut(self, verb: str, subject: str = "", when: When = "before", trouble: Exception | None = None) -> None:
        """The next call of this verb (whose subject contains this text) raises, before or after it took effect."""
        again = TryLater(f"cut {when} {verb}", remedy="try again", code="runtime_away")
        self._cuts.append((verb, subject, when, trouble or again))

    def place(self, container: Container, behaviour: Behaviour | None = None) -> None:
        """Add a foreign container."""
        self._kept[container.id] = _Kept(container, behaviour or Behaviour())
        self._ring()

    def named(self, name: str) -> Container:
        return next(kept.seen for kept in self._kept.values() if kept.seen.name == name)

    def made(self, id: str) -> CreateContainer:
        made = self._kept[id].made
        assert made is not None, "this runtime did not create it"
        return made

    def say(self, id: str, text: str, error: bool = False) -> None:
        self._kept[id].lines.append(LogLine(id, self._clock.now_s(), error, text))
        self._speak()

    def crash(self, id: str, code: int = KILLED) -> None:
        """Its process dies. It restarts as with podman, if it has a supervisor and tries left."""
        kept = self._kept[id]
        if kept.seen.running:
            self._end(kept, code)

    def lose_supervisor(self, id: str) -> None:
        self._kept[id].supervised = False

    def power_cut(self) -> None:
        """All containers stop at once and do not restart."""
        for kept in self._kept.values():
            kept.supervised = False
            self.crash(kept.seen.id)

    def vanish(self, id: str) -> None:
        """Remove it without the port, as an operator with podman would."""
        self._unset(self._kept.pop(id))
        self._ring()

    # ---- the port ---------------------------------------------------------------------------------------------------

    async def version(self) -> str:
        self._enter("version", "")
        return "memory 1"

    async def containers(self) -> Sequence[Container]:
        self._enter("containers", "")
        found = sorted((kept.seen for kept in self._kept.values()), key=lambda one: one.name)
        self._leave("containers", "")
        return found

    async def users(self, path: str) -> Sequence[str]:
        self._enter("users", path)
        known = ((kept.seen.name, kept.made) for kept in self._kept.values())
        mounted = {name: made.spec.mounts for name, made in known if made is not None} | self.mounted
        return sorted(name for name, mounts in mounted.items() if any(touches(path, one.source) for one in mounts))

    def is_alive(self, container: Container) -> bool:
        kept = self._kept.get(container.id)
        return kept is not None and container.running and kept.seen.running and kept.seen.pid == container.pid

    async def container(self, id: str) -> Container | None:
        self._enter("container", id)
        found = (kept.seen for kept in self._kept.values() if id in (kept.seen.id, kept.seen.name))
        return next(found, None)

    async def has_image(self, reference: str) -> bool:
        self._enter("has_image", reference)
        return reference in self.here

    async def image_volumes(self, reference: str) -> Sequence[str]:
        self._enter("image_volumes", reference)
        self._require(reference)
        return sorted(self.images.get(reference, Image()).volumes)

    @asynccontextmanager
    async def image_directory(
        self, made: CreateContainer, path: str, allowed: Allowed
    ) -> AsyncIterator[ImageDirectory | None]:
        check(allowed, port.CREATES, made.name)
        self._enter("image_directory", made.name)
        self._require(made.spec.reference)
        found = self.images.get(made.spec.reference, Image()).directories.get(path)
        inside = path.strip("/")
        yield None if found is None else ImageDirectory(inside, _archive(inside, found))
        self._leave("image_directory", made.name)

    async def pull(self, reference: str, progress: Progress) -> None:
        self._enter("pull", reference)
        image = self.images.get(reference)
        if image is None:
            raise Failed(f"there is no image {reference}", remedy="push it", code="image_unknown")
        progress(f"Trying to pull {reference}...")
        await asyncio.sleep(image.pull_s)
        if image.trouble is not None:
            raise image.trouble
        for line in image.lines:
            progress(line)
        self.here.add(reference)
        self._leave("pull", reference)

    async def ensure_network(self, name: str, labels: dict[str, str]) -> None:
        self._enter("ensure_network", name)
        self.networks.setdefault(name, labels)
        self._leave("ensure_network", name)

    async def closed_network(self, name: str, labels: dict[str, str]) -> str:
        self._enter("closed_network", name)
        self.networks.setdefault(name, labels)
        number = next(one for one in range(256) if self._subnets.get(one, name) == name)
        self._subnets[number] = name
        self._leave("closed_network", name)
        return f"10.89.{number}.0/24"

    @asynccontextmanager
    async def connect(self, container: Container, port: int, allowed: Allowed) -> AsyncIterator[Conversation]:
        check(allowed, RUNS, container.id)
        self._enter("connect", container.name)
        raise ConnectionRefusedError("nothing listens in memory")
        yield

    async def remove_network(self, name: str, allowed: Allowed) -> None:
        check(allowed, port.REMOVES, name)
        self._enter("remove_network", name)
        if not any(kept.made is not None and kept.made.spec.network == name for kept in self._kept.values()):
            self.networks.pop(name, None)
            self._subnets = {number: one for number, one in self._subnets.items() if one != name}
        self._leave("remove_network", name)

    async def create(self, made: CreateContainer, allowed: Allowed) -> str:
        check(allowed, port.CREATES, made.name)
        self._enter("create", made.name)
        same = [kept.seen for kept in self._kept.values() if kept.seen.name == made.name]
        if same and not is_same(made.labels, same[0].labels):
            raise name_taken(made.name)
        id = same[0].id if same else self._create(made, self._behaviour(made))
        self._leave("create", made.name)
        return id

    def _create(self, made: CreateContainer, behaviour: Behaviour) -> str:
        self._require(made.spec.reference)
        if made.spec.network and made.spec.network not in self.networks:
            raise Failed(f"there is no network {made.spec.network}", remedy="create it first", code="runtime")
        self._count += 1
        id = sha256(f"{made.name} {self._count}".encode()).hexdigest()
        seen = Container(
            id=id,
            name=made.name,
            phase="created",
            labels=dict(made.labels),
            image=made.spec.reference,
            ports=tuple(Published(*one) for one in made.publish),
            created_s=self._clock.now_s(),
        )
        self._kept[id] = _Kept(seen, behaviour, made)
        self._ring()
        return id

    async def start(self, id: str, allowed: Allowed) -> None:
        check(allowed, port.STARTS, id)
        kept = self._there(id)
        self._enter("start", kept.seen.name)
        if not kept.seen.running:
            await self._start(kept)
        self._leave("start", kept.seen.name)

    async def _start(self, kept: _Kept) -> None:
        await asyncio.sleep(kept.behaviour.start_s)
        if kept.behaviour.start_trouble:
            raise Failed(kept.behaviour.start_trouble, remedy="correct the service's file", code="start_failed")
        for one in kept.seen.ports:
            if one.outside in self.taken or one.outside in self._ports_in_use():
                raise PortTaken(one.outside)
        self._unset(kept)
        kept.supervised = True
        self._begin(kept, restarts=0)

    async def stop(self, id: str, allowed: Allowed, grace_s: float | None = None) -> None:
        check(allowed, port.STOPS, id)
        kept = self._kept.get(id)
        if grace_s is None:
            grace_s = kept.made.spec.stop_s if kept is not None and kept.made is not None else STOP_S
        self._enter("stop", kept.seen.name if kept else id)
        if kept is not None and kept.seen.running:
            self._unset(kept)
            await asyncio.sleep(min(kept.behaviour.stop_s, grace_s))
            if kept.seen.running:  # it did not end meanwhile
                kept.supervised = False  # stopped on request: it must not restart
                self._end(kept, 0 if kept.behaviour.stop_s <= grace_s else KILLED)
        elif kept is not None:
            self._unset(kept)  # it was about to restart
        self._leave("stop", kept.seen.name if kept else id)

    async def remove(self, id: str, allowed: Allowed) -> None:
        check(allowed, port.REMOVES, id)
        kept = self._kept.get(id)
        self._enter("remove", kept.seen.name if kept else id)
        if kept is not None:
            if kept.seen.running:
                raise Failed(f"container {kept.seen.name} is running", remedy="stop it first", code="runtime")
            self.vanish(id)
        self._leave("remove", kept.seen.name if kept else id)

    async def exec(self, id: str, command: Sequence[str], timeout_s: float, allowed: Allowed) -> Finished:
        check(allowed, port.RUNS, id)
        kept = self._there(id)
        self._enter("exec", kept.seen.name)
        if not kept.seen.running:
            raise Failed(f"container {kept.seen.name} is not running", remedy="start it first", code="not_running")
        await asyncio.sleep(min(kept.behaviour.exec_s, timeout_s))
        late = kept.behaviour.exec_s > timeout_s
        return Finished(TIMED_OUT, "killed after the time limit\n") if late else kept.behaviour.executes(command)

    async def pipe(self, id: str, command: Sequence[str], pipe: Pipe, timeout_s: float, allowed: Allowed) -> Piped:
        check(allowed, port.RUNS, id)
        kept = self._there(id)
        self._enter("pipe", kept.seen.name)
        if not kept.seen.running:
            raise Failed(f"container {kept.seen.name} is not running", remedy="start it first", code="not_running")
        await asyncio.sleep(min(kept.behaviour.exec_s, timeout_s))
        if kept.behaviour.exec_s > timeout_s:
            return Piped(TIMED_OUT, "killed after the time limit\n")
        done, written = kept.behaviour.pipes(command, self.files.get(pipe.source, b""))
        if pipe.sink and done.code == 0:
            self.files[pipe.sink] = written
        self._leave("pipe", kept.seen.name)
        return (
            Piped(done.code, done.output, len(written), written[-4096:]) if pipe.sink else Piped(done.code, done.output)
        )

    async def run(self, made: CreateContainer, timeout_s: float, allowed: Allowed) -> Finished:
        check(allowed, port.RUNS, made.name)
        self._enter("run", made.name)
        does = self.behaviours.get(made.spec.command, Behaviour(exit_after_s=0.0))
        id = self._create(replace(made, restart=False), does)
        kept = self._kept[id]
        try:
            await self._start(kept)
            try:
                async with asyncio.timeout(timeout_s):
                    await self._until(lambda: not kept.seen.running)
                finished = Finished(kept.seen.exit_code, "".join(f"{line.text}\n" for line in kept.lines))
            except TimeoutError:
                finished = Finished(TIMED_OUT, "killed after the time limit\n")
        finally:
            if id in self._kept:
                self.vanish(id)
        self._leave("run", made.name)
        return finished

    async def _until(self, true: Callable[[], bool]) -> None:
        while not true():
            await self._spoken.wait()

    async def logs(self, id: str, tail: int | None, since_s: float, follow: bool) -> AsyncIterator[LogLine]:
        kept = self._there(id)
        self._enter("logs", kept.seen.name)
        wanted = [line for line in kept.lines if line.at_s >= since_s]
        next_one = len(kept.lines)
        for line in wanted if tail is None else wanted[len(wanted) - min(tail, len(wanted)) :]:
            yield line
        while follow:
            await self._until(lambda known=next_one: len(kept.lines) > known or not kept.seen.running)  # type: ignore[misc]
            new, next_one = kept.lines[next_one:], len(kept.lines)
            for line in new:
                yield line
            follow = bool(new) or kept.seen.running

    async def changed(self, at_most_s: float) -> bool:
        try:
            async with asyncio.timeout(at_most_s):
                await self._bell.wait()
        except TimeoutError:
            return False
        self._bell.clear()
        return True

    async def close(self) -> None:
        for kept in self._kept.values():
            self._unset(kept)

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _enter(self, verb: str, subject: str) -> None:
        self.calls.append(Call(self._clock.now_s(), verb, subject))
        if self.away:
            raise TryLater("the runtime does not answer", remedy="wait", code="runtime_away")
        self._cut(verb, subject, "before")

    def _leave(self, verb: str, subject: str) -> None:
        self._cut(verb, subject, "after")

    def _cut(self, verb: str, subject: str, when: When) -> None:
        for cut in self._cuts:
            if cut[0] == verb and cut[1] in subject and cut[2] == when:
                self._cuts.remove(cut)
                raise cut[3]

    def _there(self, id: str) -> _Kept:
        kept = self._kept.get(id)
        if kept is None:
            raise Failed(f"container {id[:12]} is gone", remedy="deploy again", code="container_gone")
        return kept

    def _require(self, reference: str) -> None:
        if reference not in self.here:
            raise Failed(f"{reference} is not on this node", remedy="pull it first", code="image_missing")

    def _behaviour(self, made: CreateContainer) -> Behaviour:
        for key in (made.spec.command, made.spec.reference, made.spec.image):
            if key in self.behaviours:
                return self.behaviours[key]
        return Behaviour()

    def _ports_in_use(self) -> set[int]:
        return {port.outside for kept in self._kept.values() if kept.seen.running for port in kept.seen.ports}

    def _begin(self, kept: _Kept, restarts: int) -> None:
        self._count += 1
        kept.seen = replace(
            kept.seen,
            phase="running",
            running=True,
            pid=PIDS_FROM + self._count,
            address=f"10.88.{self._count // 250}.{self._count % 250 + 2}",
            started_s=float(int(self._clock.now_s())),  # as podman lists it
            ended_s=0.0,
            exit_code=0,
            restarts=restarts,
        )
        for text in kept.behaviour.says:
            self.say(kept.seen.id, text)
        if kept.behaviour.exit_after_s is not None:
            self._after(kept.behaviour.exit_after_s, kept, lambda: self._end(kept, kept.behaviour.exit_code))
        self._ring()

    def _end(self, kept: _Kept, code: int) -> None:
        self._unset(kept)
        now_s = self._clock.now_s()
        kept.seen = replace(kept.seen, phase="exited", running=False, pid=0, address="", ended_s=now_s, exit_code=code)
        kept.seen = replace(kept.seen, last_exit=code, oom=kept.behaviour.oom)
        again = kept.made is not None and kept.made.restart and kept.supervised and code != 0
        if again and kept.seen.restarts < RESTARTS_MAX:
            self._after(self.restart_s, kept, lambda: self._begin(kept, kept.seen.restarts + 1))
        self._ring()

    def _after(self, seconds: float, kept: _Kept, then: Callable[[], None]) -> None:
        kept.ending = asyncio.get_running_loop().call_later(seconds, then)

    def _unset(self, kept: _Kept) -> None:
        if kept.ending is not None:
            kept.ending.cancel()
            kept.ending = None

    def _ring(self) -> None:
        self._bell.set()
        self._speak()

    def _speak(self) -> None:
        self._spoken.set()
        self._spoken = asyncio.Event()


def _archive(inside: str, directory: Directory) -> io.BytesIO:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, content in (("", None), *sorted(directory.files.items())):
            member = tarfile.TarInfo(f"{inside}/{name}".rstrip("/"))
            member.uid, member.gid = directory.owner
            member.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            member.mode, member.size = (directory.mode, 0) if content is None else (0o644, len(content))
            archive.addfile(member, io.BytesIO(content or b""))
    target.seek(0)
    return target
