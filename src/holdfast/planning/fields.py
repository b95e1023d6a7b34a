"""Field-level differences between two documents, in reading order. Pure."""

from collections.abc import Iterator
from typing import Any

from holdfast.model.plan import FieldChange


def differences(before: Any, after: Any) -> tuple[FieldChange, ...]:
    return tuple(_walk("", before, after))


def _walk(path: str, before: Any, after: Any) -> Iterator[FieldChange]:
    if before == after and type(before) is type(after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from _walk(f"{path}.{key}" if path else key, before.get(key), after.get(key))
    elif _named(before) and _named(after):
        old, new = {item["name"]: item for item in before}, {item["name"]: item for item in after}
        for name in [*new, *(name for name in old if name not in new)]:
            yield from _walk(f"{path}[{name}]", old.get(name), new.get(name))
    else:
        yield FieldChange(path, before, after)


def _named(value: Any) -> bool:
    """A list of tables with unique names is compared by name, so that an inserted one does not shift the rest."""
    if not isinstance(value, list) or not value:
        return False
    if not all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in value):
        return False
    return len({item["name"] for item in value}) == len(value)
