"""A lab on this machine: create it, inject faults, inspect it, remove it without a trace."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from holdfast.model.lab import LabStatus


class Lab(Protocol):
    """One directory, one lab. Every verb but `up` and `down` needs a lab that is up."""

    def up(self, nodes: str, bare: bool) -> None:
        """Returns once every node is enrolled and healthy; a lab that is already up is only reported."""
        ...

    def down(self) -> None:
        """Leaves no process, namespace, mount, link or file, whatever happened before."""
        ...

    def status(self) -> LabStatus: ...

    def cuts(self) -> tuple[tuple[str, str], ...]:
        """Which nodes are cut from which; an empty second name means all other nodes."""
        ...

    def variables(self) -> Mapping[str, str]:
        """The environment variables that point every command at this lab."""
        ...

    def run_inside(self, node: str, command: Sequence[str]) -> int:
        """The command's own exit code; it has the caller's terminal, paths and working directory."""
        ...

    def curl(self, url: str, arguments: Sequence[str]) -> int: ...

    def cut(self, node: str, other: str | None) -> None: ...

    def heal(self) -> None: ...

    def kill(self, target: str, agent_only: bool) -> None: ...

    def start(self, target: str) -> None: ...

    def fast(self) -> None: ...

    def load_image(self, file: str) -> tuple[str, ...]:
        """The names in the lab's registry."""
        ...

    def build_image(self, directory: str, name: str | None) -> tuple[str, ...]: ...
