"""A file that describes the running agent and its address; removed when the agent stops. No code trusts it."""

import os
from contextlib import suppress

import msgspec

from holdfast.ports.disk import Disk


class Presence:
    """agent-NODE.json, so that several agents can share a directory. World-readable: it contains no secret."""

    def __init__(self, directory: str, node: str, about: dict[str, object], disk: Disk) -> None:
        self._directory = directory
        self._path = os.path.join(directory, f"agent-{node}.json")
        self._about = {"node": node, "pid": os.getpid(), **about}
        self._disk = disk
        self._made = not os.path.isdir(directory)

    def tell(self, listening: str = "") -> None:
        self._disk.make_directory(self._directory, 0o755)
        self._disk.replace(self._path, msgspec.json.encode({**self._about, "listening": listening}) + b"\n", 0o644)

    def leave(self) -> None:
        with suppress(OSError):
            os.unlink(self._path)
            if self._made:  # fails, and may, if the directory is not empty
                os.rmdir(self._directory)
