"""The table of declared keys without an effect: what is not built, and what to write instead.

Keys and values outside the schema are refused when a file is read. `without_effect` decides about those inside it,
with the applied revision.
"""

from collections.abc import Mapping

from msgspec import Struct


class Later(Struct, frozen=True):
    """One key, or one value of a key, without an effect. `refused`: else a plan only warns."""

    reason: str
    remedy: str
    refused: bool = True


Row = tuple[str, str, str]  # struct in model/fleet.py, key as it is written, value ("" means every value)

_REMOVE = "remove the key until a release announces it"
_REMOVE_TABLE = "remove the table until a release announces it"
_REMOVE_ROLE = "remove the role until a release announces it"
_MOUNTED = 'mount it by other means, and write type = "local-dir" with its path as location'
_ROLE = 'write role = "primary", "copy" or "offsite"'

OWN: Row = ("Volume", "protect", "own:NAME")
NO_WAY_BACK: Row = ("Snapshot", "method", "exec: COMMAND without restore")

TABLE: Mapping[Row, Later] = {
    # Outside the schema.
    ("FleetFile", "boot", ""): Later("not built yet: nodes do not boot in an order", _REMOVE),
    ("Overlay", "driver", "wireguard"): Later(
        "not built yet: Holdfast does not set up a WireGuard network",
        'set it up by other means and write driver = "external", with encrypted = true',
    ),
    # Will never be built: only the hub's operator configures commands, so that no revision can run a program there.
    ("AlertTarget", "command", ""): Later(
        "a command can only be a flag of the hub process, so that no revision can run a program there",
        "start the hub with --alert-command, or write webhook or apprise here",
    ),
    # Inside the schema: fleet.toml.
    ("Storage", "type", "nfs"): Later("not built yet: Holdfast mounts no share", _MOUNTED),
    ("Storage", "type", "cifs"): Later("not built yet: Holdfast mounts no share", _MOUNTED),
    ("Storage", "type", "pbs"): Later("not built yet: there are no guests whose images it could hold", _REMOVE_TABLE),
    ("Storage", "role", "vzdump-target"): Later("not built yet: there are no guests", _ROLE),
    ("Storage", "role", "pbs-offsite"): Later("not built yet: there are no guests", _ROLE),
    ("Storage", "role", "bulk-data"): Later("not built yet: volumes are stored in the data directory only", _ROLE),
    ("StoragePolicy", "schedule", ""): Later(
        "not built yet: a backup is stored on all targets when it is made, at the times of [backups]", _REMOVE
    ),
    ("FleetFile", "policies", ""): Later(
        "not built yet: policies are not evaluated, so a rule neither allows nor forbids anything",
        "remove the table and its file in policies/ until a release announces it",
    ),
    ("Node", "roles", "builder"): Later("not built yet: a builder builds no images", _REMOVE_ROLE),
    ("Node", "direct", "on"): Later(
        "not built yet: no command talks to an agent without the hub",
        'remove the key; link = "dial" lets the hub call the node',
    ),
    ("Node", "labels", ""): Later(
        "labels are stored with the node, and nothing reads them yet",
        "labels do not choose a node for a service; pin a service with node = …",
        refused=False,
    ),
    # Inside the schema: services/<name>.toml.
    ("Service", "custody", ""): Later(
        "not built yet: the keys of backups are sealed to operators and the node of the service, and never to the "
        "hub: no move of a service without an operator would use them",
        'remove the key, or write custody = "sealed"; an operator brings data to another node with an age identity '
        "(docs/guides/restore.md)",
    ),
    NO_WAY_BACK: Later(
        "no command would bring the dump back, so none is made: files are copied as they are",
        'write restore = "COMMAND": it runs in the same container, with the dump on its standard input',
    ),
    ("Volume", "class", ""): Later(
        "not built yet: every volume is stored in the data directory of its node, whatever its class", _REMOVE
    ),
    OWN: Later(
        "not built yet: the volume would be stored on the local disk of its node, and on no storage target",
        'write protect = "backup", or protect = "none" if the data may be lost',
    ),
}

DIRECTORIES: Mapping[str, str] = {
    "guests": "system guests are not managed yet",
    "graphs": "typed graphs are not served yet",
}

DIRECTORY_REMEDY = "move the directory out of the fleet directory until a release announces it"


def of_key(table: str, key: str) -> Later | None:
    """The row of a key without an effect for all values."""
    return TABLE.get((table, key, ""))


def of_value(table: str, key: str, value: object) -> Later | None:
    """The row of this one value of a key."""
    return TABLE.get((table, key, value)) if isinstance(value, str) else None
