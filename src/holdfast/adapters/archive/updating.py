"""Updating: a directory that has an earlier tree is brought to a later manifest; only what differs is touched.

Before anything is touched, `home` durably has both manifests (kept.py). Runs in the archiver process.
"""

import os
from functools import partial

from holdfast.adapters.archive import kept
from holdfast.adapters.archive.delta import Delta
from holdfast.adapters.archive.kept import Kept, Lines
from holdfast.adapters.archive.messages import Channel
from holdfast.adapters.archive.renewing import Renewed
from holdfast.adapters.archive.unpacking import Opened, check_room, failed
from holdfast.model.archive import Entry, damaged, spoken
from holdfast.ports.archive import Unpacked, UnpackJob


def update(job: UnpackJob, channel: Channel) -> Unpacked:
    olds = kept.opened(job.home)
    top = os.open(job.top, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check_top(top, olds)
        opened = Opened(job, channel, partial(Delta, olds=olds, kept_as=os.path.join(job.home, kept.NEXT)))
        try:
            return _updated(job, opened, olds, top)
        except OSError as trouble:
            raise failed(job.top, trouble) from trouble
        finally:
            opened.close()
    finally:
        os.close(top)


def _updated(job: UnpackJob, opened: Opened[Delta], olds: list[Lines], top: int) -> Unpacked:
    delta = opened.contents
    _check_links(delta)
    check_room(top, job.top, delta.totals, olds[0].totals)
    about = os.fstat(top)
    name = kept.begin(job.home, Kept(job.digest, opened.header.part_bytes, about.st_ino), olds)
    os.fchmod(top, 0o700)
    target = Renewed(top, opened.header.part_bytes, is_sure=len(olds) == 1)
    try:
        _remove(delta, target)
        _write(delta, opened, target)
        for entry in delta.entries(delta.links):
            target.link(entry)
        for entry in delta.entries(delta.symlinks):
            target.symlink(entry)
        directories = _directories(delta)
        for entry in directories.values():
            target.dress_directory(entry)
        _sync(delta, target, directories)
    finally:
        target.close()
    kept.complete(job.home, name)
    return opened.unpacked()


def _check_top(top: int, olds: list[Lines]) -> None:
    """Not all of the tree is looked at; but another directory, or one that was emptied, is noticed."""
    about = os.fstat(top)
    root = olds[0].find(b"", True)
    if about.st_ino != olds[0].kept.inode or root is None:
        raise kept.other("it is another one than before")
    if len(olds) == 1 and about.st_mtime_ns != root.mtime_ns:
        raise kept.other("something else changed it meanwhile")


def _check_links(delta: Delta) -> None:
    for entry in delta.entries(delta.links):
        first = delta.new.find(spoken(entry.link), False)
        if first is None or first.type != "file" or first.link:
            raise damaged(f"{entry.path[:80]!r} is a link to a file that the archive does not have")


def _remove(delta: Delta, target: Renewed) -> None:
    """What is in a directory before the directory."""
    for lines, place in reversed(delta.removed):
        target.remove(lines.entry(place))
    target.close()  # handles of directories that are gone


def _write(delta: Delta, opened: Opened[Delta], target: Renewed) -> None:
    for entry in delta.entries(delta.directories):
        target.directory(entry)
    for place in delta.long:
        target.begin_long(delta.entry(place), delta.parts.get(place))
    opened.each_pack(target.put, list(delta.packs))
    for entry in delta.entries(delta.bare):
        target.file(entry, memoryview(b""))
    for places in (delta.long, delta.dressed):
        for entry in delta.entries(places):
            target.dress(entry)


def _directories(delta: Delta) -> dict[bytes, Entry]:
    """Those whose own line is new, and those in which names were made or removed, which changed their times."""
    found = {
        spoken(entry.path): entry
        for places in (delta.directories, delta.dressed_directories)
        for entry in delta.entries(places)
    }
    for path in delta.touched - found.keys():
        if (entry := delta.new.find(path, True)) is not None:  # else it is gone, too
            found[path] = entry
    return found


def _sync(delta: Delta, target: Renewed, directories: dict[bytes, Entry]) -> None:
    written = [*delta.long, *delta.bare, *delta.dressed]
    written += [place for places in delta.packs.values() for place in places if not delta.entry(place).parts]
    files = (spoken(entry.path) for entry in map(delta.entry, written))
    target.sync(files, directories, len(written) + len(directories))
