"""What this node keeps about moves: on the disk before anything acts on it."""

from collections.abc import Callable

import msgspec
from msgspec import UNSET

from holdfast.model.manifest import NodeManifest
from holdfast.model.revision import Entry
from holdfast.ports.journal import Facts
from holdfast.reconcile import moves as rules
from holdfast.reconcile.moves import Into, Out

OUT, INTO, STAYS, KEY = "moves/out/", "moves/into/", "moves/stays/", "moves/key/"

_out = msgspec.json.Decoder(Out).decode
_into = msgspec.json.Decoder(Into).decode


class SealedKey(msgspec.Struct, frozen=True):
    """The key that the packs of one move are sealed to, for this node and the target."""

    epoch: int
    recipient: str
    key: bytes


_key = msgspec.json.Decoder(SealedKey).decode


class Books:
    def __init__(self, facts: Facts, changed: Callable[[], None]) -> None:
        self._facts = facts
        self._changed = changed
        self._out = {name.removeprefix(OUT): _out(text) for name, text in facts.facts(OUT).items()}
        self._into = {name.removeprefix(INTO): _into(text) for name, text in facts.facts(INTO).items()}
        self._stays = {name.removeprefix(STAYS): int(text) for name, text in facts.facts(STAYS).items()}

    def leaving(self, before: NodeManifest | None, after: NodeManifest | None) -> None:
        """Before a revision is accepted: what this node has to run until it hands it over, and what it has still of a
        move that is taken back. A new machine knows neither."""
        if before is None or after is None:
            return
        for address, entry in after.handover.items():
            if address not in before.handover or before.handover[address].epoch != entry.epoch:
                self.keep_out(address.partition(".")[2], Out(entry.epoch, self._had(address, before)))
        for address, entry in after.services.items():
            is_new = address not in before.services or before.services[address].epoch != entry.epoch
            if is_new and entry.move is not UNSET and entry.move.back:
                self._keep_stays(address.partition(".")[2], entry.epoch if self._had(address, before) else 0)

    def _had(self, address: str, before: NodeManifest) -> Entry | None:
        """The service as it runs here by this revision. None: its data is not here."""
        service = address.partition(".")[2]
        if address in before.services:
            was = before.services[address]
            return None if rules.awaits(was, self._into.get(service)) else was
        handed = before.handover.get(address)
        return rules.runs_on(handed, self._out.get(service)) if handed is not None else None

    def out(self, service: str) -> Out | None:
        return self._out.get(service)

    def into(self, service: str) -> Into | None:
        return self._into.get(service)

    def stays(self, service: str, epoch: int) -> bool:
        """A move is taken back in this epoch, before the data left this node."""
        return self._stays.get(service) == epoch

    def _keep_stays(self, service: str, epoch: int) -> None:
        if self._stays.get(service, 0) != epoch:
            self._facts.set_aside(STAYS + service, str(epoch).encode())
            self._stays[service] = epoch

    def services(self) -> list[str]:
        return sorted(self._out.keys() | self._into.keys())

    def keep_out(self, service: str, book: Out) -> None:
        if book != self._out.get(service):
            self._facts.set_aside(OUT + service, msgspec.json.encode(book))
            self._out[service] = book
            self._changed()

    def keep_into(self, service: str, book: Into) -> None:
        if book != self._into.get(service):
            self._facts.set_aside(INTO + service, msgspec.json.encode(book))
            self._into[service] = book
            self._changed()

    def key(self, service: str, epoch: int) -> SealedKey | None:
        text = self._facts.fact(KEY + service)
        found = _key(text) if text is not None else None
        return found if found is not None and found.epoch == epoch else None

    def keep_key(self, service: str, key: SealedKey) -> None:
        self._facts.set_aside(KEY + service, msgspec.json.encode(key))

    def drop_key(self, service: str) -> None:
        self._facts.drop_fact(KEY + service)
