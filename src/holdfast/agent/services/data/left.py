"""Data that services left on this node: retired with them, or a copy that is not theirs any more."""

from collections.abc import Callable, Collection

import msgspec
from msgspec.structs import replace

from holdfast.agent.keeper import Revision
from holdfast.agent.services.data.passports import Passports
from holdfast.model import canonical
from holdfast.model.manifest import NodeManifest
from holdfast.model.move import Pass, SignedStatement
from holdfast.model.report import RetiredData
from holdfast.ports.journal import Facts
from holdfast.ports.storage import Storage
from holdfast.reconcile import stale_copies
from holdfast.reconcile.moves import Out
from holdfast.reconcile.stale_copies import Left

FACT = "services/left/"

_left = msgspec.json.Decoder(Left).decode


class LeftBook:
    """What this node keeps of services that left it: on the disk before anything acts on it. `out` answers what it
    keeps of a service that it hands over, or handed over."""

    def __init__(self, facts: Facts, out: Callable[[str], Out | None], now_s: Callable[[], float]) -> None:
        self.out = out
        self._facts = facts
        self._now_s = now_s
        self._known = {name.removeprefix(FACT): _left(text) for name, text in facts.facts(FACT).items()}

    def leaving(self, before: NodeManifest | None, after: NodeManifest | None) -> None:
        """Before a revision is accepted."""
        for name, left in stale_copies.leaving(before, after, self._now_s()).items():
            self._facts.set_aside(FACT + name, msgspec.json.encode(left))
            self._known[name] = left

    def of(self, name: str) -> Left | None:
        return self._known.get(name)


class LeftData:
    def __init__(self, storage: Storage, passports: Passports, book: LeftBook) -> None:
        self._storage = storage
        self._passports = passports
        self._book = book

    def is_in_transit(self, name: str, manifest: NodeManifest) -> bool:
        return stale_copies.is_in_transit(f"service.{name}", manifest, self._book.out(name))

    def look(self, revision: Revision, known: Collection[RetiredData]) -> tuple[RetiredData, ...]:
        """Measures what is not `known`: while it ran, other figures were measured. Blocks."""
        placed = revision.manifest.services.keys() | revision.awaited.keys()
        seen = {(one.name, one.removed_in, one.state) for one in known}
        found = []
        for counted in self._storage.directories():
            stone = revision.tombstones.get(f"service.{counted.name}")
            if f"service.{counted.name}" in placed:
                continue
            copy = self._copy(counted.name, stone.epoch if stone is not None else 0)
            if stone is None and not copy.state:
                continue
            copy = replace(copy, removed_in=stone.removed_in if stone is not None else 0)
            is_new = (copy.name, copy.removed_in, copy.state) not in seen
            one = (self._storage.directory(counted.name) if is_new else None) or counted
            found.append(replace(copy, path=one.path, size_bytes=one.size_bytes, files=one.files))
        return tuple(found)

    def _copy(self, name: str, buried: int) -> RetiredData:
        out, left = self._book.out(name), self._book.of(name)
        epoch = stale_copies.epoch_of(self._passports.epoch(name), out, left, buried)
        one = RetiredData(name, "", 0, 0, epoch=epoch, state=stale_copies.state_of(epoch, out, left))
        if out is not None and one.state == "superseded":
            word = canonical.decode(out.handover, SignedStatement, "the handover").statement
            target = canonical.decode(word, Pass, "the handover").target
            return replace(one, target=target, digest=out.manifest, left_s=out.handed_s)
        return replace(one, left_s=left.left_s) if left is not None and one.state else one
