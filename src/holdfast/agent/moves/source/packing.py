"""One pass of a move: the data of the service as it is now, as sealed objects on the passage."""

import os
from collections.abc import Callable
from datetime import UTC, datetime

from holdfast.agent.lane_turn import in_lane
from holdfast.agent.lanes import Lanes
from holdfast.agent.moves.books import Books, SealedKey
from holdfast.agent.moves.declared import Moving, known_peer
from holdfast.agent.moves.passage import Passage
from holdfast.model import archive_key
from holdfast.model.archive import Header, PartBytes, Purpose
from holdfast.model.archive_key import ArchiveKey
from holdfast.ports.archive import Archiver, Packed, PackJob, Progress
from holdfast.ports.archive_keys import ArchiveKeys
from holdfast.ports.identity_key import IdentityKey
from holdfast.ports.sealing import Sealer

PART_BYTES: PartBytes = 65536  # a database changes in small places


class MovePacking:
    """`home` is the directory of the archiver, `data_dir` has the data of each service."""

    def __init__(
        self,
        *,
        archiver: Archiver,
        passage: Passage,
        books: Books,
        sealer: Sealer,
        keys: ArchiveKeys,
        key: IdentityKey,
        lanes: Lanes,
        home: str,
        data_dir: str,
        fleet: str,
    ) -> None:
        self._archiver = archiver
        self._passage = passage
        self._books = books
        self._sealer = sealer
        self._keys = keys
        self._key = key
        self._lanes = lanes
        self._home = home
        self._data_dir = data_dir
        self._fleet = fleet

    async def pack(
        self, moving: Moving, number: int, now_s: float, tell: Callable[[Progress], None], urgent: bool = False
    ) -> Packed:
        """All of it, also volumes that no backup holds; files are copied as they are: the last pass finds them at
        rest. Packs that the passage lost are made again. `urgent`: the service stands still meanwhile."""
        service, epoch = moving.service, moving.epoch
        sealed = await self._sealed(moving)
        objects = self._passage.objects
        await objects.put_key(service, epoch, sealed.key)
        shipped = [
            key.digest for key in await objects.objects(service) if (key.generation, key.kind) == (epoch, "packs")
        ]
        job = PackJob(
            top=os.path.join(self._data_dir, service),
            home=self._place(service),
            recipient=sealed.recipient,
            header=Header(
                purpose=Purpose(self._fleet, service, epoch),
                node=moving.source,
                sequence=number,
                epoch=epoch,
                made=datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                method="move",
            ),
            vacuum=False,
            alive=tuple(shipped),
            part_bytes=PART_BYTES,
            tidy=False,
            urgent=urgent,
        )

        async def ship(digest: str, content: bytes) -> None:
            await objects.put_pack(service, epoch, digest, content)

        packed = await self._archiver.pack(job, ship, tell)
        await objects.put_manifest(service, epoch, packed.manifest)
        return packed

    async def is_stored(self, moving: Moving, digest: str) -> bool:
        """Whether the passage still has the manifest of this pass."""
        keys = await self._passage.objects.objects(moving.service)
        return any((key.kind, key.digest) == ("manifests", digest) for key in keys)

    async def forget(self, service: str) -> None:
        """What is kept here for the next pass; after a last pass that was begun."""

        async def forgotten() -> None:
            await self._archiver.forget(self._place(service))
            self._books.drop_key(service)

        await in_lane(self._lanes, service, forgotten)

    def _place(self, service: str) -> str:
        return os.path.join(self._home, service, "move-out")

    async def _sealed(self, moving: Moving) -> SealedKey:
        """Noted before anything is sealed to it. What an earlier move left was sealed to another one."""
        known = self._books.key(moving.service, moving.epoch)
        if known is not None:
            return known
        peer = known_peer(moving, moving.target)
        await self._archiver.forget(self._place(moving.service))
        pair = self._keys.fresh()
        plain = archive_key.written(ArchiveKey(Purpose(self._fleet, moving.service, moving.epoch), pair.identity))
        sealed = self._sealer.seal(plain, sorted((peer.key, self._key.line)))
        made = SealedKey(moving.epoch, pair.recipient, sealed)
        self._books.keep_key(moving.service, made)
        return made
