"""A ledger store: versioned keys and blobs under one rising revision. Knows no product."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from holdfast.errors import Conflict, Corrupt, Invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from contextlib import AbstractContextManager

KEY_CHARS_MAX = 1024


class Record(Struct, frozen=True):
    """A key as it is now. Deleting and putting it again starts a new `created`."""

    key: str
    value: bytes
    created: int
    modified: int


class Transaction(Struct, frozen=True):
    """All of it or nothing. `expect` maps a key to the `modified` it must still have; 0 says it must not exist.

    The store revision rises by one if a key was put or an existing key was deleted, and stays where it is otherwise:
    blobs are named by their content and have no version.
    """

    expect: Mapping[str, int]
    put: Mapping[str, bytes]
    delete: Sequence[str] = ()
    blobs: Mapping[str, bytes] = {}
    drop_blobs: Sequence[str] = ()


class Moved(Conflict):
    """An expectation failed; nothing was written."""

    def __init__(self, key: str, expected: int, actual: int) -> None:
        super().__init__(
            f"{key} is at revision {actual}, but the change expects revision {expected}",
            remedy="read the current state and base the change on it",
        )
        self.key = key
        self.expected = expected
        self.actual = actual


class Reading(Protocol):
    """The store at one moment: all answers of one reading belong to the same revision."""

    def revision(self) -> int: ...
    def get(self, key: str) -> Record | None: ...
    def scan(self, prefix: str) -> Sequence[Record]:
        """Sorted by key."""
        ...

    def blob(self, digest: str) -> bytes | None:
        """Content as stored. It was verified when written, but a disk can corrupt it: a caller that needs proof
        hashes it again."""
        ...

    def has_blobs(self, digests: Iterable[str]) -> set[str]: ...
    def blob_digests(self) -> Iterator[str]: ...
    def read_blobs(self, digests: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """One answer per digest, in the order asked; the fast way to read many."""
        ...


class LedgerReader(Reading, Protocol):
    """Read access. Takes no lock that a writer waits for, waits for no writer, writes nothing (I-09)."""

    def reading(self) -> AbstractContextManager[Reading]:
        """A consistent view for several questions (O-34)."""
        ...

    def close(self) -> None: ...


class LedgerStore(LedgerReader, Protocol):
    def commit(self, tx: Transaction) -> int:
        """Durable when it returns the store revision; raises Moved and writes nothing when an expectation fails."""
        ...

    def submit(self, tx: Transaction) -> Future[int]:
        """The same without waiting; an invalid transaction is refused at once."""
        ...


def check(tx: Transaction) -> None:
    """Refuse an invalid transaction before it begins: unprintable keys, contradictions, forged blobs."""
    for keys in (tx.expect, tx.put, tx.delete):
        for key in keys:
            if not 0 < len(key) <= KEY_CHARS_MAX or not key.isprintable():
                raise Invalid(f"{key[:80]!r} is not a ledger key", remedy="use 1 to 1024 printable characters")
    for key in tx.delete:
        if key in tx.put:
            raise Invalid(f"one transaction puts and deletes {key}", remedy="either put it or delete it")
    if tx.blobs:
        _check_blobs(tx)


def _check_blobs(tx: Transaction) -> None:
    from hashlib import sha256

    for digest, content in tx.blobs.items():
        if digest in tx.drop_blobs:
            raise Invalid(f"one transaction stores and drops blob {digest}", remedy="either store it or drop it")
        if sha256(content).hexdigest() != digest:
            raise Corrupt(
                f"the {len(content)} bytes do not match the blob digest {digest[:80]}",
                remedy="send the content again",
                code="blob_digest",
            )
