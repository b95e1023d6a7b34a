"""The method of a backup, carried out: what is archived, and the dump that a command of the service writes (M-91)."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from msgspec import Struct

from holdfast.agent.backups.declared import Wanted
from holdfast.agent.backups.loading import last_lines
from holdfast.agent.completing import completed
from holdfast.agent.services.door import Door
from holdfast.agent.services.rollout.containers import Containers
from holdfast.errors import Failed, TryLater
from holdfast.model import backup_key, dump
from holdfast.model.container import Container
from holdfast.ports.archive import Rules
from holdfast.ports.hub_copy import HubCopy
from holdfast.ports.own_files import OwnFiles
from holdfast.ports.prober import Prober
from holdfast.ports.runtime import Pipe, Piped
from holdfast.ports.storage import Storage

OWN, HUB = "node", "hub"  # the methods of the backups of a node itself, and of the hub


class Taken(Struct, frozen=True):
    """What one backup archives. `method`: that was carried out. `dump`: where the archive has what the service made for
    it; "" if it made nothing. `spool`: the file with it, if it is no file of a volume."""

    method: str
    volumes: tuple[str, ...]  # that it holds whole
    rules: Rules
    dump: str = ""
    spool: str = ""
    vacuum: bool = True
    top: str = ""  # the directory that is archived, if it is not that of the service


class Methods:
    """`home` is the directory of the archiver; `timeout_s` answers how long a command may take."""

    def __init__(
        self,
        *,
        door: Door,
        containers: Containers,
        prober: Prober,
        storage: Storage,
        home: str,
        own: OwnFiles,
        hub: HubCopy,
        timeout_s: Callable[[], float],
    ) -> None:
        self._door = door
        self._own = own
        self._hub = hub
        self._containers = containers
        self._prober = prober
        self._storage = storage
        self._home = home
        self._timeout_s = timeout_s

    @asynccontextmanager
    async def taken(self, wanted: Wanted) -> AsyncIterator[Taken]:
        """For as long as it is archived. Raises Failed if there is no whole dump: then there is no backup."""
        if not backup_key.is_of_service(wanted.service):
            async with self._copied() if backup_key.hub_of(wanted.service) else self._gathered() as taken:
                yield taken
            return
        method, made = wanted.snapshot.method, dump.of(wanted.snapshot)
        if made is None and method not in dump.PREPARED:
            yield Taken(method, wanted.whole, rules_of(wanted, wanted.whole))
            return
        container = await self._running(wanted)
        if container is None:
            async with self._stopped(wanted) as taken:
                yield taken
            return
        if made is not None:
            yield await self._dumped(wanted, made, container)
            return
        prepared = await (self._asked if method == "grpc" else self._called)(wanted, container)
        yield Taken(method, wanted.whole, rules_of(wanted, wanted.whole), prepared, vacuum=False)

    @asynccontextmanager
    async def _gathered(self) -> AsyncIterator[Taken]:
        """The files of the node itself: those that are copied are archived, and nothing beside them."""
        try:
            yield Taken(OWN, (), Rules(), vacuum=False, top=await completed(asyncio.to_thread(self._own.gather)))
        finally:
            await asyncio.to_thread(self._own.clear)

    @asynccontextmanager
    async def _copied(self) -> AsyncIterator[Taken]:
        """The sealed file of the hub, which this node cannot open."""
        try:
            yield Taken(HUB, (), Rules(), vacuum=False, top=await self._hub.fetch())
        finally:
            await asyncio.to_thread(self._hub.clear)

    async def _called(self, wanted: Wanted, container: Container) -> str:
        """`SERVICE snapshot` in its container makes its files ready (M-91)."""
        done = await self._door.pipe(container, (wanted.service, "snapshot"), Pipe(), self._timeout_s())
        if done.code != 0:
            raise _failed(wanted, f"`{wanted.service} snapshot` ended with {done.code}{last_lines(done)}")
        return ""

    async def _asked(self, wanted: Wanted, container: Container) -> str:
        """A call makes its files ready (M-50). Answers the place of the file that the service names."""
        answer = await self._prober.snapshot(container, wanted.port, self._timeout_s(), self._door.probes(container))
        if not answer.ok:
            raise _failed(wanted, f"the service made no snapshot: {answer.why}")
        if not answer.path:
            return ""
        place = place_of(wanted, answer.path)
        if place is None or self._storage.content(f"{wanted.service}/{place}") is None:
            why = f"the service says that its snapshot is {answer.path[:200]!r}, which is no file of a volume that is"
            raise _failed(wanted, f"{why} backed up")
        return place

    @asynccontextmanager
    async def _stopped(self, wanted: Wanted) -> AsyncIterator[Taken]:
        """M-98: its files are copied as they are; no program writes into them."""
        volumes = (*wanted.whole, *wanted.dumped)
        yield Taken(dump.COPY, tuple(sorted(volumes)), rules_of(wanted, volumes))
        if await self._running(wanted) is not None:
            raise TryLater(
                f"{wanted.service} did not run when its files were to be copied, and was started meanwhile",
                remedy=f"holdfast backup {wanted.service}",
                code="started_meanwhile",
            )

    async def _running(self, wanted: Wanted) -> Container | None:
        await self._containers.look()
        found = [one for one in self._containers.of(wanted.service) if one.component == wanted.component]
        return next((one for one in sorted(found, key=lambda one: one.replica) if one.running), None)

    async def _dumped(self, wanted: Wanted, made: dump.Dump, container: Container) -> Taken:
        spool = os.path.join(self._home, wanted.service, "dump")
        done = await self._door.pipe(container, made.command, Pipe(sink=spool), self._timeout_s())
        if why := _flaw(done, made):
            raise _failed(wanted, why)
        return Taken(wanted.snapshot.method, wanted.whole, rules_of(wanted, wanted.whole), dump.NAME, spool)


def _failed(wanted: Wanted, why: str) -> Failed:
    return Failed(
        f"{wanted.snapshot.method.partition(':')[0]} of {wanted.service}: {why}",
        remedy=f"look at [snapshot] method of {wanted.service} and at `holdfast logs {wanted.service}`",
        code="dump_failed",
    )


def place_of(wanted: Wanted, path: str) -> str | None:
    """A path in the container, relative to the service's directory; None: it is in no volume that is held whole."""
    parts = path.split("/")
    if not path.startswith("/") or not {"", ".", ".."}.isdisjoint(parts[1:]):
        return None
    for target, place in wanted.mounted:
        if path.startswith(target.rstrip("/") + "/"):
            inside = path[len(target.rstrip("/")) + 1 :]
            return f"{place}/{inside}" if place else inside
    return None


def _flaw(done: Piped, made: dump.Dump) -> str:
    if done.code != 0:
        return f"the command that makes the dump ended with {done.code}{last_lines(done)}"
    if not done.size_bytes:
        return f"the command that makes the dump wrote nothing to its standard output{last_lines(done)}"
    if made.end.encode() not in done.tail:
        return f"the dump is not whole: {made.end!r} is not at its end{last_lines(done)}"
    return ""


def rules_of(wanted: Wanted, volumes: tuple[str, ...]) -> Rules:
    """Volumes that are held whole, and of paths of the host the default set (M-91), unless a method says otherwise."""
    dumped = tuple(place for place in wanted.dumped if place not in volumes)
    return Rules(
        whole="" in volumes,
        volumes=tuple(place for place in volumes if place),
        include=wanted.snapshot.include,
        exclude=(*wanted.snapshot.exclude, *wanted.left, *dumped),
    )
