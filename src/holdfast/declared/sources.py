"""Read the files of a fleet, within limits per file and in total. An unreadable file becomes a flaw."""

from collections.abc import Iterable

from holdfast.declared.flaw import Flaws
from holdfast.ports.fleet_directory import REFUSALS, Entry, FleetDirectory, Unreadable

KIB, MIB = 1024, 1024 * 1024
FILE_BYTES_MAX = MIB  # fleet.toml, a policy
SERVICE_BYTES_MAX = 256 * KIB
TOTAL_BYTES_MAX = 64 * MIB


class Sources:
    """`contents` keeps what was read, so that a mistake found later can still get its line."""

    def __init__(self, directory: FleetDirectory, flaws: Flaws) -> None:
        self.directory = directory
        self._flaws = flaws
        self._total_bytes = 0
        self.contents: dict[str, bytes] = {}

    def entries(self, directory: str) -> tuple[Entry, ...]:
        try:
            return self.directory.entries(directory)
        except Unreadable as trouble:
            self._flaws.add(trouble.path, (), trouble.what, trouble.remedy)
            return ()

    def fit(self, directory: str, entries: Iterable[Entry], bytes_max: int) -> bool:
        """Whether these may be read in addition to what was read already; called before the first one is opened.

        A file over its own limit counts as that limit: it is refused alone, and the others are still read."""
        self._total_bytes += sum(min(entry.size_bytes, bytes_max) for entry in entries)
        if self._total_bytes <= TOTAL_BYTES_MAX:
            return True
        self._flaws.add(
            directory,
            (),
            f"brings the fleet to {self._total_bytes:,} bytes; the limit is {TOTAL_BYTES_MAX:,} bytes",
            "check that this is the right directory",
        )
        return False

    def read(self, entry: Entry, bytes_max: int) -> bytes | None:
        if entry.kind != "file":
            what, remedy = REFUSALS[entry.kind]
            self._flaws.add(entry.path, (), what, remedy)
            return None
        try:
            content = self.directory.read(entry.path, bytes_max)
        except Unreadable as trouble:
            self._flaws.add(entry.path, (), trouble.what, trouble.remedy)
            return None
        self.contents[entry.path] = content
        return content
