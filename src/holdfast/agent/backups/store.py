"""The backups of services on a target: their objects and receipts by key."""

from collections.abc import Collection

from holdfast.errors import Corrupt, Failed
from holdfast.model import backup_key
from holdfast.model.backup import Receipt, VerifiedReceipt
from holdfast.model.backup_key import FLEET_DIGITS, BackupKey
from holdfast.ports.backup_target import BackupTarget, Prunable
from holdfast.trust import receipts

GENERATION_MAX = 1_000_000


class Store:
    """`target` holds the objects of all services; `fleet` is the whole fleet id."""

    def __init__(self, target: BackupTarget, fleet: str) -> None:
        self._target = target
        self._fleet = fleet

    def packs(self, service: str, generation: int, digests: Collection[str]) -> dict[str, str]:
        """digest → key"""
        above = self.above(service, generation)
        return {digest: f"{above}packs/{digest}" for digest in digests}

    async def alive(self, service: str, generation: int) -> list[str]:
        """The packs that the target has now: it may have lost any, and a sweep may have deleted what a cut run left."""
        found = await self._target.list(f"{self.above(service, generation)}packs/")
        return [backup_key.parse(one.key).digest for one in found]

    async def put_pack(self, service: str, generation: int, digest: str, content: bytes) -> None:
        await self._target.put(f"{self.above(service, generation)}packs/{digest}", content)

    async def put_key(self, service: str, generation: int, content: bytes) -> None:
        await self._target.put(backup_key.sealed(self._fleet, service, generation, "keys", content), content)

    async def put_manifest(self, service: str, generation: int, content: bytes) -> None:
        await self._target.put(backup_key.sealed(self._fleet, service, generation, "manifests", content), content)

    async def put_receipt(self, receipt: Receipt, content: bytes) -> None:
        await self._target.put(backup_key.receipt(self._fleet, receipt.service, receipt.sequence, content), content)

    # ---- reading

    async def receipts(self, service: str) -> list[BackupKey]:
        """Oldest first; what they say is not looked at."""
        found = await self._target.list(f"{self._fleet[:FLEET_DIGITS]}/{service}/receipts/")
        return sorted((backup_key.parse(one.key) for one in found), key=lambda key: key.sequence)

    async def newest_generation(self, service: str) -> int:
        """Of any node, as the target lists them; 0 without one. A number beyond all reason is not believed."""
        known = (key.generation for key in await self.objects(service))
        return max((number for number in known if 0 < number <= GENERATION_MAX), default=0)

    async def named(self, service: str, digest: str) -> VerifiedReceipt:
        """The backup that a signed order names by the digest of its receipt."""
        for key in await self.receipts(service):
            if key.digest == digest:
                content = await self.read(key.text)
                return receipts.named(content, digest, self._fleet, service)
        raise Failed(
            f"there is no backup {digest[:16]} of {service} where this node stores backups",
            remedy=f"holdfast backup list {service}",
            code="not_found",
        )

    async def key_names(self, service: str, generation: int) -> list[str]:
        """Of the sealed key, once for each time that it was addressed."""
        return [one.key for one in await self._target.list(self.above(service, generation) + "keys/")]

    async def manifest(self, receipt: Receipt) -> bytes:
        return await self.read(self.manifest_name(receipt))

    def manifest_name(self, receipt: Receipt) -> str:
        return f"{self.above(receipt.service, receipt.generation)}manifests/{receipt.manifest.digest}"

    async def pack(self, service: str, generation: int, digest: str) -> bytes:
        return await self.read(f"{self.above(service, generation)}packs/{digest}")

    async def read(self, key: str) -> bytes:
        content = await self._target.get(key)
        if content is None:
            raise Corrupt(
                f"a part of this backup is missing where it was stored: {key}",
                remedy="`holdfast backup list` shows other backups",
                code="object_missing",
            )
        backup_key.check_stored(backup_key.parse(key), content)
        return content

    # ---- pruning

    async def objects(self, service: str) -> list[BackupKey]:
        found = await self._target.list(f"{self._fleet[:FLEET_DIGITS]}/{service}/")
        return [backup_key.parse(one.key) for one in found]

    async def read_receipt(self, key: BackupKey) -> bytes:
        return await self.read(key.text)

    async def delete(self, proof: Prunable) -> None:
        await self._target.delete(proof.key, proof)

    def above(self, service: str, generation: int) -> str:
        return f"{self._fleet[:FLEET_DIGITS]}/{service}/g{generation}/"
