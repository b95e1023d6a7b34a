"""What this node keeps about the backups of each service: on the disk before anything acts on it."""

from collections.abc import Callable
from contextlib import suppress

import msgspec

from holdfast.errors import HoldfastError
from holdfast.ports.journal import Facts
from holdfast.reconcile.backup_due import Book

PREFIX = "backups/book/"

_decode = msgspec.json.Decoder(Book).decode


class Books:
    def __init__(self, facts: Facts, changed: Callable[[], None]) -> None:
        self._facts = facts
        self._changed = changed
        self._known = {name.removeprefix(PREFIX): _decode(value) for name, value in facts.facts(PREFIX).items()}

    def of(self, service: str, now_s: float) -> Book:
        return self._known.get(service) or Book(now_s)

    def known(self) -> list[str]:
        return sorted(self._known)

    def keep(self, service: str, book: Book) -> None:
        if book != self._known.get(service):
            self._facts.set_aside(PREFIX + service, msgspec.json.encode(book))
            self._known[service] = book
            self._changed()

    def note(self, service: str, book: Book) -> None:
        """The same for what may be forgotten with this agent: a disk that refuses delays nothing."""
        self._known[service] = book
        with suppress(HoldfastError):
            self._facts.set_aside(PREFIX + service, msgspec.json.encode(book))
        self._changed()
