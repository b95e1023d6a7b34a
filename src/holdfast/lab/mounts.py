"""Mounts as /proc shows them: below a directory, and in other processes."""

import os

from msgspec import Struct


class Mount(Struct, frozen=True):
    """`root` is the mounted directory's path in its own file system, `device` identifies that file system."""

    device: str
    root: str
    target: str


def of_process(pid: int | str) -> list[Mount]:
    try:
        with open(f"/proc/{pid}/mountinfo", "rb") as file:
            fields = [line.split(b" ") for line in file]
    except OSError:  # ended meanwhile, or a zombie
        return []
    return [Mount(words[2].decode(), _plain(words[3]), _plain(words[4])) for words in fields]


def _plain(word: bytes) -> str:
    """The kernel writes spaces and backslashes as three octal digits."""
    if b"\\" not in word:
        return os.fsdecode(word)
    for code in (b"\\040", b"\\011", b"\\012", b"\\134"):
        word = word.replace(code, bytes([int(code[1:], 8)]))
    return os.fsdecode(word)


def below(path: str) -> list[str]:
    return [mount.target for mount in of_process("self") if _is_below(mount.target, path)]


def origin(path: str) -> tuple[str, str]:
    """Device and path in its file system: how a directory appears in any process's list of mounts."""
    around = [mount for mount in of_process("self") if mount.target == path or _is_below(path, mount.target)]
    nearest = max(around, key=lambda mount: len(mount.target))  # of equals the last, which hides the others
    relative = os.path.relpath(path, nearest.target)
    return nearest.device, os.path.normpath(os.path.join(nearest.root, relative))


def shows(pid: int, device: str, root: str) -> bool:
    """Whether the process has a directory below this one mounted."""
    return any(mount.device == device and _is_below(mount.root, root) for mount in of_process(pid))


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/") and path != folder
