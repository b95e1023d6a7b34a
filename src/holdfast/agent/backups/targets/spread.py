"""Several targets as one: objects are written to the primary one and to all others that answer, and read from the
fastest one that has them whole."""

import asyncio
from collections.abc import Collection, Sequence

from holdfast.agent.backups.targets.attached import Target, Targets
from holdfast.errors import Corrupt, HoldfastError, TryLater
from holdfast.model import backup_key
from holdfast.ports.backup_target import Prunable, StoredObject, TargetState

AVOIDED_S = 600.0
OTHER_S = 30.0  # a copy that takes longer is made afterwards (copying.py): it delays no backup


class Spread:
    """For making backups. A receipt goes to the primary target only: the others get it with copying.py, when they have
    everything that it names. One that did not take an object is left out until the next backup, which begins with its
    key."""

    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self._late = set[Target]()

    async def put(self, key: str, content: bytes) -> None:
        parsed = backup_key.parse(key)
        primary, kind = self._targets.primary_of(parsed.service), parsed.kind
        if kind == "keys":
            self._late.clear()
        left_out = {primary, *self._late}
        others = [one for one in self._targets.of(parsed.service) if one not in left_out and one.is_attached]
        copies = [asyncio.ensure_future(self._copied(one, key, content)) for one in others if kind != "receipts"]
        try:
            await primary.inner.put(key, content)
            await asyncio.gather(*copies)
        finally:
            for copy in copies:
                copy.cancel()

    async def _copied(self, one: Target, key: str, content: bytes) -> None:
        try:
            async with asyncio.timeout(OTHER_S):
                await one.inner.put(key, content)
        except TimeoutError:
            self._late.add(one)
        except HoldfastError as trouble:
            self._late.add(one)
            one.saw(TargetState("missing", trouble.message))  # until the next look

    async def get(self, key: str) -> bytes | None:
        return await self._primary(key).inner.get(key)

    async def has(self, keys: Collection[str]) -> set[str]:
        return await self._targets.primary.inner.has(keys)

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        return await self._primary(prefix).inner.list(prefix)

    async def delete(self, key: str, proof: Prunable) -> None:
        await self._primary(key).inner.delete(key, proof)

    async def look(self) -> TargetState:
        return await self._targets.primary.inner.look()

    async def close(self) -> None:
        await self._targets.close()

    def _primary(self, key: str) -> Target:
        return self._targets.primary_of(backup_key.service_of(key))


class Nearest(Spread):
    """For reading: each object from the fastest target that has it whole. What is gone or damaged at one of them is
    read from the next. One that failed is asked last for a while: it may take minutes to do so. As long as one of them
    does not answer, no object is said to be damaged or absent: that one may have it whole."""

    def __init__(self, targets: Targets) -> None:
        super().__init__(targets)
        self._failed_s: dict[Target, float] = {}  # until when it is asked last, by the clock of the event loop

    async def get(self, key: str) -> bytes | None:
        answered, damage, silent = 0, None, next(iter(self._targets.troubles.items()), None)
        now_s = asyncio.get_running_loop().time()
        for one in sorted(
            self._asked(backup_key.service_of(key)), key=lambda one: self._failed_s.get(one, 0.0) > now_s
        ):
            try:
                content = await one.inner.get(key)
                answered += 1
                if content is not None:
                    backup_key.check_stored(backup_key.parse(key), content)
                    return content
            except Corrupt as found:
                damage = found
            except HoldfastError as found:
                self._failed_s[one] = asyncio.get_running_loop().time() + AVOIDED_S
                silent = silent or (one.name, found)
        if silent is not None:
            words = damage.message if damage is not None else f"{key} was not found" if answered else ""
            raise _not_all_asked(words, *silent)
        if damage is not None:
            raise damage
        return None

    def _asked(self, service: str) -> Sequence[Target]:
        return self._targets.nearest(service)

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        """What any of them has. That there is nothing is said only if all of them answer."""
        found: dict[str, StoredObject] = {}
        answered, silent = 0, next(iter(self._targets.troubles.items()), None)
        for one in self._asked(backup_key.service_of(prefix)):
            if found and not one.is_readable:
                continue
            try:
                found |= {stored.key: stored for stored in await one.inner.list(prefix)}
                answered += 1
            except HoldfastError as raised:
                silent = silent or (one.name, raised)
        if silent is not None and not found:
            raise _not_all_asked(f"nothing was found below {prefix}" if answered else "", *silent)
        return [found[key] for key in sorted(found)]


class Proving(Nearest):
    """For drills: a copy on the machine of the data is lost with it, so that it proves nothing. Where there is no other
    target, it is what there is."""

    def _asked(self, service: str) -> Sequence[Target]:
        found = self._targets.nearest(service)
        return [one for one in found if not self._targets.is_same_machine(one)] or found


def _not_all_asked(words: str, target: str, trouble: HoldfastError) -> HoldfastError:
    """`words`: what those that answered have; "": none answered."""
    if not words:
        return trouble
    return TryLater(
        f"{words}; the target {target} may have it, and cannot be asked: {trouble.message}",
        remedy=trouble.remedy,
        code="not_all_asked",
    )
