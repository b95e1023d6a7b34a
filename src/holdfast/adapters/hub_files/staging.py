"""Directories that are made beside the one they become, or only for a moment. A killed process leaves a hidden one."""

import errno
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO

from holdfast.adapters.sqlite.folder import sync_folder

OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT)
STRAY_S = 24 * 3600.0
_SCRATCH, _STAGE, _FILE = ".holdfast-hub-copy-", ".holdfast-hub-restore-", ".holdfast-hub-file-"


class Exists(OSError):
    """A state directory that has something in it."""


class IsMount(OSError):
    """A state directory that cannot be renamed over."""


@contextmanager
def scratch(state_dir: str) -> Iterator[str]:
    """In the state directory: it has the room, and its rights."""
    _sweep(state_dir, _SCRATCH)
    folder = tempfile.mkdtemp(prefix=f"{_SCRATCH}{os.getpid()}-", dir=state_dir)
    try:
        yield folder
    finally:
        clear(folder)


def refuse_existing(path: str) -> None:
    if os.path.lexists(path) and not os.path.isdir(path):
        raise Exists
    if os.path.isdir(path) and os.listdir(path):
        raise Exists
    if os.path.ismount(path):
        raise IsMount


def begin(path: str) -> str:
    above = os.path.dirname(path)
    _make_above(above)
    _sweep(above, _STAGE)
    return tempfile.mkdtemp(prefix=f"{_STAGE}{os.getpid()}-", dir=above)


def publish(folder: str, path: str) -> None:
    _give(folder, path)
    for name in sorted(os.listdir(folder)):
        handle = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    sync_folder(folder)
    refuse_existing(path)
    os.rename(folder, path)  # over nothing, or over an empty directory
    sync_folder(os.path.dirname(path))


def store(path: str, fill: Callable[[IO[bytes]], None]) -> int:
    """A file under a hidden name, and then under its own. Not by a hard link: some disks have none."""
    above = os.path.dirname(path)
    _sweep(above, _FILE, STRAY_S)
    handle, hidden = tempfile.mkstemp(prefix=f"{_FILE}{os.getpid()}-", dir=above)
    try:
        with open(handle, "wb") as file:
            fill(file)
            file.flush()
            os.fsync(handle)
            size = file.tell()
        if os.path.lexists(path):
            raise FileExistsError
        os.rename(hidden, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(hidden)
        raise
    sync_folder(above)
    return size


@contextmanager
def opened(path: str, bytes_max: int) -> Iterator[IO[bytes]]:
    """Never waits for the writer of a pipe."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_CLOEXEC)) as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_size > bytes_max:
            raise OSError("it is no file of a hub")
        yield file


def clear(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            os.unlink(path)


def _make_above(path: str) -> None:
    """Every user may enter directories above a state directory (cli/state_directory.py)."""
    if not os.path.isdir(path):
        _make_above(os.path.dirname(path))
        os.mkdir(path, 0o755)


def _give(folder: str, path: str) -> None:
    """To the owner of the empty directory that it replaces, if root restores it: the hub runs as that user."""
    if os.geteuid() != 0 or not os.path.isdir(path):
        return
    owner = os.stat(path)
    for name in (*os.listdir(folder), "."):
        os.chown(os.path.join(folder, name), owner.st_uid, owner.st_gid, follow_symlinks=False)


def _sweep(above: str, prefix: str, age_s: float = 0.0) -> None:
    """What killed processes left; a running one keeps its own. `age_s`: in a directory that another machine may use,
    whose processes are not seen here."""
    with suppress(OSError):
        for name in os.listdir(above):
            if name.startswith(prefix) and _is_left(name.removeprefix(prefix), os.path.join(above, name), age_s):
                clear(os.path.join(above, name))


def _is_left(words: str, path: str, age_s: float) -> bool:
    pid = words.partition("-")[0]
    ended = pid.isdecimal() and not os.path.exists(f"/proc/{pid}")
    return ended and time.time() - os.lstat(path).st_mtime >= age_s
