"""The set of routes that the running proxy acknowledged, on disk, so that the next agent knows it."""

import os
from collections.abc import Mapping

import msgspec
from msgspec import Raw, Struct

from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.proxy.envoy.files import Written, replace
from holdfast.ports.proxy import Backend, Listening, ProxyRoute

STATE = "state.json"
STATE_BYTES_MAX = 64 << 20


class Lingering(Struct, frozen=True):
    """A cluster without a route; requests and connections to it may still finish."""

    cluster: Raw
    backends: tuple[Backend, ...]
    passed: bool  # L4: its connections count, not requests
    since_s: float


class State(Struct, frozen=True):
    listening: Listening
    routes: tuple[ProxyRoute, ...]  # those that are served: without routes whose port another process holds
    files: Mapping[str, Written]
    expected: Mapping[str, str]  # the versions that Envoy reports while all of this is loaded
    lingering: Mapping[str, Lingering] = {}


class StateFile:
    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, STATE)
        self._disk = PosixDisk()
        self._read: tuple[tuple[int, int, int], State | None] | None = None

    def load(self) -> State | None:
        """None if it is missing or unreadable: then nothing is known, and the next set is written completely."""
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        mark = (found.st_ino, found.st_size, found.st_mtime_ns)
        if self._read is None or self._read[0] != mark:
            self._read = (mark, self._decoded())
        return self._read[1]

    def _decoded(self) -> State | None:
        try:
            return msgspec.json.decode(self._disk.read(self._path, STATE_BYTES_MAX) or b"", type=State)
        except msgspec.DecodeError:
            return None

    def save(self, state: State) -> None:
        """Not flushed: without it the next set is written completely."""
        replace(self._path, msgspec.json.encode(state))
        found = os.stat(self._path)
        self._read = ((found.st_ino, found.st_size, found.st_mtime_ns), state)
