"""Read the address of the hub from a fleet directory, whatever else is wrong in it. Pure but for what is read."""

import re

from holdfast.declared import toml_file
from holdfast.declared.flaw import Flaws
from holdfast.declared.layout import FLEET_FILE
from holdfast.declared.load import missing
from holdfast.declared.sources import FILE_BYTES_MAX, Sources
from holdfast.ports.fleet_directory import FleetDirectory


def hub_of(directory: FleetDirectory) -> str:
    """`hub` of fleet.toml, "" if it names none. Nothing else is read or checked. While the file is not TOML, its line
    with `hub` counts: the commands that need it change what runs, and not the file."""
    sources, root = Sources(directory, Flaws()), directory.entries()
    found = next((entry for entry in root if entry.path == FLEET_FILE), None)
    if found is None:
        raise missing(root, directory.name)
    content = sources.read(found, FILE_BYTES_MAX) or b""
    try:
        settings = toml_file.parse(content).get("fleet")
        hub = settings.get("hub") if isinstance(settings, dict) else None
    except toml_file.NotToml:
        hub = next(iter(lines(content, "hub")), None)
    return hub if isinstance(hub, str) else ""


def lines(content: bytes, key: str) -> list[str]:
    """Of a file that is not TOML: the texts that whole lines give this key."""
    found = re.findall(
        rb"^\s*(?:fleet\s*\.\s*)?%b\s*=\s*([\"'])([^\"'\n]*)\1\s*(?:#.*)?$" % key.encode(), content, re.M
    )
    return [text.decode("utf-8", "replace") for _, text in found]
