"""A manifest as it is stored: sealed lines, without what only this node can use; a long one in pages."""

import os
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

from msgspec.structs import replace

from holdfast.adapters.archive.packs import Spool
from holdfast.adapters.archive.sealed_file import checked, compressor, streamed
from holdfast.adapters.sealing.age_stream import Identity
from holdfast.model.archive import (
    FORMAT,
    LINES_BYTES_MAX,
    PAGE_BYTES,
    Header,
    Purpose,
    Totals,
    damaged,
    header_of,
    line,
)
from holdfast.ports.archive import Stored

_GATHERED = 1 << 20
_SEEN = b',"seen":['


class SealedManifest(NamedTuple):
    digest: str
    pages: tuple[Stored, ...]


def seal_manifest(path: str, header: Header, totals: Totals, spool: Spool) -> SealedManifest:
    """From the draft at `path`. Pages are shipped; the manifest itself stays in the spool, under its digest."""
    pages: list[Stored] = []
    with open(path, "rb", _GATHERED) as draft:
        draft.readline()
        if os.fstat(draft.fileno()).st_size <= PAGE_BYTES:
            root = _sealed((line(replace(header, format=FORMAT)), *_stripped(draft)), spool, "root")
            return SealedManifest(root.digest, ())
        lines = _stripped(draft)
        while page := _page(lines):
            pages.append(_sealed(page, spool, f"page-{len(pages)}"))
            spool.announce(pages[-1].digest, lambda: None)
    spool.settle()
    whole = replace(header, format=FORMAT, pages=tuple(page.digest for page in pages))
    root = _sealed((line(whole), line(totals)), spool, "root")
    return SealedManifest(root.digest, tuple(pages))


def _stripped(draft: BinaryIO) -> Iterator[bytes]:
    for text in draft:
        end = text.rfind(_SEEN)  # in a string the quotes would have backslashes
        yield text if end < 0 else text[:end] + b"}\n"


def _page(lines: Iterator[bytes]) -> list[bytes]:
    found: list[bytes] = []
    size = 0
    for text in lines:
        found.append(text)
        size += len(text)
        if size >= PAGE_BYTES // 4:
            break
    return found


def _sealed(lines: "tuple[bytes, ...] | list[bytes]", spool: Spool, name: str) -> Stored:
    file = spool.begin(name)
    packer = compressor().compressobj()
    gathered: list[bytes] = []
    size = 0
    for text in lines:
        gathered.append(text)
        size += len(text)
        if size >= _GATHERED:
            file.add(packer.compress(b"".join(gathered)))
            gathered.clear()
            size = 0
    file.add(packer.compress(b"".join(gathered)) + packer.flush())
    written = file.finish()
    return Stored(written.digest, written.size_bytes)


# ---- reading


def open_manifest(
    content: bytes, digest: str, identity: Identity, purpose: Purpose, fetch: Callable[[str], bytes], out: BinaryIO
) -> Header:
    """Write the lines of entries and the totals to `out`. Raises Corrupt for anything that is not this manifest."""
    pieces = streamed(checked(content, digest), digest, identity, LINES_BYTES_MAX)
    rest, text = b"", b""
    for piece in pieces:
        rest += piece
        if b"\n" in rest:
            text, _, rest = rest.partition(b"\n")
            break
    header = header_of(text)
    if header.purpose != purpose:
        raise damaged(f"it is one of {header.purpose.shown}, not of {purpose.shown}")
    for page in header.pages:
        for piece in streamed(checked(fetch(page), page), page, identity, LINES_BYTES_MAX):
            out.write(piece)
    out.write(rest)
    for piece in pieces:
        out.write(piece)
    return header
