"""The manifest of an archive: what lines it has and how they are spelled. Pure.

JSON lines: one Header, one Entry for each thing in walk order (`order_key`), one Totals. Stored sealed; a node keeps a
copy of its last one, whose entries also have `seen`. Large manifests are stored in pages of lines (`Header.pages`).
"""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from holdfast.errors import Corrupt
from holdfast.model.backup_key import SERVICE_FORM
from holdfast.model.ids import DIGEST_PATTERN

FORMAT = "holdfast-archive-1"
OBJECT_BYTES_MAX = 24 << 20  # of anything stored on a target
PACK_BYTES = 16 << 20  # of content, at which a pack is closed
PART_BYTES: Final = 4_194_304
WHOLE_BYTES_MAX = PACK_BYTES  # a longer file is stored in parts: with its members a pack stays a small object
WHOLE_PARTS_MAX = 16  # of a smaller size: a longer file is stored in them
PART_SUFFIX = ".holdfast-part"
PAGE_BYTES = 32 << 20  # of lines
LINE_BYTES_MAX = 80 << 20
LINES_BYTES_MAX = 512 << 20  # of one stored object
PARTS_MAX = 400_000  # of a file: 1.6 TB in parts of 4 MiB, 26 GB in parts of 64 KiB
SIZE_MAX = 1 << 53
TIME_MAX_NS = 1 << 62  # 146 years before and after 1970; a file system may have others
DEPTH_MAX = 4096  # directories one in another

Hex = Annotated[str, Meta(pattern=DIGEST_PATTERN)]
Count = Annotated[int, Meta(ge=0, le=SIZE_MAX)]
Id = Annotated[int, Meta(ge=0, lt=2**32 - 1)]
PartBytes = Literal[65_536, 131_072, 262_144, 524_288, 1_048_576, 2_097_152, 4_194_304]


class Purpose(Struct, frozen=True):
    """What a key, a pack or a manifest is for; it is inside every seal."""

    fleet: Hex
    service: Annotated[str, Meta(pattern=rf"^{SERVICE_FORM}$(?!\n)")]  # or a node itself
    generation: Annotated[int, Meta(ge=1, lt=10**10)]

    @property
    def shown(self) -> str:
        return f"{self.service}, generation {self.generation}, of fleet {self.fleet[:12]}…"

    @property
    def comment(self) -> str:
        """In the first header of a pack."""
        return f"holdfast-pack-1 fleet={self.fleet} service={self.service} generation={self.generation}"


class Header(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`previous`: digest of the manifest before, as stored. `dump`: the path of what a command of the service wrote, in
    the place of files; a command of the service brings it back. `covers`: `whole` or `partial` (M-91's default set).
    `pages`: packs that have the lines before those here, in order. `part_bytes`: of each part of a long file."""

    format: str = ""
    purpose: Purpose
    node: str
    sequence: Count
    epoch: Count = 0
    made: str = ""  # UTC
    previous: str = ""
    method: str = ""
    dump: str = ""
    volumes: tuple[str, ...] = ()
    covers: Literal["whole", "partial"] = "whole"
    pages: tuple[Hex, ...] = ()
    part_bytes: PartBytes = PART_BYTES


class Part(Struct, frozen=True, omit_defaults=True):
    """`Header.part_bytes` of a long file, or its end. Without a pack it is a hole."""

    size: Annotated[int, Meta(ge=0, le=PART_BYTES)]
    sha256: str = ""
    pack: str = ""


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`path`: `spelled`. `link`: path of an earlier entry that is the same file; then nothing else counts. `data`:
    offset and length of all that is no hole, for a file that has holes. `vacuumed`: an SQLite database; size and sha256
    are those of its copy. `unsettled`: it was written to while it was read. `seen`, only in a node's own copy: the
    numbers by which an unchanged file is recognised."""

    path: str
    type: Literal["file", "dir", "symlink"]
    mode: Annotated[int, Meta(ge=0, le=0o7777)]
    uid: Id
    gid: Id
    mtime_ns: Annotated[int, Meta(ge=-TIME_MAX_NS, le=TIME_MAX_NS)]
    size: Count = 0
    sha256: str = ""
    pack: str = ""
    parts: tuple[Part, ...] = ()
    target: str = ""  # of a symlink, spelled
    link: str = ""
    xattrs: dict[str, str] = {}  # spelled name → base64
    data: tuple[tuple[Count, Count], ...] = ()
    vacuumed: bool = False
    unsettled: bool = False
    seen: tuple[int, ...] = ()

    def packs(self) -> Iterator[str]:
        if self.pack:
            yield self.pack
        for part in self.parts:
            if part.pack:
                yield part.pack


class PackRow(Struct, frozen=True):
    """`plain_bytes`: of all its members; `live_bytes`: of those that this manifest refers to."""

    digest: Hex
    size_bytes: Count
    plain_bytes: Count
    live_bytes: Count


class Totals(Struct, frozen=True, kw_only=True):
    """The last line; a manifest without it is incomplete. `stored_bytes`: what files take on a disk that knows
    holes."""

    totals: str = FORMAT
    entries: Count
    files: Count
    size_bytes: Count
    stored_bytes: Count
    packs: tuple[PackRow, ...]


_encoder = msgspec.json.Encoder()
_entry = msgspec.json.Decoder(Entry)


def line(value: Header | Entry | Totals) -> bytes:
    return _encoder.encode(value) + b"\n"


def entry_of(text: bytes) -> Entry:
    try:
        return _entry.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise damaged(str(trouble)) from trouble


def header_of(text: bytes) -> Header:
    try:
        header = msgspec.json.decode(text, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise damaged(str(trouble)) from trouble
    if header.format != FORMAT:
        raise damaged(f"its format is {header.format[:40]!r}, this release reads {FORMAT}")
    return header


def totals_of(text: bytes) -> Totals:
    try:
        return msgspec.json.decode(text, type=Totals)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise damaged("its end is missing") from None


def is_totals(text: bytes) -> bool:
    return text.startswith(b'{"totals":')


def damaged(why: str) -> Corrupt:
    return Corrupt(
        f"the manifest of this backup is damaged: {why}",
        remedy="restore an older backup, or from another target; `holdfast status` shows what there is",
        code="archive_damaged",
    )


# ---- paths


def spelled(path: bytes) -> str:
    r"""As text: bytes that are not UTF-8 are written \xNN, and a backslash \\."""
    return path.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


_ESCAPE = re.compile(rb"\\(\\|x[0-9a-f]{2})")


def spoken(text: str) -> bytes:
    """The path again. Raises Corrupt for what `spelled` does not write."""
    path = text.encode()
    if b"\\" not in path:
        return path
    path = _ESCAPE.sub(lambda found: b"\\" if found[1] == b"\\" else bytes([int(found[1][1:], 16)]), path)
    if spelled(path) != text:
        raise damaged(f"{text[:80]!r} is not a path")
    return path


def names_of(path: bytes) -> list[bytes]:
    """Its components, none of which leads elsewhere."""
    names = path.split(b"/")
    if any(name in (b"", b".", b"..") or b"\0" in name or len(name) > 255 for name in names):
        raise damaged(f"{spelled(path)[:80]!r} is not a path inside the archive")
    return names


def order_key(path: bytes, is_directory: bool) -> bytes:
    """Walk order as the order of bytes: in each directory first the files by name, then the directories by name, each
    followed by what is in it."""
    above, _, name = path.rpartition(b"/")
    begin = b"\2%s\0" % above.replace(b"/", b"\0\2") if above else b""
    return b"%s%s%s\0" % (begin, b"\2" if is_directory else b"\1", name)


def whole_bytes_max(part_bytes: int) -> int:
    """A longer file is stored in parts."""
    return min(WHOLE_PARTS_MAX * part_bytes, WHOLE_BYTES_MAX)


def part_name(path: bytes, number: int) -> bytes:
    return b"%s%s/%08d" % (path, PART_SUFFIX.encode(), number)


def rows(packs: Iterable[PackRow]) -> dict[str, PackRow]:
    return {row.digest: row for row in packs}
