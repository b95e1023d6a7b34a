"""A manifest that is being written: a line goes to disk before its pack has a digest, which is filled in afterwards.

After a cut the file tells the next run what there was: entries whose pack was not shipped name one that no target has.
"""

import os
import threading
from array import array

from holdfast.model.archive import Entry, Header, Totals, line

_BUFFER = 1 << 18


class Draft:
    def __init__(self, path: str, header: Header) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.fdopen(os.open(path, flags, 0o600), "wb", _BUFFER)
        self._lock = threading.Lock()
        self._at = 0
        self._known: dict[int, bytes] = {}
        self._waiting: dict[int, array[int]] = {}  # pack → places of its digest
        self._put(line(header))

    def same(self, text: bytes) -> None:
        """A line of the manifest before, which refers to known packs only."""
        with self._lock:
            self._put(text)

    def add(self, entry: Entry, packs: set[int]) -> None:
        """`packs`: numbers whose `mark` the entry has instead of a digest."""
        text = line(entry)
        with self._lock:
            for number in packs:
                self._note(text, number)
            for number in packs & self._known.keys():
                text = text.replace(mark(number).encode(), self._known[number])
            self._put(text)

    def _note(self, text: bytes, number: int) -> None:
        if number in self._known:
            return
        places = self._waiting.setdefault(number, array("Q"))
        at = text.find(mark(number).encode())
        while at >= 0:
            places.append(self._at + at)
            at = text.find(mark(number).encode(), at + 64)

    def resolve(self, number: int, digest: str) -> None:
        with self._lock:
            self._known[number] = digest.encode()
            places = self._waiting.pop(number, array("Q"))
            if places:
                self._file.flush()
            for place in places:
                os.pwrite(self._file.fileno(), digest.encode(), place)

    def digest(self, number: int) -> str:
        return self._known[number].decode()

    def finish(self, totals: Totals) -> None:
        with self._lock:
            self._put(line(totals))
            self._file.close()

    def _put(self, text: bytes) -> None:
        self._file.write(text)
        self._at += len(text)


def mark(number: int) -> str:
    """As long as a digest."""
    return f"{number:064x}"
