"""Directories that are made beside the one they become, or only for a moment. A killed process leaves a hidden one."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from holdfast.adapters.sqlite.folder import sync_folder

OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT)
_SCRATCH, _STAGE = ".holdfast-hub-copy-", ".holdfast-hub-restore-"


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


def clear(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)


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


def _sweep(above: str, prefix: str) -> None:
    """What killed processes left; a running one keeps its own."""
    with suppress(OSError):
        for name in os.listdir(above):
            pid = name.removeprefix(prefix).partition("-")[0]
            if name.startswith(prefix) and not os.path.exists(f"/proc/{pid}"):
                clear(os.path.join(above, name))
