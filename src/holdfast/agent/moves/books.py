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
BARE = "moves/bare/"

_out = msgspec.json.Decoder(Out).decode
_into = msgspec.json.Decoder(Into).decode


class SealedKey(msgspec.Struct, frozen=True):
    """The key that the packs of one move are sealed to, for this node and the target."""

    epoch: int
    recipient: str
    key: bytes


_key = msgspec.json.Decoder(SealedKey).decode


class Books:
    """`is_replacement`: this machine took the place of another one, to restore what that had."""

    def __init__(self, facts: Facts, changed: Callable[[], None], is_replacement: bool = False) -> None:
        self._facts = facts
        self._changed = changed
        self._is_replacement = is_replacement
        self._bare = {name.removeprefix(BARE): int(text) for name, text in facts.facts(BARE).items()}
        self._out = {name.removeprefix(OUT): _out(text) for name, text in facts.facts(OUT).items()}
        self._into = {name.removeprefix(INTO): _into(text) for name, text in facts.facts(INTO).items()}
        self._stays = {name.removeprefix(STAYS): int(text) for name, text in facts.facts(STAYS).items()}

    def leaving(self, before: NodeManifest | None, after: NodeManifest | None, is_live: bool = True) -> None:
        """Before a revision is accepted: what this node has to run until it hands it over, and what it has still of a
        move that is taken back. A new machine knows neither. `is_live`: this start of the agent has followed the hub
        before, so that its books are not older than the revision that it leaves."""
        if before is None or after is None:
            if after is not None and self._is_replacement:
                self._keep_bare(after)
            return
        for address, entry in after.handover.items():
            if address not in before.handover or before.handover[address].epoch != entry.epoch:
                self.keep_out(address.partition(".")[2], Out(entry.epoch, self._had(address, before)))
        for address, entry in after.services.items():
            is_new = address not in before.services or before.services[address].epoch != entry.epoch
            if is_new and entry.move is not UNSET and entry.move.back:
                stays = entry.epoch if self._had(address, before) else 0
                self._note_stays(address.partition(".")[2], stays if is_live else -stays)

    def _keep_bare(self, first: NodeManifest) -> None:
        """What the other machine ran, by the first revision of this one."""
        for address, entry in first.services.items():
            service = address.partition(".")[2]
            self._facts.set_aside(BARE + service, str(entry.epoch).encode())
            self._bare[service] = entry.epoch

    def is_bare(self, service: str, epoch: int) -> bool:
        """It ran on the other machine in this epoch, never here."""
        return self._bare.get(service) == epoch

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

    def may_stay(self, service: str, epoch: int) -> bool:
        """The same, as far as this node remembers."""
        return self._stays.get(service) == -epoch

    def keep_stays(self, service: str, epoch: int, left: bool) -> None:
        self._note_stays(service, 0 if left else epoch)

    def _note_stays(self, service: str, epoch: int) -> None:
        """Negative: to be asked."""
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
