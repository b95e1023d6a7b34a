"""What a run of packing has met so far: counted for the manifest, named for the result, told now and then."""

import os
import time

from holdfast.adapters.archive.messages import Channel, Told
from holdfast.adapters.archive.packs import weight
from holdfast.model.archive import Entry, spelled
from holdfast.ports.archive import Progress

NAMED_MAX = 20
TOLD_EVERY_S = 0.5


class Account:
    def __init__(self, channel: Channel, total_bytes: int) -> None:
        self._channel, self._total_bytes = channel, total_bytes
        self.entries = self.files = self.size_bytes = self.stored_bytes = 0
        self.live: dict[str, int] = {}
        self.left_out: list[str] = []
        self.unsettled_names: list[str] = []
        self.vacuumed_names: list[str] = []
        self._done_files = self._done_bytes = 0
        self._told_s = time.monotonic()

    def count(self, entry: Entry) -> None:
        self.entries += 1
        if entry.type != "dir":
            self.files += 1
        if not entry.parts:
            self.progress(1, entry.size)
        if entry.link:
            return
        self.size_bytes += entry.size
        self.stored_bytes += sum(length for _, length in entry.data) if entry.data else entry.size
        if entry.pack:
            self.live[entry.pack] = self.live.get(entry.pack, 0) + weight(entry.size)
        for part in entry.parts:
            if part.pack:
                self.live[part.pack] = self.live.get(part.pack, 0) + weight(part.size)

    def progress(self, files: int, size_bytes: int) -> None:
        self._done_files += files
        self._done_bytes += size_bytes
        now_s = time.monotonic()
        if now_s - self._told_s >= TOLD_EVERY_S:
            self._told_s = now_s
            self._channel.say(Told(Progress(self._done_files, self._done_bytes, self._total_bytes)))

    def leave_out(self, path: str) -> None:
        _name(self.left_out, spelled(os.fsencode(path)))

    def unsettled(self, path: str) -> None:
        _name(self.unsettled_names, path)

    def vacuumed(self, path: str) -> None:
        _name(self.vacuumed_names, path)


def _name(names: list[str], path: str) -> None:
    if len(names) < NAMED_MAX:
        names.append(path[:200])
