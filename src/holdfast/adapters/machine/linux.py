"""Facts of the Linux machine, from /proc and the data file system. A value that cannot be read is 0."""

import os

from holdfast.model.report import Facts


class LinuxMachine:
    """Does not report the number of running containers."""

    def __init__(self, data_dir: str, meminfo: str = "/proc/meminfo") -> None:
        self._data_dir = data_dir
        self._meminfo = meminfo

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
        path = self._data_dir
        while path:  # the data directory may not exist yet; a parent on the same file system does
            try:
                about = os.statvfs(path)
            except FileNotFoundError:
                path = os.path.dirname(path) if path != "/" else ""
            except OSError:
                return 0, 0
            else:
                return about.f_frsize * about.f_blocks, about.f_frsize * about.f_bavail
        return 0, 0
