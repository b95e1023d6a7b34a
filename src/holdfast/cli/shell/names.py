"""Names that a fleet directory declares, for completion. Reads files only, and leaves out what it cannot read."""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.ports.fleet_directory import FleetDirectory

KINDS = ("services", "nodes", "secrets", "hostnames")
FILE_BYTES_MAX = 1024 * 1024
# A shell expands what it is given: only what can be a name is printed.
NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}", re.ASCII)


def names(kind: str, directory: FleetDirectory) -> list[str]:
    return sorted({name for name in _declared(kind, directory) if isinstance(name, str) and NAME.fullmatch(name)})


def _declared(kind: str, directory: FleetDirectory) -> Iterator[object]:
    if kind == "services":
        yield from _stems(directory, "services", ".toml")
    elif kind == "secrets":
        yield from _stems(directory, "secrets", ".age")
    elif kind == "nodes":
        yield from (node.get("name") for node in _tables(_toml(directory, "fleet.toml"), "nodes"))
    else:
        yield from _hostnames(directory)


def _stems(directory: FleetDirectory, folder: str, suffix: str) -> Iterator[str]:
    with suppress(HoldfastError):
        for entry in directory.entries(folder):
            if entry.path.endswith(suffix):
                yield entry.path[len(folder) + 1 : -len(suffix)]


def _hostnames(directory: FleetDirectory) -> Iterator[object]:
    """A public route without `hostname` has the service's name in the first public domain (M-134)."""
    domain = _first_domain(_toml(directory, "fleet.toml"))
    for service in _stems(directory, "services", ".toml"):
        for component in _tables(_toml(directory, f"services/{service}.toml"), "components"):
            for route in _tables(component, "routes"):
                if route.get("public") is True:
                    yield route.get("hostname", f"{service}.{domain}" if domain else None)


def _first_domain(document: dict[str, Any]) -> str:
    settings = document.get("fleet")
    domains = settings.get("public_domains") if isinstance(settings, dict) else None
    return domains[0] if isinstance(domains, list) and domains and isinstance(domains[0], str) else ""


def _toml(directory: FleetDirectory, path: str) -> dict[str, Any]:
    import tomli

    with suppress(HoldfastError, ValueError, RecursionError):
        return tomli.loads(directory.read(path, FILE_BYTES_MAX).decode())
    return {}


def _tables(table: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = table.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
