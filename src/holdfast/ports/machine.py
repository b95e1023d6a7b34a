"""The machine that a process runs on: its size and load, its architecture, and the room on its disks."""

from collections.abc import Sequence
from typing import Protocol

from holdfast.model.disk_room import DiskRoom
from holdfast.model.report import Facts


class Machine(Protocol):
    def facts(self) -> Facts: ...

    def arch(self) -> str: ...

    def boot(self) -> str:
        """The id of the current boot: another one after each boot. "" if it is not known."""
        ...

    def disks(self) -> Sequence[DiskRoom]:
        """Of the directories that this program uses, the most important first. May block as long as a disk does."""
        ...
