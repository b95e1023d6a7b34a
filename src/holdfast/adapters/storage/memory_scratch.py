"""Directories for drills in memory, for tests."""

from collections.abc import Sequence

from holdfast.adapters.storage import memory, permission
from holdfast.errors import Conflict
from holdfast.ports.runtime import ImageDirectory
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

    def lacks(self, proof: Drillable, place: str) -> bool:
        names = self.contents[proof.id]
        is_there = any(name == place or name.startswith(place + "/") for name in names)
        return bool(place) and "/" not in place and not is_there

    def volume(self, proof: Drillable, place: str, image: ImageDirectory | None = None, owner: str = "") -> str:
        files = self.contents[proof.id]
        if not place:
            return self.path(proof.id)
        if any(part in ("", ".", "..") for part in place.split("/")):
            raise permission.not_ours(f"{place} is not a plain path")
        if image is not None and self.lacks(proof, place):
            files.update(memory.unpacked(image, place)[0])
        if place not in files:
            files.setdefault(f"{place}/", b"")
        return f"{self.path(proof.id)}/{place}"

    def found(self) -> Sequence[str]:
        return sorted(self.contents)

    def clear(self, proof: Clearable) -> None:
        if self.contents.pop(permission.check_id(proof.id), None) is not None:
            self.cleared.append(proof.id)
