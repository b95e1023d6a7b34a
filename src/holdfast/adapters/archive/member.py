"""Members of a tar file as packs have them: written for any tar, read only as strictly as they are written.

A header is ustar; what does not fit (a long path, extended attributes, large numbers) is in a pax header before it.
"""

import base64
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.errors import Corrupt
from holdfast.model.archive import Entry, names_of, spelled, spoken

BLOCK = 512
END = bytes(2 * BLOCK)
FILE, SYMLINK, HARD_LINK, DIRECTORY = b"0", b"2", b"1", b"5"
_PAX, _PAX_ALL = b"x", b"g"
_NAME_MAX, _ID_MAX, _TIME_MAX, _SIZE_MAX = 100, 0o7777777, 0o77777777777, 0o77777777777
_PAX_BYTES_MAX = 4 << 20
_XATTR = b"SCHILY.xattr."


class NoMember(ValueError):
    """The text says what is wrong with the bytes."""


class Member(NamedTuple):
    name: bytes
    kind: bytes
    begin: int
    size: int


def padding(size: int) -> int:
    return -size % BLOCK


def header(entry: Entry, name: bytes, kind: bytes, size: int, link: bytes = b"") -> bytes:
    """All blocks before the content."""
    records = [(_XATTR + spoken(key), base64.b64decode(value)) for key, value in entry.xattrs.items()]
    mtime_s = entry.mtime_ns // 10**9
    if len(name) > _NAME_MAX:
        records.append((b"path", name))
    if len(link) > _NAME_MAX:
        records.append((b"linkpath", link))
    if not 0 <= mtime_s <= _TIME_MAX:
        records.append((b"mtime", b"%d" % mtime_s))
    if size > _SIZE_MAX:
        records.append((b"size", b"%d" % size))
    records += [(key, b"%d" % one) for key, one in ((b"uid", entry.uid), (b"gid", entry.gid)) if one > _ID_MAX]
    before = _records(_PAX, b"PaxHeader", records) if records else b""
    return before + _block(
        name[:_NAME_MAX], entry.mode, min(entry.uid, _ID_MAX), min(entry.gid, _ID_MAX), min(size, _SIZE_MAX),
        min(max(mtime_s, 0), _TIME_MAX), kind, link[:_NAME_MAX],
    )  # fmt: skip


def first(comment: str) -> bytes:
    """The header that begins a pack and says what it is for."""
    return _records(_PAX_ALL, b"pax_global_header", [(b"comment", comment.encode())])


def _records(kind: bytes, name: bytes, records: list[tuple[bytes, bytes]]) -> bytes:
    text = b"".join(_record(key, value) for key, value in records)
    return _block(name, 0o600, 0, 0, len(text), 0, kind, b"") + text + bytes(padding(len(text)))


def _record(key: bytes, value: bytes) -> bytes:
    """Its length is a part of it."""
    size = len(key) + len(value) + 3
    length = size + len(str(size))
    length = size + len(str(length))
    return b"%d %s=%s\n" % (length, key, value)


def _block(name: bytes, mode: int, uid: int, gid: int, size: int, mtime: int, kind: bytes, link: bytes) -> bytes:
    begin = b"%-100b%07o\0%07o\0%07o\0%011o\0%011o\0" % (name.ljust(100, b"\0"), mode, uid, gid, size, mtime)
    end = b"%b%bustar\x0000" % (kind, link.ljust(100, b"\0"))
    total = sum(begin) + sum(end) + 8 * 32
    return (b"%b%06o\0 %b" % (begin, total, end)).ljust(BLOCK, b"\0")


# ---- reading


def members(tar: memoryview, comment: str) -> Iterator[Member]:
    """Raises NoMember for anything that `header` and `first` do not write, also after the first members."""
    at, name, is_first = 0, b"", True
    while True:
        block = bytes(tar[at : at + BLOCK])
        if not block.strip(b"\0"):
            if len(tar) - at != len(END) or bytes(tar[at:]) != END:
                raise NoMember("its end is damaged")
            return
        kind, size = _checked(block)
        begin, after = at + BLOCK, at + BLOCK + size + padding(size)
        if after > len(tar):
            raise NoMember("a member is longer than the pack")
        if is_first:
            if kind != _PAX_ALL or _read(bytes(tar[begin : begin + size])).get(b"comment") != comment.encode():
                raise NoMember(f"it was not made as {comment[:200]}")
            is_first = False
        elif kind == _PAX:
            name = _read(bytes(tar[begin : begin + size])).get(b"path", b"")
        else:
            yield _member(kind, name or block[:_NAME_MAX].rstrip(b"\0"), begin, size)
            name = b""
        at = after


def _member(kind: bytes, name: bytes, begin: int, size: int) -> Member:
    if kind not in (FILE, SYMLINK):
        raise NoMember(f"{spelled(name)[:80]!r} is of type {kind!r}, which packs do not have")
    try:
        names_of(name)
    except Corrupt:
        raise NoMember(f"{spelled(name)[:80]!r} is not a path inside an archive") from None
    return Member(name, kind, begin, size)


def _checked(block: bytes) -> tuple[bytes, int]:
    if len(block) < BLOCK or block[257:265] != b"ustar\x0000":
        raise NoMember("a header is damaged")
    try:
        said, size = int(block[148:154], 8), int(block[124:135], 8)
    except ValueError:
        raise NoMember("a header is damaged") from None
    if said != sum(block) - sum(block[148:156]) + 8 * 32:
        raise NoMember("a header is damaged")
    return block[156:157], size


def _read(text: bytes) -> dict[bytes, bytes]:
    if len(text) > _PAX_BYTES_MAX:
        raise NoMember("a header is too long")
    found: dict[bytes, bytes] = {}
    while text:
        length, space, _ = text.partition(b" ")
        if not space or not length.isdigit() or len(length) > 9 or not len(length) + 2 < int(length) <= len(text):
            raise NoMember("a header is damaged")
        record, text = text[len(length) + 1 : int(length)], text[int(length) :]
        key, equals, value = record.partition(b"=")
        if not equals or not value.endswith(b"\n"):
            raise NoMember("a header is damaged")
        found[key] = value[:-1]
    return found
