"""The state directory of a hub as one compressed archive, and back. Seals nothing: that is done outside."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import IO, Protocol

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
    """No verb holds a file in memory."""

    def packed(
        self, state_dir: str, describe: Callable[[str, Mapping[str, Part]], About]
    ) -> AbstractContextManager[IO[bytes]]:
        """A consistent copy, whether or not a hub is running. `describe` gets the directory of the copy and its files;
        what it returns comes first in the archive, which can be read until the context ends."""
        ...

    def unpacked(self, fill: Callable[[IO[bytes]], None], state_dir: str) -> AbstractContextManager[Staged]:
        """`fill` writes the archive. It is checked against what it says about itself. Leaves nothing behind unless it
        was published. Raises Corrupt for a damaged archive, Conflict if the state directory exists and is not empty."""
        ...

    def stored(self, path: str, fill: Callable[[IO[bytes]], None]) -> int:
        """What `fill` writes, as a file that did not exist: whole and durable, or not there. Answers its size. Raises
        Conflict if it exists."""
        ...

    def opened(self, path: str) -> AbstractContextManager[IO[bytes]]:
        """A sealed file. Raises Invalid if it is not there, is no file, or is longer than a file of a hub."""
        ...
