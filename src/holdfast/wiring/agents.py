"""Agents of this machine, by state directory."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.wiring.agent import SystemAgent
    from holdfast.wiring.cli import SystemToolbox


class SystemAgents:
    def __init__(self, box: "SystemToolbox") -> None:
        self._box = box

    def at(self, state_dir: str) -> "SystemAgent":
        from holdfast.wiring.agent import SystemAgent

        return SystemAgent(state_dir, self._box)
