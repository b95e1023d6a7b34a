"""Reading an audit file in bounded pieces: from a number on, from its end, or all of it. Writes nothing."""

import os
from collections.abc import Iterator

import msgspec

from holdfast.errors import Corrupt

LIMIT_MAX = 10_000
_PIECE_BYTES = 1 << 16
_LINE_BYTES_MAX = 1 << 20  # far above what is ever written; a longer stretch without newline is damage


class _Numbered(msgspec.Struct):
    number: int


_numbered = msgspec.json.Decoder(_Numbered)


def every(handle: int, start: int, end: int) -> Iterator[bytes]:
    """Complete lines between two offsets, without newline."""
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
    """Numbers only grow, so the place is found by halving: no index to keep, none to trust."""
    limit = min(limit, LIMIT_MAX)
    if limit <= 0:
        return []
    low, high = 0, end  # a line that starts in [low, high) may be the first one wanted
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
        raise _damaged("a line cannot be read") from trouble


def _damaged(why: str) -> Corrupt:
    return Corrupt(
        f"the audit log is damaged: {why}",
        remedy="keep the file as evidence; compare it with the copies of hub and node: holdfast audit --verify",
        code="audit_broken",
    )
