"""A fleet written back as the files a person would have written; the inverse of `declared.load` for drawn fleets."""

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.model.fleet import Fleet


def files(fleet: Fleet) -> dict[str, bytes]:
    """Path → content, in no particular order of importance."""
    head: dict[str, Any] = {"fleet": _plain(fleet.settings), "trust": _plain(fleet.thresholds)}
    head["backups"], head["timeouts"] = _plain(fleet.backups), _plain(fleet.timeouts)
    head["operators"] = [_plain(operator) for operator in fleet.operators]
    head["nodes"] = [_plain(node) for node in fleet.nodes.values()]
    head["storage"] = [_plain(target) for target in fleet.storage.values()]
    head["alerts"] = [_plain(target) for target in fleet.alerts.values()]
    head["policies"] = [
        {"name": p.name, "file": f"policies/{p.name}.cedar", "applies_to": list(p.applies_to)}
        for p in fleet.policies.values()
    ]
    found = {"fleet.toml": "\n".join(_table((), head)).encode()}
    found |= {f"policies/{p.name}.cedar": p.text for p in fleet.policies.values()}
    found |= {f"services/{n}.toml": "\n".join(_table((), _plain(s))).encode() for n, s in fleet.services.items()}
    return found


def _plain(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return found


def _table(path: tuple[str, ...], table: dict[str, Any]) -> Iterable[str]:
    """Plain keys first, then sub-tables, then arrays of tables: the order TOML needs."""
    for key, value in table.items():
        if not _is_table(value) and not _is_tables(value):
            yield f"{key} = {_value(value)}"
    for key, value in table.items():
        if _is_table(value) and value:
            yield f"[{'.'.join((*path, key))}]"
            yield from _table((*path, key), value)
    for key, value in table.items():
        for item in value if _is_tables(value) else ():
            yield f"[[{'.'.join((*path, key))}]]"
            yield from _table((*path, key), item)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _value(value: Any) -> str:
    # JSON's strings, booleans, numbers and lists of them are TOML's too, once DEL is escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
