"""What this machine knows of a hub before the first request: its key, its fleet and the operators.

Reads only `fleet.toml` and `fleet.lock`, so that a request does not need the whole directory.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.cli.fleet.seen_heads import LOCK_BYTES_MAX, LOCK_NAME, parse_lock
from holdfast.errors import Invalid
from holdfast.model import ssh_key

if TYPE_CHECKING:
    from holdfast.ports.disk import Disk

FILE_NAME = "fleet.toml"
FILE_BYTES_MAX = 1024 * 1024
HUB_KEY = "HOLDFAST_HUB_KEY"


class Acquaintance(Struct, frozen=True):
    """`pin` "": the system's certificate authorities decide; `operators` empty: any key is accepted as an operator."""

    pin: str = ""
    fleet: str = ""
    operators: frozenset[bytes] = frozenset()

    def knows(self, blob: bytes) -> bool:
        return not self.operators or blob in self.operators


def state_dir(environ: Mapping[str, str]) -> str:
    """Where the command line keeps its own state."""
    home = environ.get("XDG_STATE_HOME") or os.path.join(environ.get("HOME", "/root"), ".local", "state")
    return environ.get("HOLDFAST_STATE") or os.path.join(home, "holdfast")


def of(fleet_dir: str, disk: "Disk", environ: Mapping[str, str]) -> Acquaintance:
    told = environ.get(HUB_KEY, "")
    pin, keys = _declared(disk.read(os.path.join(fleet_dir, FILE_NAME), FILE_BYTES_MAX) or b"", bool(told))
    lock = disk.read(os.path.join(fleet_dir, LOCK_NAME), LOCK_BYTES_MAX)
    pin = told or pin
    return Acquaintance(
        pin=_line(pin) if pin else "",
        fleet=parse_lock(lock).fleet if lock is not None else "",
        operators=frozenset(blob for blob in map(_blob, keys) if blob),
    )


def _declared(content: bytes, told: bool) -> tuple[object, list[object]]:
    """The hub's key, and the keys of operators."""
    from holdfast.declared import toml_file

    try:
        found = toml_file.fleet_document(content)
    except toml_file.NotToml as trouble:
        return _between_mistakes(content, trouble, told)
    settings, listed = found.get("fleet"), found.get("operators")
    pin = settings.get("hub_key", "") if isinstance(settings, dict) else ""
    return pin, [o.get("key", "") for o in listed if isinstance(o, dict)] if isinstance(listed, list) else []


def _between_mistakes(content: bytes, trouble: Invalid, told: bool) -> tuple[object, list[object]]:
    """Of a file that is not TOML its lines count, so that a mistake elsewhere keeps no command from what runs (N30):
    the one hub_key, and each key that could be an operator's. Of two hub keys none counts."""
    from holdfast.declared import hub_address

    pins = {text for text in hub_address.lines(content, "hub_key") if _blob(text)}
    if len(pins) != 1 and not told:
        raise Invalid(
            f"{FILE_NAME} cannot be read, so the hub's key is not known: {trouble}",
            remedy="`holdfast validate` shows where; until it is corrected, give the hub's key, which `holdfast hub "
            "check` prints on the hub's machine: HOLDFAST_HUB_KEY='ssh-ed25519 …'",
            code="hub_key_unknown",
        ) from None
    return next(iter(pins), ""), list(hub_address.lines(content, "key"))


def _line(text: object) -> str:
    """Ed25519, as every hub's key is."""
    try:
        key = ssh_key.parse(text if isinstance(text, str) else "")
    except Invalid as trouble:
        raise _no_hub_key(trouble.message) from None
    if key.type != "ssh-ed25519":
        raise _no_hub_key(f"it is {key.type}, not ssh-ed25519")
    return ssh_key.line(key)


def _blob(text: object) -> bytes:
    try:
        return ssh_key.parse(text if isinstance(text, str) else "").blob
    except Invalid:
        return b""


def _no_hub_key(why: str) -> Invalid:
    return Invalid(
        f"hub_key is not the key of a hub: {why}",
        remedy="write the line that `holdfast hub check` prints on the hub's machine into [fleet] of fleet.toml",
        code="hub_key_invalid",
    )
