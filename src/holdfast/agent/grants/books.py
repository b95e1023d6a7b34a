"""The credentials that this node gave, durable."""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from holdfast.ports.journal import Facts
from holdfast.reconcile.grants import Book, Grant

PREFIX = "grants/"

Key = tuple[str, str, str]  # service, need, node

_book = msgspec.json.Decoder(Book).decode


class Books:
    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        books = (_book(text) for text in facts.facts(PREFIX).values())
        self._books: dict[Key, Book] = {_key(book): book for book in books}

    def all(self) -> Iterator[Book]:
        yield from [self._books[key] for key in sorted(self._books)]

    def of(self, key: Key) -> Book | None:
        return self._books.get(key)

    def has(self, key: Key, grant: Grant) -> bool:
        book = self._books.get(key)
        return book is not None and any(one.handle == grant.handle for one in book.grants)

    def of_node(self, node: str) -> list[Book]:
        return [book for book in self.all() if book.node == node]

    def keep(self, book: Book) -> Book:
        self._facts.set_aside(_name(book), msgspec.json.encode(book))
        self._books[_key(book)] = book
        return book

    def keep_grant(self, key: Key, grant: Grant) -> Book:
        """In the place of the one of that generation, or after all others."""
        book = self._books[key]
        others = [one for one in book.grants if one.generation != grant.generation]
        return self.keep(replace(book, grants=tuple(sorted((*others, grant), key=lambda one: one.generation))))

    def drop_grant(self, key: Key, generation: int) -> None:
        """A book without grants goes with its last one."""
        book = self._books[key]
        rest = tuple(one for one in book.grants if one.generation != generation)
        if rest:
            self.keep(replace(book, grants=rest))
        else:
            self._facts.drop_fact(_name(book))
            del self._books[key]


def _key(book: Book) -> Key:
    return book.service, book.need, book.node


def _name(book: Book) -> str:
    return f"{PREFIX}{book.service}/{book.need}/{book.node}"
