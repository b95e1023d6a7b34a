"""Read stored backups back: every byte of their objects, compared with what the node signed for (H-61)."""

import msgspec

from holdfast.agent.backups.store import Store
from holdfast.errors import Corrupt, Failed
from holdfast.ports.journal import Facts

PREFIX = "backups/verified/"
DAMAGED = "backups/damaged/"  # digests of packs of the last backup that was read
KEPT = 50  # backups of one service
DAY_S = 24 * 3600.0

_decode = msgspec.json.Decoder(dict[str, float]).decode
_digests = msgspec.json.Decoder(frozenset[str]).decode


class Verified:
    """`target` is a part of the names of facts; "" for the hub."""

    def __init__(self, store: Store, facts: Facts, target: str = "") -> None:
        self._store = store
        self._facts = facts
        self._at = f"@{target}" if target else ""
        self._right: dict[str, dict[str, float]] = {}  # service → packs that were right in a pass that did not end

    def of(self, service: str) -> dict[str, float]:
        """Digest of the receipt → when every object of that backup was last read and right."""
        return _decode(self._facts.fact(PREFIX + service + self._at) or b"{}")

    async def look(self, service: str, digest: str, now_s: float) -> tuple[str, ...]:
        """What is damaged or missing; empty if nothing is. A backup that fails is not counted as verified any more. A
        target that does not answer proves nothing: then this raises, and nothing is noted. If it is cancelled, the next
        call does not read again what was right within a day."""
        right = {pack: at_s for pack, at_s in self._right.get(service, {}).items() if now_s - at_s < DAY_S}
        self._right[service] = right
        flaws, damaged = await self._flaws(service, digest, right, now_s)
        del self._right[service]
        known = self.of(service)
        known.pop(digest, None)
        if not flaws:
            known[digest] = now_s
        newest = dict(sorted(known.items(), key=lambda item: item[1])[-KEPT:])
        self._facts.set_aside(DAMAGED + service + self._at, msgspec.json.encode(damaged))
        self._facts.set_aside(PREFIX + service + self._at, msgspec.json.encode(newest))
        return tuple(flaws)

    def damaged(self, service: str) -> frozenset[str]:
        """Packs that the next backup must not refer to."""
        return _digests(self._facts.fact(DAMAGED + service + self._at) or b"[]")

    async def _flaws(
        self, service: str, digest: str, right: dict[str, float], now_s: float
    ) -> tuple[list[str], list[str]]:
        """In words, and the digests of the packs. `right` gets those that are; the others are read."""
        flaws, damaged = list[str](), list[str]()
        try:
            receipt = (await self._store.named(service, digest)).receipt
            await self._store.manifest(receipt)
        except Corrupt as trouble:
            return [trouble.message], []
        except Failed as trouble:
            if trouble.code != "not_found":
                raise
            return [trouble.message], []
        flaws += await self._key_flaws(service, receipt.generation)
        for pack in (one for one in receipt.packs if one.digest not in right):
            try:
                await self._store.pack(service, receipt.generation, pack.digest)
                right[pack.digest] = now_s
            except Corrupt as trouble:
                flaws.append(trouble.message)
                damaged.append(pack.digest)
        return flaws, damaged

    async def _key_flaws(self, service: str, generation: int) -> list[str]:
        """Without its key no byte of a backup can be read. It is stored once for each time that it was addressed; one
        that is whole is enough."""
        flaws, names = list[str](), await self._store.key_names(service, generation)
        for name in names:
            try:
                await self._store.read(name)
            except Corrupt as trouble:
                flaws.append(trouble.message)
        missing = f"the key of generation {generation} of {service} is missing where it was stored"
        return [] if len(flaws) < len(names) else flaws or [missing]
