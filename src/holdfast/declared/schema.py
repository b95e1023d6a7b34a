"""Describe the types of model/fleet.py as text. Loaded only to explain a mistake."""

from typing import Any

from msgspec import inspect

from holdfast.declared.words import one_of

_PYTHON: dict[type, type] = {
    inspect.StrType: str,
    inspect.IntType: int,
    inspect.BoolType: bool,
    inspect.LiteralType: str,
    inspect.VarTupleType: list,
    inspect.DictType: dict,
    inspect.StructType: dict,
}


def plain(kind: inspect.Type) -> inspect.Type:
    return kind.type if isinstance(kind, inspect.Metadata) else kind


def holds(kind: inspect.Type, value: Any) -> bool:
    """Whether the value has the right type, whatever its content; `true` is not a number."""
    wanted = _PYTHON[type(plain(kind))]
    return isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))


def in_words(kind: inspect.Type) -> str:
    """The expected value, as it fits after «must be»."""
    if isinstance(kind, inspect.Metadata):
        return str((kind.extra_json_schema or {}).get("description", "")) or in_words(kind.type)
    if isinstance(kind, inspect.UnionType):
        return " or ".join(in_words(choice) for choice in kind.types)
    if isinstance(kind, inspect.LiteralType):
        return one_of(kind.values)
    if isinstance(kind, inspect.IntType):
        return f"a whole number from {kind.ge} to {kind.le}"
    if isinstance(kind, inspect.VarTupleType):
        return f"a list of {_plural(kind.item_type)}"
    return {inspect.StrType: "a string", inspect.BoolType: "true or false", inspect.DictType: "a table of strings"}.get(
        type(kind), "a table"
    )


def _plural(kind: inspect.Type) -> str:
    if isinstance(plain(kind), inspect.StructType):
        return "tables"
    if isinstance(kind, inspect.UnionType):
        return "tables or strings"
    words = in_words(kind)
    return "strings" if words == "a string" else "strings, each " + words


def wanted_length(kind: inspect.VarTupleType) -> str:
    """How many entries a list must have, as text."""
    low, high = kind.min_length or 0, kind.max_length
    if high is None:
        return f"at least {low} {'entry' if low == 1 else 'entries'}"
    return f"{low} to {high} entries" if low else f"at most {high} entries"


def has_length(kind: inspect.VarTupleType, count: int) -> bool:
    return (kind.min_length or 0) <= count and (kind.max_length is None or count <= kind.max_length)


def in_range(kind: inspect.IntType, value: int) -> bool:
    return (kind.ge is None or value >= kind.ge) and (kind.le is None or value <= kind.le)
