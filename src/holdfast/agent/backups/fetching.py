"""Fetch a stored backup and unpack it: its key is opened, every object and every file is checked."""

import os

from holdfast.agent.backups.generations import Generations
from holdfast.agent.backups.store import Store
from holdfast.errors import Corrupt, Failed, HoldfastError
from holdfast.model.archive import Purpose
from holdfast.model.backup import VerifiedReceipt
from holdfast.ports.archive import Archiver, Tell, Unpacked, UnpackJob
from holdfast.ports.sealing import CannotOpen


class Fetching:
    """`home` is the directory of the archiver."""

    def __init__(self, *, store: Store, archiver: Archiver, generations: Generations, home: str) -> None:
        self._store = store
        self._archiver = archiver
        self._generations = generations
        self._home = home

    async def named(self, service: str, digest: str) -> VerifiedReceipt:
        return await self._store.named(service, digest)

    async def unpack(
        self, found: VerifiedReceipt, sealed_key: str, top: str, tell: Tell, place: str = "restore"
    ) -> Unpacked:
        """`sealed_key`: an operator sealed it to this node; "": the target has one that this node can open.
        `place`: what it is for, which has its own directory at the archiver."""
        receipt = found.receipt
        job = UnpackJob(
            manifest=await self._store.manifest(receipt),
            digest=receipt.manifest.digest,
            identity=await self._identity(receipt.service, receipt.generation, sealed_key),
            purpose=Purpose(receipt.fleet, receipt.service, receipt.generation),
            home=os.path.join(self._home, receipt.service, place),
            top=top,
        )

        async def fetch(digest: str) -> bytes:
            return await self._store.pack(receipt.service, receipt.generation, digest)

        return await self._archiver.unpack(job, fetch, tell)

    async def _identity(self, service: str, generation: int, sealed_key: str) -> str:
        keys, trouble = [bytes.fromhex(sealed_key)] if sealed_key else [], None
        for name in [] if sealed_key else await self._store.key_names(service, generation):
            try:
                keys.append(await self._store.read(name))
            except HoldfastError as found:  # the same key, addressed at another time, may be whole
                trouble = found
        for sealed in reversed(keys):
            try:
                return self._generations.opened(sealed, service, generation).identity
            except (CannotOpen, Corrupt):
                continue
        if trouble is not None:
            raise trouble
        raise Failed(
            f"this node cannot open the backups of {service}, generation {generation}: their key is not for this node",
            remedy=f"an operator who can open them gives the key along: holdfast restore {service} --to NODE",
            code="cannot_open",
        )
