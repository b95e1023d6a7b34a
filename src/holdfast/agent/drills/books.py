"""What this node keeps about the drills of each service: on the disk before it is reported."""

from collections.abc import Callable, Set

import msgspec

from holdfast.ports.journal import Facts
from holdfast.reconcile.drill import Book

PREFIX = "drills/book/"

_decode = msgspec.json.Decoder(Book).decode


class Books:
    def __init__(self, facts: Facts, changed: Callable[[], None]) -> None:
        self._facts = facts
        self._changed = changed
        self._known = {name.removeprefix(PREFIX): _decode(value) for name, value in facts.facts(PREFIX).items()}

    def of(self, service: str) -> Book | None:
        return self._known.get(service)

    def known(self) -> list[str]:
        return sorted(self._known)

    def keep(self, service: str, book: Book) -> None:
        if book != self._known.get(service):
            self._facts.set_aside(PREFIX + service, msgspec.json.encode(book))
            self._known[service] = book
            self._changed()

    def proven(self, service: str) -> Set[str]:
        """Digests of the receipts of backups that a drill has verified."""
        book = self._known.get(service)
        return frozenset(book.proven) if book is not None else frozenset()
