"""Signed copies of passports in `<data-dir>/.passports/<service>/`: only root reads them, no container mounts them."""

import os
from contextlib import suppress
from hashlib import sha256
from urllib.parse import quote

from holdfast.adapters.storage import permission, tree

PLACE = ".passports"
SIZE_MAX = 1 << 16
_NAME_MAX = 120


def read(root: int, place: str) -> bytes | None:
    """None also for one that is unreadable: then it proves nothing."""
    service, name = _names(place)
    with suppress(OSError):
        shelf = _shelf(root, service, made=False)
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=shelf)
        finally:
            os.close(shelf)
        with os.fdopen(file, "rb") as text:
            return text.read(SIZE_MAX)
    return None


def keep(root: int, place: str, text: bytes) -> None:
    service, name = _names(place)
    shelf = _shelf(root, service, made=True)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name + ".new", flags, 0o600, dir_fd=shelf), "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        name_copy(shelf, name)
    finally:
        os.close(shelf)


def name_copy(shelf: int, name: str) -> None:
    """Give the written copy its name."""
    os.rename(name + ".new", name, src_dir_fd=shelf, dst_dir_fd=shelf)
    os.fsync(shelf)


def _names(place: str) -> tuple[str, str]:
    """Folder and file name; a long path is named by its digest."""
    service, _, rest = place.partition("/")
    name = quote(rest, safe="") or "."
    if name.startswith(".") or len(name) > _NAME_MAX:
        name = sha256(rest.encode()).hexdigest()
    return permission.check_name(service), name + ".json"


def _shelf(root: int, service: str, made: bool) -> int:
    above = tree.made(PLACE, root, 0o700) if made else tree.opened(PLACE, root)
    try:
        return tree.made(service, above, 0o700) if made else tree.opened(service, above)
    finally:
        os.close(above)
