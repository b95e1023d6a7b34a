"""Labs of this machine."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.ports.lab import Lab
    from holdfast.wiring.cli import SystemToolbox


class SystemLabs:
    def __init__(self, box: "SystemToolbox") -> None:
        self._box = box

    def at(self, directory: str) -> "Lab":
        from holdfast.lab.laboratory import Laboratory

        return Laboratory(directory, self._box.terminal.remark)
