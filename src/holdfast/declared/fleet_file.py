"""Read `fleet.toml` into its struct, and run the checks that need only this file."""

from typing import Any

from msgspec import Struct

from holdfast.declared import (
    alerts,
    backups,
    infrastructure,
    names,
    needs,
    node_keys,
    nodes,
    operators,
    storage,
    toml_file,
)
from holdfast.declared.check import UNKNOWN_SETTINGS, check
from holdfast.declared.flaw import Flaws
from holdfast.declared.layout import FLEET_FILE
from holdfast.model.fleet import FleetFile


class Declared(Struct, frozen=True):
    """The names include those of refused tables: something about them is wrong, but they are not unknown."""

    file: FleetFile
    node_names: frozenset[str]
    storage_names: frozenset[str]
    policy_files: frozenset[str]


def read(content: bytes, flaws: Flaws) -> Declared | None:
    try:
        document = toml_file.fleet_document(content)
    except toml_file.NotToml as trouble:
        flaws.add(FLEET_FILE, (), trouble.message, trouble.remedy, trouble.line)
        return None
    written = [
        _texts(document, table, key) for table, key in (("nodes", "name"), ("storage", "name"), ("policies", "file"))
    ]
    backup_keys = frozenset(table) if isinstance(table := document.get("backups"), dict) else frozenset[str]()
    file = check(document, FleetFile, FLEET_FILE, content, flaws)
    _check_names(file, flaws)
    operators.check(file.operators, file.trust, _is_complete(file, flaws), flaws)
    if file.fleet is not UNKNOWN_SETTINGS:
        nodes.check(file.nodes, file.fleet, flaws)
        infrastructure.check(file, written[0], flaws)
    node_keys.check(file.nodes, "" if file.fleet is UNKNOWN_SETTINGS else file.fleet.hub_key, flaws)
    alerts.check(file.alerts, written[0], flaws)
    storage.check(file.storage, written[0], flaws)
    backups.check(file.backups, backup_keys, flaws)
    needs.check_provided(file.provides, {node.name: node for node in file.nodes}, written[0], flaws)
    return Declared(file, *written)


def _texts(document: dict[str, Any], table: str, key: str) -> frozenset[str]:
    """The value of this key in each [[table]], whatever else may be wrong with it."""
    tables = document.get(table)
    values = [entry.get(key) for entry in tables if isinstance(entry, dict)] if isinstance(tables, list) else []
    return frozenset(value for value in values if isinstance(value, str))


def _is_complete(file: FleetFile, flaws: Flaws) -> bool:
    """Whether all declared operators passed their checks, so that they can be counted."""
    return bool(file.operators) and (FLEET_FILE, ("operators",)) not in flaws.dropped


def _check_names(file: FleetFile, flaws: Flaws) -> None:
    lists: tuple[tuple[str, str, list[str]], ...] = (
        ("operators", "operator", [operator.name for operator in file.operators]),
        ("nodes", "node", [node.name for node in file.nodes]),
        ("storage", "storage target", [target.name for target in file.storage]),
        ("policies", "policy", [binding.name for binding in file.policies]),
        ("alerts", "alert target", [target.name for target in file.alerts]),
    )
    for key, what, found in lists:
        names.check(FLEET_FILE, [(name, (key, at)) for at, name in enumerate(found)], what, flaws)
