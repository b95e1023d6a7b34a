"""Directories for drills in memory, for tests."""

from collections.abc import Sequence

from holdfast.adapters.storage import permission
from holdfast.errors import Conflict
from holdfast.ports.scratch import Clearable, Drillable

PLACE = "/memory/.drills"


class MemoryScratch:
    """`contents` is the disk: id → its files; a name that ends in "/" is a directory."""

    def __init__(self) -> None:
        self.contents: dict[str, dict[str, bytes]] = {}
        self.room = 1 << 40
        self.cleared: list[str] = []

    def path(self, id: str) -> str:
        return f"{PLACE}/{permission.check_id(id)}"

    def room_bytes(self) -> int:
        return self.room

    def make(self, proof: Drillable) -> str:
        if proof.id in self.contents:
            raise Conflict(f"{self.path(proof.id)} is there already", remedy="look at it", code="scratch_exists")
        self.contents[proof.id] = {}
        return self.path(proof.id)

    def volume(self, proof: Drillable, place: str) -> str:
        files = self.contents[proof.id]
        if not place:
            return self.path(proof.id)
        if any(part in ("", ".", "..") for part in place.split("/")):
            raise permission.not_ours(f"{place} is not a plain path")
        if place not in files:
            files.setdefault(f"{place}/", b"")
        return f"{self.path(proof.id)}/{place}"

    def found(self) -> Sequence[str]:
        return sorted(self.contents)

    def clear(self, proof: Clearable) -> None:
        if self.contents.pop(permission.check_id(proof.id), None) is not None:
            self.cleared.append(proof.id)
