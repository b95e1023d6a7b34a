"""Backups of agents in one process: an archiver of a storage in memory, and what it stores on a target in memory."""

import asyncio
from collections.abc import Callable, Sequence
from hashlib import sha256

import msgspec

from holdfast.adapters.backup_target.memory import MemoryTarget
from holdfast.adapters.hub_copy.memory import MemoryHubCopy
from holdfast.adapters.move_lines.memory import MemoryLines, MemoryNet
from holdfast.adapters.own_files.memory import MemoryOwnFiles
from holdfast.adapters.prober.memory import MemoryProber
from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.adapters.sealing.identities import MemoryIdentities
from holdfast.adapters.sealing.memory import MemoryOpener, MemorySealer
from holdfast.adapters.storage.memory import MemoryStorage
from holdfast.adapters.storage.memory_scratch import PLACE, MemoryScratch
from holdfast.errors import Corrupt
from holdfast.model.archive import Header
from holdfast.model.fleet import Storage
from holdfast.ports.archive import (
    Fetch,
    Flaw,
    Packed,
    PackJob,
    Progress,
    Ship,
    Stored,
    Tell,
    Unpacked,
    UnpackJob,
    UpdateJob,
)
from holdfast.ports.backup_target import Mountable
from holdfast.wiring.agent_parts import BackupPorts, DrillPorts

Files = dict[str, bytes]


class StorageArchiver:
    """One pack for each file, which is not sealed. `trouble` is raised by the next pack, once; `gate` is waited for
    before a file is shipped."""

    def __init__(self, storage: MemoryStorage) -> None:
        self._storage = storage
        self.jobs: list[PackJob] = []
        self.homes: set[str] = set()  # that were used and not forgotten
        self.dumps: Files = {}  # by path, as the runtime writes and reads them
        self.trouble: Exception | None = None
        self.gate: Callable[[], asyncio.Future[None]] | None = None
        self.scratch: MemoryScratch | None = None  # of drills

    async def pack(self, job: PackJob, ship: Ship, tell: Tell) -> Packed:
        self.jobs.append(job)
        self.homes.add(job.home)
        if self.trouble is not None:
            trouble, self.trouble = self.trouble, None
            raise trouble
        files = dict(self._storage.contents.get(job.top.rpartition("/")[2], {}))
        files |= {job.header.dump: self.dumps.pop(job.dump)} if job.dump else {}
        kept = {name: text for name, text in files.items() if name.partition("/")[0] not in job.rules.exclude}
        packs, done = [], 0
        for name, text in sorted(kept.items()):
            if self.gate is not None:
                await self.gate()
            content = msgspec.json.encode((name, text))
            digest = sha256(content).hexdigest()
            await ship(digest, content)
            packs.append(Stored(digest, len(content)))
            done += len(text)
            tell(Progress(len(packs), done, sum(map(len, kept.values()))))
        manifest = msgspec.json.encode((msgspec.to_builtins(job.header), [pack.digest for pack in packs]))
        return Packed(
            manifest=manifest,
            digest=sha256(manifest).hexdigest(),
            packs=tuple(packs),
            files=len(packs),
            size_bytes=done,
            new_packs=len(packs),
            new_bytes=done,
        )

    async def recall(self, job: UnpackJob, fetch: Fetch) -> None: ...

    async def unpack(self, job: UnpackJob, fetch: Fetch, tell: Tell) -> Unpacked:
        if sha256(job.manifest).hexdigest() != job.digest:
            raise Corrupt("another manifest", remedy="", code="archive_damaged")
        self.homes.add(job.home)
        header, digests = msgspec.json.decode(job.manifest)
        service, _, name = job.top.rpartition("/")
        if service == PLACE:
            assert self.scratch is not None
            incoming = self.scratch.contents[name]
        else:
            incoming = self._storage.incoming[service.rpartition("/")[2], name.removeprefix(".incoming-")]
        for digest in digests:
            content = await fetch(digest)
            if sha256(content).hexdigest() != digest:
                raise Corrupt("another pack", remedy="", code="archive_damaged")
            path, text = msgspec.json.decode(content, type=tuple[str, bytes])
            incoming[path] = text
            self.dumps |= {f"{job.top}/{path}": text} if path == header.get("dump") else {}
        return Unpacked(msgspec.convert(header, type=Header), len(digests), 0)

    async def update(self, job: UpdateJob, fetch: Fetch, tell: Tell) -> Unpacked:
        service, _, name = job.top.rpartition("/")
        self._storage.incoming[service.rpartition("/")[2], name.removeprefix(".incoming-")].clear()
        return await self.unpack(job, fetch, tell)

    async def forget(self, home: str) -> None:
        self.homes.discard(home)

    async def verify(self, job: UnpackJob, fetch: Fetch, tell: Tell) -> Sequence[Flaw]:
        raise NotImplementedError

    async def compare(self, stored: Sequence[Stored], fetch: Fetch, tell: Tell) -> Sequence[Flaw]:
        raise NotImplementedError

    async def export(self, job: UnpackJob, fetch: Fetch, path: str, tell: Tell) -> Unpacked:
        raise NotImplementedError


class MemoryTargets:
    """Every declared target in memory, by name: what a node opens again is the same one."""

    def __init__(self) -> None:
        self.made: dict[str, MemoryTarget] = {}
        self.secrets: dict[str, bytes] = {}

    def open(self, storage: Storage, secret: bytes, proof: Mountable | None) -> MemoryTarget:
        assert (proof is not None) == (storage.type == "usb")
        self.secrets[storage.name] = secret
        return self.made.setdefault(storage.name, MemoryTarget(storage.durable_id))


def ports_of(
    storage: MemoryStorage, line: str, target: MemoryTarget | None = None, others: MemoryTargets | None = None
) -> BackupPorts:
    """`line` is the node's own key."""
    random = SeededRandom(f"backups of {line}")
    return BackupPorts(
        archiver=StorageArchiver(storage),
        target=target or MemoryTarget(),
        passage=MemoryTarget(),
        lines=MemoryLines(line, MemoryNet()),
        open=(others or MemoryTargets()).open,
        sealer=MemorySealer(random),
        opener=MemoryOpener(line),
        keys=MemoryIdentities(random),
        own=MemoryOwnFiles(),
        hub=MemoryHubCopy(),
        home="/nowhere",
    )


def drills_of(backups: BackupPorts | None = None) -> DrillPorts:
    """Backups are unpacked into its scratch."""
    scratch = MemoryScratch()
    if backups is not None:
        assert isinstance(backups.archiver, StorageArchiver)
        backups.archiver.scratch = scratch
    return DrillPorts(scratch, MemoryProber())
