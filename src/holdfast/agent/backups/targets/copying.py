"""Bring every target to the backups that it is to have: what one lacks is copied from the others. Deletes nothing.

A receipt is stored last, when the target has every object that it names.
"""

from collections.abc import Mapping
from contextlib import suppress

from holdfast.agent.backups.store import Store
from holdfast.agent.backups.targets.attached import Holdings, Target, Targets
from holdfast.errors import Corrupt, HoldfastError
from holdfast.model.backup import Receipt, VerifiedReceipt
from holdfast.model.backup_key import BackupKey
from holdfast.ports.identity_key import IdentityKey
from holdfast.reconcile import retention
from holdfast.reconcile.retention import Held, Policy
from holdfast.trust import receipts

KNOWN_MAX = 2_000  # backups whose receipt is not read again


class Copying:
    def __init__(self, *, targets: Targets, source: Store, key: IdentityKey, fleet: str, node: str) -> None:
        self._targets = targets
        self._source = source
        self._key = key
        self._fleet = fleet
        self._node = node
        self._known: dict[str, Held] = {}  # digest of a receipt that this node signed → what retention asks

    async def level(self, service: str, of_fleet: Policy) -> int:
        """The newest first. Targets that do not answer are left for the next time. Answers how many
        copies were made; raises what kept one from being made."""
        listed = await self._listed(service)
        union = {key.digest: key for keys in listed.values() for key in keys.values()}
        mine = {digest: held for digest, key in union.items() if (held := await self._held(key)) is not None}
        trouble, copied = None, 0
        for one, keys in listed.items():
            stays = retention.kept(mine.values(), one.policy(of_fleet))
            lacking = sorted((held.sequence, digest) for digest, held in mine.items() if held.id in stays)
            lacking = [(sequence, digest) for sequence, digest in lacking if digest not in keys]
            own = {digest: key for digest, key in keys.items() if digest in mine}  # another node has the same numbers
            self._note(one, service, own, len(lacking))
            for left, (_, digest) in zip(range(len(lacking) - 1, -1, -1), reversed(lacking), strict=True):
                if not one.is_attached:
                    break
                try:
                    await self._copy(union[digest], one)
                except HoldfastError as raised:
                    trouble = trouble or raised
                    continue
                copied += 1
                own[digest] = union[digest]
                self._note(one, service, own, left)
        if trouble is not None:
            raise trouble
        return copied

    async def _listed(self, service: str) -> dict[Target, dict[str, BackupKey]]:
        """Target → digest → key of each receipt."""
        found = {}
        for one in self._targets.of(service):
            if one.is_readable:
                with suppress(HoldfastError):
                    found[one] = {key.digest: key for key in await one.store.receipts(service)}
        return found

    async def _held(self, key: BackupKey) -> Held | None:
        """None: this node did not sign it, or no target has it whole."""
        if key.digest not in self._known:
            try:
                one = await self._receipt(key)
            except HoldfastError:
                return None
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            receipt = one.receipt
            self._known[key.digest] = Held(
                one.digest, receipt.sequence, receipt.made_s, receipt.cause, epoch=receipt.epoch
            )
        return self._known[key.digest]

    async def _receipt(self, key: BackupKey) -> VerifiedReceipt:
        content = await self._source.read_receipt(key)
        return receipts.verify(content, self._fleet, key.service, {self._node: self._key.line})

    async def _copy(self, key: BackupKey, one: Target) -> None:
        receipt = (await self._receipt(key)).receipt
        async with one.changing:
            wanted = await self._objects(receipt)
            present = await one.inner.has(wanted)
            for text in wanted:
                if text not in present:
                    await one.inner.put(text, await self._source.read(text))
            await one.inner.put(key.text, await self._source.read_receipt(key))

    async def _objects(self, receipt: Receipt) -> list[str]:
        service, generation = receipt.service, receipt.generation
        packs = self._source.packs(service, generation, [pack.digest for pack in receipt.packs])
        keys = await self._source.key_names(service, generation)
        if not keys:
            raise Corrupt(
                f"the key of backups of {service}, generation {generation}, is on no target",
                remedy=f"holdfast backup {service} --wait",
                code="object_missing",
            )
        return [*keys, *packs.values(), self._source.manifest_name(receipt)]

    def _note(self, one: Target, service: str, keys: Mapping[str, BackupKey], lacks: int) -> None:
        held = {key.sequence: key.digest for key in keys.values()}
        one.holds(service, Holdings(held, lacks))
