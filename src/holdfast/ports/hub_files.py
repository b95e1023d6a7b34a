"""The state directory of a hub as one compressed archive, and back. Seals nothing: that is done outside."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from holdfast.model.hub_file import About, Part


class Staged(Protocol):
    """A state directory that is not yet where it belongs."""

    @property
    def folder(self) -> str: ...

    @property
    def about(self) -> About: ...

    def publish(self) -> None:
        """Flush it and give it its name, in one step: a killed process leaves all of it or nothing."""
        ...


class HubFiles(Protocol):
    def packed(self, state_dir: str, describe: Callable[[str, Mapping[str, Part]], About]) -> bytes:
        """A consistent copy, whether or not a hub is running. `describe` gets the directory of the copy and its files;
        what it returns comes first in the archive."""
        ...

    def unpacked(self, content: bytes, state_dir: str) -> AbstractContextManager[Staged]:
        """Checked against what the archive says about itself. Leaves nothing behind unless it was published. Raises
        Corrupt for a damaged archive, Conflict if the state directory exists and is not empty."""
        ...
