"""One plain tar.zst of a whole archive, for any tar: files pack by pack, long files, links, and directories last."""

import os
import threading
from collections.abc import Callable

import zstandard

from holdfast.adapters.archive import member
from holdfast.adapters.archive.contents import Contents
from holdfast.adapters.archive.messages import Channel
from holdfast.adapters.archive.sealed_file import LEVEL
from holdfast.adapters.archive.unpacking import THREADS, Opened
from holdfast.errors import Failed
from holdfast.model.archive import Entry, spoken
from holdfast.ports.archive import Unpacked, UnpackJob

_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

Write = Callable[[bytes | memoryview], object]


def export(job: UnpackJob, path: str, channel: Channel) -> Unpacked:
    opened = Opened(job, channel, Contents)
    try:
        file = os.open(path, _MAKE, 0o600)
        with os.fdopen(file, "wb") as raw:
            packer = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True, threads=THREADS)
            with packer.stream_writer(raw, closefd=False) as out:
                _tar(opened, out.write)
            raw.flush()
            os.fsync(file)
    except OSError as trouble:
        raise Failed(
            f"{path} cannot be written: {trouble.strerror or trouble}",
            remedy="choose another file, on a disk with more room: `df -h` shows it",
            code="export_unwritable",
        ) from trouble
    finally:
        opened.close()
    return opened.unpacked()


def _tar(opened: Opened[Contents], write: Write) -> None:
    contents, lock = opened.contents, threading.Lock()

    def put(entry: Entry, number: int, content: memoryview) -> None:
        if number >= 0:
            return  # below, in order
        with lock:
            _file(entry, write)
            write(content)
            write(bytes(member.padding(entry.size)))

    opened.each_pack(put, [digest for digest in contents.packs if digest in contents.whole])
    for entry in contents.entries(contents.bare):
        _file(entry, write)
    for entry in contents.entries(contents.long):
        _file(entry, write)
        for number, part in enumerate(entry.parts):
            write(opened.part(entry, number) if part.pack else bytes(part.size))
        write(bytes(member.padding(entry.size)))
    for entry in contents.entries(contents.symlinks):
        write(_head(entry, member.SYMLINK))
    for entry in contents.entries(contents.links):
        write(_head(entry, member.HARD_LINK))
    for entry in contents.entries(contents.directories):  # last: what is made in one changes its time
        write(_head(entry, member.DIRECTORY))
    write(member.END)


def _file(entry: Entry, write: Write) -> None:
    write(_head(entry, member.FILE))


def _head(entry: Entry, kind: bytes) -> bytes:
    name = (spoken(entry.path) or b".") + (b"/" if kind == member.DIRECTORY else b"")
    return member.header(
        entry, name, kind, entry.size if kind == member.FILE else 0, spoken(entry.target or entry.link)
    )
