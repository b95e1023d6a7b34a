"""Purged data that is kept aside for seven days, from this agent's journal; then it is deleted. What lies there without
an entry in the journal, because that was lost, is listed and stays until an order deletes it or brings it back.

The days are counted by the monotonic clock of the running agent: no jump of a clock, no hub and no time that the
machine was off shortens them.
"""

import asyncio

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.services.data.proofs import granted
from holdfast.errors import Failed, HoldfastError
from holdfast.gate import copies
from holdfast.model.order import VerifiedOrder
from holdfast.model.report import RetiredData
from holdfast.ports.clock import Clock
from holdfast.ports.journal import Journal
from holdfast.ports.storage import Disposable, SetAside, Storage

PREFIX = "services/aside/"
KEPT_S = 7 * 24 * 3600.0
LOOK_S = 600.0
STEP_S_MAX = 2 * LOOK_S  # the agent looks every LOOK_S; a longer step is a clock jump and counts as this


class Aside(Struct, frozen=True, omit_defaults=True):
    """What one purge set aside, as it was measured then."""

    service: str
    purge: str  # id of the order
    path: str  # of the data there
    size_bytes: int = 0
    files: int = 0
    removed_in: int = 0  # revision; 0: not known
    copies: tuple[str, ...] = ()  # former paths of its checkpoints
    copies_bytes: int = 0
    since_s: float = 0.0  # by the wall clock: for people only
    waited_s: float = 0.0


class Asides:
    def __init__(self, *, storage: Storage, journal: Journal, clock: Clock, node: str) -> None:
        self._storage = storage
        self._journal = journal
        self._clock = clock
        self._node = node
        found = journal.facts(PREFIX)
        self._known = {name: msgspec.json.decode(text, type=Aside) for name, text in found.items()}
        self._counted_s = dict.fromkeys(self._known, clock.monotonic_s())
        self._on_disk: tuple[SetAside, ...] = ()
        self._leaving: set[str] = set()  # is deleted now, which may take long

    @property
    def found(self) -> tuple[RetiredData, ...]:
        return (*(_shown(one) for one in self._known.values()), *map(_unknown, self._unnoted()))

    def _unnoted(self) -> list[SetAside]:
        noted = {*self._known, *self._leaving}
        return [one for one in self._on_disk if f"{PREFIX}{one.service}/{one.order}" not in noted]

    async def look_at_disk(self) -> None:
        found = await asyncio.get_running_loop().run_in_executor(None, self._storage.asides)
        self._on_disk = tuple(found)

    def keep(self, aside: Aside, operation: str) -> None:
        """Done again after a crash: the same one. The mark lets the gate delete it later without a signature."""
        self._journal.note_made(aside.path, operation, True)
        if _fact(aside) not in self._known:
            self._write(replace(aside, since_s=self._clock.now_s()))
            self._counted_s[_fact(aside)] = self._clock.monotonic_s()

    def of(self, service: str, purge: str) -> Aside:
        found = self._known.get(f"{PREFIX}{service}/{purge}")
        if found is not None:
            return found
        for one in self._storage.asides():
            if (one.service, one.order) == (service, purge):
                return Aside(service, purge, one.path, one.size_bytes, one.files, copies_bytes=one.checkpoints_bytes)
        raise Failed(
            f"this node has no data of {service} that the purge {purge[:32]!r} set aside",
            remedy="`holdfast retired` lists what can be brought back",
            code="not_found",
        )

    def unmark(self, aside: Aside) -> None:
        """Its checkpoints are gone."""
        for path in aside.copies:
            self._journal.forget_made(path)

    def forget(self, service: str, purge: str) -> None:
        """It is gone from there. Does nothing more if it is not known."""
        self._on_disk = tuple(one for one in self._on_disk if (one.service, one.order) != (service, purge))
        found = self._known.get(f"{PREFIX}{service}/{purge}")
        if found is not None:
            self._journal.forget_made(found.path)
            self._journal.drop_fact(_fact(found))
            del self._known[_fact(found)]

    async def look(self) -> None:
        """Count the time, and delete what is over. Raises why something of it cannot be deleted."""
        over = [one for one in map(self._counted, list(self._known.values())) if one.waited_s >= KEPT_S]
        troubles = []
        for one in over:
            proof = copies.may_expire(self._journal, one.service, one.purge, one.path, self._node)
            if isinstance(proof, Disposable):
                try:
                    await self._dispose(one, proof)
                except HoldfastError as trouble:
                    troubles.append(trouble)
        if troubles:
            raise troubles[0]

    async def destroy(self, service: str, order: VerifiedOrder) -> int:
        """All that this and earlier purges set aside, by an order to destroy now; answers how many bytes it was of the
        earlier ones."""
        size_bytes = 0
        for purge in self._storage.set_aside_by(service):
            proof, aside = granted(copies.may_dispose(service, purge, self._node, order)), self.of(service, purge)
            await self._dispose(aside, proof)
            size_bytes += aside.size_bytes + aside.copies_bytes if purge != order.order.id else 0
        return size_bytes

    async def _dispose(self, aside: Aside, proof: Disposable) -> None:
        self._leaving.add(_fact(aside))
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._storage.dispose, proof)
        finally:
            self._leaving.discard(_fact(aside))
        self.unmark(aside)
        self.forget(aside.service, aside.purge)

    def _counted(self, aside: Aside) -> Aside:
        now_s = self._clock.monotonic_s()
        passed_s = min(now_s - self._counted_s[_fact(aside)], STEP_S_MAX)
        self._counted_s[_fact(aside)] = now_s
        return self._write(replace(aside, waited_s=aside.waited_s + passed_s))

    def _write(self, aside: Aside) -> Aside:
        self._journal.set_aside(_fact(aside), msgspec.json.encode(aside))
        self._known[_fact(aside)] = aside
        return aside


def _unknown(one: SetAside) -> RetiredData:
    """Without a time: the gate lets nothing expire that the journal does not mark."""
    sizes = one.size_bytes, one.files
    return RetiredData(one.service, one.path, *sizes, 0, one.order, 0.0, one.checkpoints, one.checkpoints_bytes)


def _fact(aside: Aside) -> str:
    return f"{PREFIX}{aside.service}/{aside.purge}"


def _shown(one: Aside) -> RetiredData:
    return RetiredData(
        one.service,
        one.path,
        one.size_bytes,
        one.files,
        one.removed_in,
        one.purge,
        float(int(one.since_s + KEPT_S)),
        len(one.copies),
        one.copies_bytes,
    )
