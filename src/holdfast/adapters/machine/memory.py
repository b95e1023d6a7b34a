"""A machine with fixed values, for tests."""

from collections.abc import Sequence

from holdfast.model.disk_room import DiskRoom
from holdfast.model.report import Facts


class MemoryMachine:
    def __init__(self, facts: Facts | None = None, arch: str = "x86_64") -> None:
        self._facts = facts or Facts(2000, 4 << 30, 2 << 30, 100 << 30, 50 << 30)
        self._arch = arch
        self.booted = "first boot"
        self.rooms = [DiskRoom("data", "/srv", 1, 50 << 30, 50 << 30, 1_000, 1_000_000)]

    def facts(self) -> Facts:
        return self._facts

    def arch(self) -> str:
        return self._arch

    def boot(self) -> str:
        return self.booted

    def disks(self) -> Sequence[DiskRoom]:
        return tuple(self.rooms)
