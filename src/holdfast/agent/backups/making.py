"""Make one backup of a service: pack its data, store every object, sign for it."""

import os
from collections.abc import Callable
from datetime import UTC, datetime

from msgspec import Struct

from holdfast.agent.backups.declared import Wanted
from holdfast.agent.backups.dumps.methods import Methods, Taken
from holdfast.agent.backups.generations import Generations
from holdfast.agent.backups.own_receipts import OwnReceipts
from holdfast.agent.backups.store import Store
from holdfast.errors import Conflict
from holdfast.model.archive import Header, Purpose
from holdfast.model.backup import FORMAT, Cause, Receipt, Stored, VerifiedReceipt
from holdfast.ports.archive import Archiver, Packed, PackJob, Progress
from holdfast.ports.identity_key import IdentityKey
from holdfast.reconcile.backup_due import Book
from holdfast.reconcile.generations import Generation
from holdfast.trust import receipts


class Request(Struct, frozen=True):
    """`wrote` answers the deployment and the revision that write the data, once no change of the service is under
    way."""

    wanted: Wanted
    operators: frozenset[str]
    cause: Cause
    begun_s: float
    wrote: Callable[[], tuple[str, int]]


class Made(Struct, frozen=True):
    """A complete backup: what was signed, and what was stored for it."""

    receipt: VerifiedReceipt
    new_bytes: int
    left_out: tuple[str, ...]
    unsettled: tuple[str, ...]


class Making:
    """`damaged` answers packs of a service that a target has damaged; `home` is the directory of the archiver,
    `data_dir` has the data of each service."""

    def __init__(
        self,
        *,
        archiver: Archiver,
        store: Store,
        generations: Generations,
        damaged: Callable[[str], frozenset[str]],
        methods: Methods,
        key: IdentityKey,
        home: str,
        data_dir: str,
        node: tuple[str, str],
    ) -> None:
        self._archiver = archiver
        self._store = store
        self._generations = generations
        self._damaged = damaged
        self._methods = methods
        self._key = key
        self._home = home
        self._data_dir = data_dir
        self._fleet, self._node = node
        self._own = OwnReceipts(key, node)

    async def make(self, request: Request, book: Book, tell: Callable[[Progress], None]) -> Made:
        """Nothing is signed for before every object is stored."""
        service = request.wanted.service
        last_digest = book.last.digest if book.last is not None else ""
        previous = await self._own.newest(self._store, await self._store.receipts(service), last_digest)
        last = previous.receipt if previous is not None else None
        least = last.generation if last is not None else await self._store.newest_generation(service)
        generation = await self._generation(request, least)
        sequence = max(book.sequence, last.sequence if last is not None else 0) + 1
        try:
            await self._store.put_key(service, generation.number, generation.key)
        except Conflict as trouble:
            if trouble.code != "object_damaged":
                raise
            # The stored key is damaged and cannot be replaced: what is sealed from now on has another one.
            generation = await self._generation(request, generation.number + 1)
            await self._store.put_key(service, generation.number, generation.key)
        async with self._methods.taken(request.wanted) as taken:
            packed = await self._pack(request, taken, generation, sequence, last, tell)
        await self._store.put_manifest(service, generation.number, packed.manifest)
        before = previous.digest if previous is not None else ""
        receipt = self._receipt(request, taken, generation, sequence, packed, before)
        content = receipts.sign(self._key, receipt)
        await self._store.put_receipt(receipt, content)
        signed = receipts.verify(content, self._fleet, service, {self._node: self._key.line})
        return Made(signed, packed.new_bytes, packed.left_out, packed.unsettled)

    async def _generation(self, request: Request, least: int) -> Generation:
        """A new one has a number that no node has used: two keys of one generation could not be told apart, and other
        nodes have had this service."""
        service, operators = request.wanted.service, request.operators
        if self._generations.begins(service, operators, least):
            least = max(least, await self._store.newest_generation(service))
        return self._generations.current(service, operators, least)

    async def _pack(
        self,
        request: Request,
        taken: Taken,
        generation: Generation,
        sequence: int,
        previous: Receipt | None,
        tell: Callable[[Progress], None],
    ) -> Packed:
        wanted, number = request.wanted, generation.number
        is_next = previous is not None and previous.generation == number
        damaged = self._damaged(wanted.service)
        alive = [one for one in await self._store.alive(wanted.service, number) if one not in damaged]
        job = PackJob(
            top=taken.top or os.path.join(self._data_dir, wanted.service),
            home=os.path.join(self._home, wanted.service, f"g{number}"),
            recipient=generation.recipient,
            header=Header(
                purpose=Purpose(self._fleet, wanted.service, number),
                node=self._node,
                sequence=sequence,
                epoch=wanted.epoch,
                made=datetime.fromtimestamp(request.begun_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                previous=previous.manifest.digest if previous is not None and is_next else "",
                method=taken.method,
                dump=taken.dump,
                volumes=taken.volumes,
                covers="partial" if wanted.partial else "whole",
            ),
            rules=taken.rules,
            vacuum=taken.vacuum,
            dump=taken.spool,
            alive=tuple(alive),
        )

        async def ship(digest: str, content: bytes) -> None:
            await self._store.put_pack(wanted.service, number, digest, content)

        return await self._archiver.pack(job, ship, tell)

    def _receipt(
        self, request: Request, taken: Taken, generation: Generation, sequence: int, packed: Packed, previous: str
    ) -> Receipt:
        wanted, (deployment, revision) = request.wanted, request.wrote()
        return Receipt(
            format=FORMAT,
            fleet=self._fleet,
            service=wanted.service,
            node=self._node,
            sequence=sequence,
            epoch=wanted.epoch,
            generation=generation.number,
            made_s=int(request.begun_s),
            cause=request.cause,
            manifest=Stored(packed.digest, len(packed.manifest)),
            packs=tuple(Stored(pack.digest, pack.size_bytes) for pack in packed.packs),
            files=packed.files,
            size_bytes=packed.size_bytes,
            deployment=deployment,
            revision=revision,
            method=taken.method,
            volumes=taken.volumes,
            partial=bool(wanted.partial),
            left_out=len(packed.left_out),
            previous=previous,
        )
