"""Check that a hub serves the expected fleet when there is no fleet.lock.

A chain only proves that it follows from its own first trust, and any key can found a fleet. So a chain alone does not
prove that it belongs to this directory or this hub: notes of earlier visits and the declared operators do.
"""

import os
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from holdfast.errors import Corrupt
from holdfast.model import trust
from holdfast.model.fleet import Operator, Thresholds
from holdfast.model.trust import Trust

if TYPE_CHECKING:
    from holdfast.ports.disk import Disk

FILE_NAME = "fleet.toml"
FILE_BYTES_MAX = 1024 * 1024
NOTE_BYTES_MAX = 8192


class Note(Struct, frozen=True):
    """`place` is a directory or the URL of a hub."""

    place: str
    fleet: str


class KnownHubs:
    """One small file per place, beside the heads seen."""

    def __init__(self, disk: "Disk", fleet_dir: str, state_dir: str, hub: str) -> None:
        self._disk = disk
        self._fleet_dir = fleet_dir
        self._state_dir = state_dir
        self._hub = hub

    def check(self, fleet: str, applied: Trust, seen_before: bool) -> None:
        """For use without fleet.lock. `seen_before`: this machine has verified this fleet already."""
        found = False
        for place in self._places():
            met = self._met(place)
            if met and met != fleet:
                raise _other(place, met, fleet, self._path(place))
            found = found or bool(met)
        if not found and not seen_before:
            declared = self._declared()
            if declared is not None and declared != applied:
                raise _stranger(fleet, declared, applied)

    def met(self, fleet: str) -> None:
        for place in self._places():
            if self._met(place) != fleet:
                self._disk.make_directory(os.path.dirname(self._path(place)))
                self._disk.replace(self._path(place), msgspec.json.encode(Note(place, fleet)))

    def _places(self) -> list[str]:
        """The directory and the hub. If a hub is named, a directory without fleet.toml belongs to no fleet: commands
        for two fleets may be run from it."""
        file = self._file()
        settings = file.get("fleet") if file is not None else None
        declared = settings.get("hub", "") if isinstance(settings, dict) else ""
        hub = self._hub or (declared if isinstance(declared, str) else "")
        if hub and "://" not in hub:
            hub = os.path.abspath(hub)
        return [*([self._fleet_dir] if file is not None or not hub else []), *([hub] if hub else [])]

    def _met(self, place: str) -> str:
        content = self._disk.read(self._path(place), NOTE_BYTES_MAX)
        if content is None:
            return ""
        try:
            return msgspec.json.decode(content, type=Note).fleet
        except (msgspec.DecodeError, UnicodeDecodeError) as trouble:
            path = self._path(place)
            raise Corrupt(
                f"the note about {place} cannot be read: {trouble}",
                remedy=f"get the fleet.lock of this fleet (`git pull`), then remove {path}",
                code="memory_damaged",
            ) from trouble

    def _path(self, place: str) -> str:
        return os.path.join(self._state_dir, "places", sha256(place.encode()).hexdigest() + ".json")

    def _file(self) -> dict[str, Any] | None:
        from holdfast.declared import toml_file

        content = self._disk.read(os.path.join(self._fleet_dir, FILE_NAME), FILE_BYTES_MAX)
        if content is None:
            return None
        try:
            return toml_file.fleet_document(content)
        except toml_file.NotToml:
            return {}  # commands that need the directory report the error

    def _declared(self) -> Trust | None:
        """None without operators: then the directory does not identify a fleet."""
        file = self._file() or {}
        if not file.get("operators"):
            return None
        try:
            operators = msgspec.convert(file["operators"], tuple[Operator, ...])
            return trust.of(operators, msgspec.convert(file.get("trust", {}), Thresholds))
        except msgspec.ValidationError:
            return Trust(())  # equals no applied trust


def _other(place: str, met: str, found: str, path: str) -> Corrupt:
    return Corrupt(
        f"{place} served fleet {met[:12]}… before; now the hub serves fleet {found[:12]}…, and there is no fleet.lock",
        remedy="restore the fleet.lock of this fleet (`git checkout fleet.lock`) and check --hub; only if this fleet "
        f"was founded again on purpose: remove {path}",
        code="other_fleet",
    )


def _stranger(fleet: str, declared: Trust, applied: Trust) -> Corrupt:
    ours, theirs = _names(declared), _names(applied)
    return Corrupt(
        f"nothing proves that fleet {fleet[:12]}… is the one of this directory: there is no fleet.lock, and "
        f"[[operators]] and [trust] of fleet.toml ({ours}) are not those of that fleet ({theirs})",
        remedy="get the fleet.lock that belongs to this directory (`git pull`, or from a colleague); without one, ask "
        "a colleague to confirm the applied [[operators]] and [trust], then write them into fleet.toml",
        code="fleet_unproven",
    )


def _names(of: Trust) -> str:
    return ", ".join(f"{o.name} {o.grade}" for o in of.operators)[:200] or "no operator"
