"""The key that the archives of a service are sealed to, and who can open it."""

import msgspec

from holdfast.model import archive_key
from holdfast.model.archive import Purpose
from holdfast.model.archive_key import ArchiveKey
from holdfast.ports.archive_keys import ArchiveKeys
from holdfast.ports.journal import Facts
from holdfast.ports.sealing import Opener, Sealer
from holdfast.reconcile import generations
from holdfast.reconcile.generations import Generation

PREFIX = "backups/generation/"

_decode = msgspec.json.Decoder(Generation).decode


class Generations:
    """`line` is the node's own key."""

    def __init__(
        self,
        *,
        facts: Facts,
        sealer: Sealer,
        opener: Opener,
        keys: ArchiveKeys,
        fleet: str,
        line: str,
    ) -> None:
        self._facts = facts
        self._sealer = sealer
        self._opener = opener
        self._keys = keys
        self._fleet = fleet
        self._line = line

    def begins(self, service: str, operators: frozenset[str], least: int) -> bool:
        """Whether the next archive has another key than the one before."""
        return generations.turn(self._usable(service, least), operators | {self._line}) == "begin"

    def current(self, service: str, operators: frozenset[str], least: int = 0) -> Generation:
        """Noted before anything is sealed to it. `least`: the newest generation that this node has signed for; after a
        lost journal the next one begins."""
        readers, known = operators | {self._line}, self._usable(service, least)
        match generations.turn(known, readers):
            case "keep":
                assert known is not None
                return known
            case "readdress":
                assert known is not None
                plain = self._opener.open(known.key)
                made = Generation(known.number, known.recipient, tuple(sorted(readers)), self._sealed(plain, readers))
            case "begin":
                number = max(known.number if known is not None else 0, least) + 1
                pair = self._keys.fresh()
                plain = archive_key.written(ArchiveKey(Purpose(self._fleet, service, number), pair.identity))
                made = Generation(number, pair.recipient, tuple(sorted(readers)), self._sealed(plain, readers))
        self._facts.set_aside(PREFIX + service, msgspec.json.encode(made))
        return made

    def opened(self, sealed: bytes, service: str, generation: int) -> ArchiveKey:
        """Raises CannotOpen if it is not sealed to this node, Corrupt if it is for another purpose."""
        return archive_key.read(self._opener.open(sealed), Purpose(self._fleet, service, generation))

    def _usable(self, service: str, least: int) -> Generation | None:
        noted = self._facts.fact(PREFIX + service)
        known = _decode(noted) if noted is not None else None
        return known if known is not None and known.number >= least else None

    def _sealed(self, plain: bytes, readers: frozenset[str]) -> bytes:
        return self._sealer.seal(plain, sorted(readers))
