"""List all containers: one list call, details only for new ones, liveness from /proc."""

import asyncio
import os
from contextlib import suppress
from datetime import datetime

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.adapters.process import process
from holdfast.adapters.process.process import Process
from holdfast.adapters.runtime.podman import exit_code
from holdfast.adapters.runtime.podman.ends import Ends
from holdfast.adapters.runtime.podman.libpod import Libpod, Refused, stumbled
from holdfast.adapters.runtime.podman.oom_kills import OomKills
from holdfast.adapters.runtime.podman.pid_watch import PidWatch
from holdfast.model.container import STOP_S, Container, ContainerPhase, Published
from holdfast.ports.runtime import touches

LIST_S = 20.0
SLOW_S, PING_S = 1.0, 3.0  # with a look every ten seconds, the truth is shown within 15
TOGETHER = 8
LIST_TRIES = 3
GONE = "no such container"  # podman answers so with a status of 500 while it removes one
UNKNOWN = -1  # exit code of a dead container that podman still reports as running

PHASE: dict[str, ContainerPhase] = {
    "created": "created",
    "configured": "created",
    "initialized": "created",
    "running": "running",
    "stopping": "running",  # until its process is gone
    "paused": "paused",
    "stopped": "exited",
    "exited": "exited",
}


class _Port(Struct, frozen=True):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = ""
    range: int = 1


class _Row(Struct, frozen=True, rename="pascal"):
    """The fields of podman's list that we use."""

    id: str
    names: list[str] | None
    state: str
    created: str
    labels: dict[str, str] | None = None
    image: str = ""
    pid: int = 0
    ports: list[_Port] | None = None
    started_at: int = 0
    exit_code: int = 0
    exited_at: int = 0


class _State(Struct, frozen=True, rename="pascal"):
    status: str = ""
    pid: int = 0
    conmon_pid: int = 0
    started_at: str = ""
    finished_at: str = ""
    exit_code: int = 0


class _Attached(Struct, frozen=True):
    address: str = msgspec.field(default="", name="IPAddress")


class _Door(Struct, frozen=True, rename="pascal"):
    host_ip: str = ""
    host_port: str = ""


class _Network(Struct, frozen=True, rename="pascal"):
    networks: dict[str, _Attached] | None = None
    ports: dict[str, list[_Door] | None] | None = None


class _Config(Struct, frozen=True, rename="pascal"):
    labels: dict[str, str] | None = None
    stop_signal: int | str = 15  # a name from podman 5 on
    stop_timeout: int = STOP_S


class _Mounted(Struct, frozen=True, rename="pascal"):
    source: str = ""  # "" for a temporary file system


class Details(Struct, frozen=True, rename="pascal"):
    """Fields that only an inspection returns."""

    id: str
    name: str
    state: _State
    created: str = ""
    image_name: str = ""
    restart_count: int = 0
    network_settings: _Network = _Network()
    config: _Config = _Config()
    mounts: list[_Mounted] | None = None

    @property
    def process(self) -> Process | None:
        """Its first process, if it is alive."""
        return process.of_container(self.id, self.state.pid, _seconds(self.state.started_at))

    @property
    def addresses(self) -> list[str]:
        return [one.address for one in (self.network_settings.networks or {}).values() if one.address]


_rows = msgspec.json.Decoder(list[_Row])
_details = msgspec.json.Decoder(Details)


class _Life(Struct, frozen=True):
    """One run of a container: facts that were read once and cannot change."""

    pid: int
    started_s: int
    phase: str
    process: Process | None
    address: str
    restarts: int


class Listing:
    def __init__(self, libpod: Libpod) -> None:
        self._libpod = libpod
        self._kills = OomKills()
        self.ends = Ends(self._kills)
        self._lives: dict[str, _Life] = {}
        self._watch = PidWatch()
        self.exits: str | None = None  # the folder of exit codes, read from the first running supervisor

    async def containers(self) -> list[Container]:
        rows = await self._rows({"all": "true"})
        gate = asyncio.Semaphore(TOGETHER)
        await asyncio.gather(*(self._look_closer(row, gate) for row in rows if not self._is_known(row)))
        self._lives = {row.id: self._lives[row.id] for row in rows if row.id in self._lives}
        own = is_of_root(self._libpod.socket)
        return sorted((self._container(row, own) for row in rows), key=lambda one: one.name)

    async def users(self, path: str) -> list[str]:
        """Each container is inspected: the list does not say what they mount."""
        gate, found = asyncio.Semaphore(TOGETHER), list[str]()

        async def look(id: str) -> None:
            async with gate:
                details = await inspect(self._libpod, id)
            mounts = details.mounts if details is not None else None
            if details is not None and any(one.source and touches(path, one.source) for one in mounts or ()):
                found.append(details.name)

        await asyncio.gather(*(look(row.id) for row in await self._rows({"all": "true"})))
        return sorted(found)

    async def container(self, id: str) -> Container | None:
        """By id or name; the same as in `containers`, whose cost grows with their number."""
        details = await inspect(self._libpod, id)
        if details is None:
            self._lives.pop(id, None)
            return None
        row = _row(details)
        if not self._is_known(row):
            self._remember(row, details)
        return self._container(row, is_of_root(self._libpod.socket))

    async def _rows(self, params: dict[str, str]) -> list[_Row]:
        """Podman's list fails if a container is removed meanwhile: then it is requested again."""
        for _ in range(LIST_TRIES):
            try:
                return _rows.decode(await self._listed(params))
            except Refused as no:
                trouble = stumbled(no)
        raise trouble

    async def _listed(self, params: dict[str, str]) -> bytes:
        """A list may take long on a busy machine. A podman that hangs still accepts connections: one that does not
        answer the simplest question either is not waited for (T9)."""
        listing = asyncio.ensure_future(self._libpod.call("GET", "containers/json", params=params, timeout_s=LIST_S))
        try:
            if not (await asyncio.wait({listing}, timeout=SLOW_S))[0]:
                with suppress(Refused):  # an answer, too
                    await self._libpod.call("GET", "_ping", timeout_s=PING_S)
            return (await listing).body
        finally:
            listing.cancel()
            await asyncio.wait({listing})

    def any_gone(self) -> bool:
        """Whether a process that was alive before is gone; does not ask podman."""
        self._watch.follow([life.process for life in self._lives.values() if life.process is not None])
        return self._watch.any_gone()

    def close(self) -> None:
        self._watch.close()
        self._kills.close()

    def is_alive(self, container: Container) -> bool:
        life = self._lives.get(container.id)
        seen = life.process if life is not None and life.pid == container.pid else None
        return seen is not None and process.known(container.pid) == seen

    def _is_known(self, row: _Row) -> bool:
        if PHASE.get(row.state) == "created":
            return True
        life = self._lives.get(row.id)
        return life is not None and (life.pid, life.started_s, life.phase) == (row.pid, row.started_at, row.state)

    async def _look_closer(self, row: _Row, gate: asyncio.Semaphore) -> None:
        async with gate:
            details = await inspect(self._libpod, row.id)
        if details is not None:  # else removed meanwhile
            self._remember(row, details)

    def _remember(self, row: _Row, details: Details) -> None:
        self.exits = self.exits or exit_code.folder(details.state.conmon_pid)
        self._kills.follow(row.id, row.pid)
        self._lives[row.id] = _Life(
            row.pid, row.started_at, row.state, process.of_container(row.id, row.pid, row.started_at),
            next(iter(details.addresses), ""), details.restart_count,
        )  # fmt: skip

    def _container(self, row: _Row, own: bool) -> Container:
        """`own`: whether its own address can be reached."""
        life = self._lives.get(row.id)
        phase = PHASE.get(row.state, "other")
        lives = phase in ("running", "paused")
        alive = lives and life is not None and life.process is not None
        alive = alive and life is not None and process.known(row.pid) == life.process
        ports, found_dead = _published(row), lives and not alive
        if found_dead and life is not None and life.pid == row.pid:  # else this row is older than what is known
            self._lives[row.id] = replace(life, process=None)  # reported once; a reused pid is not this container
        end = self.ends.last(row.id)
        return Container(
            id=row.id,
            name=row.names[0] if row.names else row.id[:12],
            phase="exited" if found_dead else phase,
            running=alive,
            labels=row.labels or {},
            image=row.image,
            pid=row.pid if alive else 0,
            address=self._address(life, ports, own) if alive else "",
            ports=ports,
            created_s=_seconds(row.created),
            started_s=float(max(0, row.started_at)),
            ended_s=float(max(0, row.exited_at)) if phase == "exited" else 0.0,
            exit_code=UNKNOWN if found_dead else row.exit_code,
            restarts=life.restarts if life is not None else 0,
            last_exit=end.code if end is not None else row.exit_code if phase == "exited" else None,
            oom=end is not None and end.oom,
        )

    def _address(self, life: _Life | None, ports: tuple[Published, ...], own: bool) -> str:
        """Its own; a rootless container's address is unreachable from here, so for it the published address."""
        if life is not None and own:
            return life.address
        return next((port.address for port in ports), "")


def _row(details: Details) -> _Row:
    """An inspection as a row of the list."""
    state = details.state
    doors = (details.network_settings.ports or {}).items()
    ports = [
        _Port(int(inside.partition("/")[0]), int(door.host_port or 0), door.host_ip)
        for inside, outside in sorted(doors)
        for door in outside or ()
    ]
    started_at = int(_seconds(state.started_at))
    return _Row(
        details.id, [details.name], state.status, details.created, details.config.labels, details.image_name,
        state.pid, ports, started_at, state.exit_code, int(_seconds(state.finished_at)),
    )  # fmt: skip


def is_of_root(socket: str) -> bool:
    try:
        return os.stat(socket).st_uid == 0
    except OSError:
        return False


async def inspect(libpod: Libpod, id: str) -> Details | None:
    try:
        answer = await libpod.call("GET", f"containers/{id}/json", timeout_s=LIST_S)
    except Refused as no:
        if no.absent or no.cause == GONE:
            return None
        raise stumbled(no) from no
    return _details.decode(answer.body)


def _published(row: _Row) -> tuple[Published, ...]:
    return tuple(
        Published(port.container_port + step, port.host_ip or "127.0.0.1", port.host_port + step)
        for port in row.ports or ()
        for step in range(max(1, port.range))
        if port.host_port
    )


def _seconds(stamp: str) -> float:
    """Podman writes nanoseconds, which Python does not parse."""
    whole, _, rest = stamp.partition(".")
    zone = rest.lstrip("0123456789") if rest else ""
    fraction = float(f"0.{rest[: len(rest) - len(zone)] or 0}") if rest else 0.0
    try:
        return datetime.fromisoformat((whole + zone if rest else stamp).replace("Z", "+00:00")).timestamp() + fraction
    except ValueError:
        return 0.0
