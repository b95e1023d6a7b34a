"""What this node keeps about each schedule: on the disk before anything acts on it."""

from collections.abc import Callable, Mapping

import msgspec

from holdfast.agent.schedules.notes import Key, Notes
from holdfast.model.move import Decided
from holdfast.ports.journal import Facts
from holdfast.reconcile.schedule import Book

PREFIX = "schedules/"

_decode = msgspec.json.Decoder(Book).decode


class Books:
    def __init__(self, facts: Facts, notes: Notes, changed: Callable[[], None]) -> None:
        self._facts = facts
        self._notes = notes
        self._changed = changed
        self._known: dict[Key, Book] = {}
        for name, value in facts.facts(PREFIX).items():
            service, _, schedule = name.removeprefix(PREFIX).partition("/")
            self._known[service, schedule] = _decode(value)
            notes.of((service, schedule), self._known[service, schedule])

    def of(self, key: Key) -> Book | None:
        return self._known.get(key)

    def decided(self, service: str) -> dict[str, Decided]:
        """For the node that the service moves to."""
        mine = {name: book for (of, name), book in self._known.items() if of == service}
        return {name: Decided(book.decided_s, book.cron, book.timezone) for name, book in sorted(mine.items())}

    def go_on(self, service: str, decided: Mapping[str, Decided]) -> None:
        """The service moved here: no minute runs again, and none is left out."""
        for name, one in decided.items():
            known = self._known.get((service, name))
            if known is None or known.decided_s < one.decided_s:
                self.keep((service, name), Book(one.decided_s, one.cron, one.timezone))

    def known(self) -> list[Key]:
        return sorted(self._known)

    def keep(self, key: Key, book: Book) -> None:
        if book != self._known.get(key):
            self._facts.set_aside(PREFIX + "/".join(key), msgspec.json.encode(book))
            self._known[key] = book
            self._notes.of(key, book)
            self._changed()

    def drop(self, key: Key) -> None:
        self._facts.drop_fact(PREFIX + "/".join(key))
        del self._known[key]
        self._notes.forget(key)
