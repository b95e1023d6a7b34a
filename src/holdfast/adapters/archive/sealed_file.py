"""One stored object: zstd with a content checksum inside an age file, named by the digest of its bytes."""

import os
from collections.abc import Iterator
from hashlib import sha256
from itertools import chain
from mmap import mmap
from typing import IO, NamedTuple, cast

import zstandard

from holdfast.adapters.sealing import age_stream
from holdfast.errors import Corrupt
from holdfast.model.archive import OBJECT_BYTES_MAX
from holdfast.ports.sealing import CannotOpen

LEVEL = 3
WINDOW_MAX = 1 << 27
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 128 << 10  # what the library writes at once; more of it is put together by copies


class Written(NamedTuple):
    digest: str
    size_bytes: int


def compressor() -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)


class SealedFile:
    """Being written to `<folder>/<name>`; `finish` names it by its digest. One thread at a time."""

    def __init__(self, folder: str, name: str, recipient: str) -> None:
        self._folder, self._path = folder, os.path.join(folder, name)
        self._file = os.open(self._path, _WRITE, 0o600)
        self._hash, self._size = sha256(), 0
        self._seal = age_stream.Seal(recipient, self._write)

    def add(self, content: age_stream.Buffer) -> None:
        self._seal.add(content)

    def compress(self, content: memoryview, packer: zstandard.ZstdCompressor) -> None:
        """All of it as one frame."""
        frame = packer.compressobj(size=len(content))
        for at in range(0, len(content), _PIECE):
            self._seal.add(frame.compress(content[at : at + _PIECE]))
        self._seal.add(frame.flush())

    def finish(self) -> Written:
        self._seal.finish()
        del self._seal  # it has a buffer, and refers to this object
        os.close(self._file)
        digest = self._hash.hexdigest()
        os.rename(self._path, os.path.join(self._folder, digest))
        return Written(digest, self._size)

    def _write(self, content: age_stream.Buffer) -> None:
        self._hash.update(content)
        view = memoryview(content)
        self._size += len(view)
        while len(view):
            view = view[os.write(self._file, view) :]


# ---- reading


def checked(content: bytes, digest: str) -> bytes:
    if sha256(content).hexdigest() != digest:
        raise damaged(digest, "its bytes are not those that were stored")
    return content


class Room:
    """Buffers of one thread, used for one object after the other: fresh memory for each would cost as much time as
    opening it."""

    def __init__(self, plain_bytes_max: int) -> None:
        self._sealed = memoryview(mmap(-1, OBJECT_BYTES_MAX + 1))
        self._plain = memoryview(mmap(-1, plain_bytes_max))

    def opened(self, path: str, digest: str, identity: age_stream.Identity) -> memoryview:
        """The plaintext of the object in this file, until the next one is opened."""
        with open(path, "rb", 0) as file:
            size = file.readinto(self._sealed) or 0
        if size > OBJECT_BYTES_MAX:
            raise damaged(digest, f"it is longer than {OBJECT_BYTES_MAX:,} bytes")
        if sha256(self._sealed[:size]).hexdigest() != digest:
            raise damaged(digest, "its bytes are not those that were stored")
        try:
            return self._decompressed(identity.opened(self._sealed[:size]), digest)
        except CannotOpen:
            raise damaged(digest, "it is not sealed to the key of these backups, or changed") from None
        except zstandard.ZstdError as trouble:
            raise damaged(digest, f"it cannot be decompressed: {trouble}") from None

    def _decompressed(self, chunks: Iterator[bytes], digest: str) -> memoryview:
        first = next(chunks, b"")
        size = zstandard.frame_content_size(first)
        if not 0 <= size <= len(self._plain):
            raise damaged(digest, f"its content would be {size:,} bytes long; the limit is {len(self._plain):,}")
        source = _Chunks(chain((first,), chunks))
        unpacker = zstandard.ZstdDecompressor(max_window_size=WINDOW_MAX)
        reader = unpacker.stream_reader(cast(IO[bytes], source), age_stream.CHUNK_BYTES)
        end = 0
        while end < size and (done := reader.readinto(self._plain[end:size])):
            end += done
        if end < size or reader.read(1) or source.read(1):  # the checksum, and the end of the seal
            raise damaged(digest, "it is incomplete")
        return self._plain[:size]


class _Chunks:
    """A file of chunks. A read returns one, however much is asked for."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks

    def read(self, size: int = -1) -> bytes:
        return next(self._chunks, b"")


def streamed(content: bytes, digest: str, identity: age_stream.Identity, plain_bytes_max: int) -> Iterator[bytes]:
    """In pieces, as long as it is not longer than this."""
    reader = zstandard.ZstdDecompressor(max_window_size=WINDOW_MAX).decompressobj()
    size = 0
    try:
        for chunk in identity.opened(content):
            if reader.eof and chunk:
                raise damaged(digest, "it goes on after its end")
            for at in range(0, len(chunk), 4096):
                plain = reader.decompress(chunk[at : at + 4096])
                size += len(plain)
                if size > plain_bytes_max:
                    raise damaged(digest, f"its content is longer than {plain_bytes_max:,} bytes")
                yield plain
    except CannotOpen:
        raise damaged(digest, "it is not sealed to the key of these backups, or changed") from None
    except zstandard.ZstdError as trouble:
        raise damaged(digest, f"it cannot be decompressed: {trouble}") from None
    if not reader.eof or reader.unused_data:
        raise damaged(digest, "it is incomplete")


def damaged(digest: str, why: str) -> Corrupt:
    return Corrupt(
        f"the stored object {digest} is damaged: {why}",
        remedy="restore an older backup, or from another target; `holdfast status` shows what there is",
        code="archive_damaged",
    )
