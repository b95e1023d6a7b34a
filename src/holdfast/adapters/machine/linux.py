"""Facts of the Linux machine, from /proc and its file systems. A value that cannot be read is 0 or left out."""

import os
from collections.abc import Mapping, Sequence

from holdfast.adapters.process.boot import boot_id
from holdfast.model.disk_room import DiskRoom
from holdfast.model.report import Facts

STORAGE_FILES = ("/etc/containers/storage.conf", "/usr/share/containers/storage.conf")


class LinuxMachine:
    """Does not report the number of running containers."""

    def __init__(self, data_dir: str, meminfo: str = "/proc/meminfo", disks: Mapping[str, str] | None = None) -> None:
        """`disks`: what each watched directory is for, and its path."""
        self._data_dir = data_dir
        self._meminfo = meminfo
        self._disks = dict(disks or {})

    def facts(self) -> Facts:
        memory = self._memory()
        disk_bytes, disk_free_bytes = self._disk()
        return Facts(
            cpu_millicores=1000 * len(os.sched_getaffinity(0)),
            memory_bytes=memory.get("MemTotal", 0),
            memory_free_bytes=memory.get("MemAvailable", 0),
            disk_bytes=disk_bytes,
            disk_free_bytes=disk_free_bytes,
        )

    def arch(self) -> str:
        return os.uname().machine

    def boot(self) -> str:
        return boot_id()

    def disks(self) -> Sequence[DiskRoom]:
        rooms = (_room(name, path) for name, path in self._disks.items())
        return tuple(room for room in rooms if room is not None)

    def _memory(self) -> dict[str, int]:
        found: dict[str, int] = {}
        try:
            with open(self._meminfo, "rb") as file:
                for line in file.read(1024).split(b"\n")[:4]:
                    name, _, rest = line.partition(b":")
                    number = rest.split()[:1]
                    if number and number[0].isdigit():
                        found[name.decode("ascii", "replace")] = int(number[0]) * 1024
        except OSError:
            return {}
        return found

    def _disk(self) -> tuple[int, int]:
        try:
            about = os.statvfs(_there(self._data_dir))
        except OSError:
            return 0, 0
        return about.f_frsize * about.f_blocks, about.f_frsize * about.f_bavail


def _there(path: str) -> str:
    """A directory may not exist yet; a parent on the same file system does."""
    while True:
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            if path in ("/", "."):
                raise
            path = os.path.dirname(path) or "."
        else:
            return path


def _room(name: str, path: str) -> DiskRoom | None:
    try:
        there = _there(path)
        about, device = os.statvfs(there), os.stat(there).st_dev
    except OSError:
        return None
    return DiskRoom(
        name,
        path,
        device,
        about.f_frsize * (about.f_blocks - about.f_bfree),
        about.f_frsize * about.f_bavail,
        about.f_files - about.f_ffree,
        about.f_favail,
    )


def container_storage(files: Sequence[str] = STORAGE_FILES) -> str:
    """Where podman keeps images and containers, by the first of its settings that names a place."""
    import tomllib

    for file in files:
        try:
            with open(file, "rb") as settings:
                found = tomllib.load(settings).get("storage", {}).get("graphroot")
        except (OSError, ValueError, AttributeError):
            continue
        if isinstance(found, str) and found.startswith("/"):
            return found
    return "/var/lib/containers/storage"
