"""Several targets as one: objects are written to the primary one and to all others that answer, and read from the
fastest one that has them whole."""

import asyncio
from collections.abc import Collection, Sequence

from holdfast.agent.backups.targets.attached import Target, Targets
from holdfast.errors import Corrupt, HoldfastError
from holdfast.model import backup_key
from holdfast.ports.backup_target import Prunable, StoredObject, TargetState

OTHER_S = 30.0  # a copy that takes longer is made afterwards (copying.py): it delays no backup


class Spread:
    """For making backups. A receipt goes to the primary target only: the others get it with copying.py, when they have
    everything that it names."""

    def __init__(self, targets: Targets) -> None:
        self._targets = targets

    async def put(self, key: str, content: bytes) -> None:
        primary = self._targets.primary
        others = [one for one in self._targets.all if one is not primary and one.is_attached]
        if backup_key.parse(key).kind == "receipts":
            others = []
        copies = [asyncio.ensure_future(_copied(one, key, content)) for one in others]
        try:
            await primary.inner.put(key, content)
            await asyncio.gather(*copies)
        finally:
            for copy in copies:
                copy.cancel()

    async def get(self, key: str) -> bytes | None:
        return await self._targets.primary.inner.get(key)

    async def has(self, keys: Collection[str]) -> set[str]:
        return await self._targets.primary.inner.has(keys)

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        return await self._targets.primary.inner.list(prefix)

    async def delete(self, key: str, proof: Prunable) -> None:
        await self._targets.primary.inner.delete(key, proof)

    async def look(self) -> TargetState:
        return await self._targets.primary.inner.look()

    async def close(self) -> None:
        await self._targets.close()


async def _copied(one: Target, key: str, content: bytes) -> None:
    try:
        async with asyncio.timeout(OTHER_S):
            await one.inner.put(key, content)
    except TimeoutError:
        one.saw(TargetState("missing", f"it did not take an object within {OTHER_S:.0f} s"))  # until the next look
    except HoldfastError as trouble:
        one.saw(TargetState("missing", trouble.message))


class Nearest(Spread):
    """For reading: each object from the fastest target that has it whole. What is gone or damaged at one of them is
    read from the next."""

    async def get(self, key: str) -> bytes | None:
        trouble: HoldfastError | None = None
        for one in self._targets.nearest():
            try:
                content = await one.inner.get(key)
                if content is not None:
                    backup_key.check_content(backup_key.parse(key), content)
                    return content
            except HoldfastError as found:
                trouble = trouble if isinstance(trouble, Corrupt) else found
        if trouble is not None:
            raise trouble
        return None

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        """What any of them has; an error only if none answers."""
        found: dict[str, StoredObject] = {}
        answered, trouble = 0, None
        for one in self._targets.nearest():
            if answered and not one.is_readable:
                continue
            try:
                found |= {stored.key: stored for stored in await one.inner.list(prefix)}
                answered += 1
            except HoldfastError as raised:
                trouble = trouble or raised
        if trouble is not None and not answered:
            raise trouble
        return [found[key] for key in sorted(found)]
