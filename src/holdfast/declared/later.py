"""Keys and directories the contract names whose feature is not built yet: refused with a sentence, never ignored."""

from collections.abc import Mapping

KEYS: Mapping[tuple[str, str], str] = {
    ("FleetFile", "boot"): "an order of booting nodes is not kept yet",
    ("Service", "needs"): "contracts between services are not negotiated yet",
    ("Service", "schedule"): "nothing runs on a schedule yet",
    ("Service", "drill"): "restore drills are not run yet",
}

# Values of a key that has others already, by its path.
VALUES: Mapping[tuple[tuple[str | int, ...], str], tuple[str, str]] = {
    (("overlay", "driver"), "wireguard"): (
        "not built yet: Holdfast sets up no WireGuard network itself",
        'set it up by other means and write driver = "external", with encrypted = true',
    ),
}

# Keys that will never be built: what they would do is done elsewhere, on purpose.
REFUSED: Mapping[tuple[str, str], tuple[str, str]] = {
    ("AlertTarget", "command"): (
        "a command is only ever a flag of the hub process, so that no revision can run a program there",
        "start the hub with --alert-command, or write webhook or apprise here",
    ),
}

DIRECTORIES: Mapping[str, str] = {
    "guests": "system guests are not managed yet",
    "graphs": "typed graphs are not served yet",
}

KEY_REMEDY = "remove the key until a release announces it"
DIRECTORY_REMEDY = "move the directory out of the fleet directory until a release announces it"


def of_value(path: tuple[str | int, ...], value: str) -> tuple[str, str]:
    """Why this value is refused at this place, and what to do instead; or two empty strings."""
    return VALUES.get((path, value), ("", ""))


def of_key(table: str, key: str) -> tuple[str, str]:
    """Why this key of this table is refused, and what to do instead; or two empty strings."""
    if (table, key) in REFUSED:
        return REFUSED[table, key]
    reason = KEYS.get((table, key), "")
    return (f"not built yet: {reason}", KEY_REMEDY) if reason else ("", "")
