"""Read an audit file in bounded pieces: from an entry number, from the end, or all. Writes nothing."""

import os
from collections.abc import Iterator

import msgspec

from holdfast.errors import Corrupt

LIMIT_MAX = 10_000
_PIECE_BYTES = 1 << 16
_LINE_BYTES_MAX = 1 << 20  # far longer than any entry; a longer run without a newline is damage


class _Numbered(msgspec.Struct):
    number: int


_numbered = msgspec.json.Decoder(_Numbered)


def every(handle: int, start: int, end: int) -> Iterator[bytes]:
    """Complete lines between two offsets, without the newline."""
    rest = b""
    at = start
    while at < end:
        piece = os.pread(handle, min(_PIECE_BYTES, end - at), at)
        if not piece:
            break
        at += len(piece)
        *complete, rest = (rest + piece).split(b"\n")
        yield from complete
        if len(rest) > _LINE_BYTES_MAX:
            raise _damaged("a line has no end")


def complete_end(handle: int, size: int) -> int:
    """The offset just after the last newline."""
    at = size
    while at > 0:
        start = max(0, at - _PIECE_BYTES)
        found = os.pread(handle, at - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        at = start
    return 0


def from_number(handle: int, end: int, after: int, limit: int) -> list[bytes]:
    """Binary search for the entry: numbers only grow, so no index file is needed."""
    limit = min(limit, LIMIT_MAX)
    if limit <= 0:
        return []
    low, high = 0, end  # the first wanted line starts in [low, high)
    while high - low > _PIECE_BYTES:
        middle = low + (high - low) // 2
        start = _next_line(handle, middle, end)
        if start < high and _number_at(handle, start, end) <= after:
            low = start
        else:
            high = middle
    found: list[bytes] = []
    for line in every(handle, low, end):
        if len(found) == limit:
            break
        if found or _number_of(line) > after:
            found.append(line)
    return found


def newest(handle: int, end: int, limit: int) -> list[bytes]:
    limit = min(limit, LIMIT_MAX)
    content = b""
    at = end
    while at > 0 and content.count(b"\n") <= limit:
        start = max(0, at - _PIECE_BYTES)
        content = os.pread(handle, at - start, start) + content
        at = start
    return content.split(b"\n")[:-1][-limit:] if limit > 0 else []


def _next_line(handle: int, offset: int, end: int) -> int:
    at = offset
    while at < end:
        piece = os.pread(handle, min(_PIECE_BYTES, end - at), at)
        found = piece.find(b"\n")
        if found >= 0:
            return at + found + 1
        if not piece:
            break
        at += len(piece)
    return end


def _number_at(handle: int, offset: int, end: int) -> int:
    line = next(every(handle, offset, end), None)
    return _number_of(line) if line is not None else 0


def _number_of(line: bytes) -> int:
    try:
        return _numbered.decode(line).number
    except (msgspec.DecodeError, UnicodeDecodeError) as trouble:
        raise _damaged("a line is not valid JSON") from trouble


def _damaged(why: str) -> Corrupt:
    return Corrupt(
        f"the audit log is damaged: {why}",
        remedy="keep the file as evidence; the hub has a copy of a node's log: holdfast audit --node NAME --verify",
        code="audit_broken",
    )
