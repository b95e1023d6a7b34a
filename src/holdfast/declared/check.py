"""Convert a document to a struct; if that fails, `explain` finds all mistakes."""

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from holdfast.declared.flaw import Flaws
from holdfast.model.fleet import FleetFile, Service, Settings

T = TypeVar("T", FleetFile, Service)

# What later checks see in place of a required key that is missing or unusable; such a fleet is never returned.
UNKNOWN_SETTINGS = Settings("unnamed")
_STAND_INS: Mapping[str, Any] = {"components": (), "operators": (), "fleet": UNKNOWN_SETTINGS}

# A string may hold an escaped NUL, which no pattern sees and which ends an argument early on every system.
_ESCAPED_NUL = re.compile(rb"\\(?:u0000|U00000000|x00)")


def check(document: dict[str, Any], kind: type[T], file: str, content: bytes, flaws: Flaws) -> T:
    """The struct; or, with every mistake noted, the valid rest of it, so that further checks can go on."""
    if b"cpu" in content:
        _write_cpu_as_text(document)
    if b'""' in content or b"''" in content:
        _leave_out_empty_choices(document)
    try:
        value = msgspec.convert(document, kind)
        if not (b"\\" in content and _ESCAPED_NUL.search(content)):
            return value
        refusal = ""
    except msgspec.ValidationError as trouble:
        refusal = str(trouble)
    from holdfast.declared.explain import explain

    count = len(flaws.kept) + flaws.uncounted
    rest = explain(document, kind, file, flaws)
    if refusal and count == len(flaws.kept) + flaws.uncounted:
        flaws.add(file, (), f"does not fit: {refusal}")
    return _rebuilt(rest, kind)


def _rebuilt(rest: dict[str, Any], kind: type[T]) -> T:
    values: dict[str, Any] = {}
    for field in _fields(kind):
        if field.encode_name in rest:
            with suppress(msgspec.ValidationError):
                values[field.name] = msgspec.convert(rest[field.encode_name], field.type)
        if field.required:
            values.setdefault(field.name, _STAND_INS[field.name])
    return kind(**values)


_fields = lru_cache(msgspec.structs.fields)


def _leave_out_empty_choices(document: dict[str, Any]) -> None:
    """Files of the first version write `node = ""` and `tier = ""` for automatic placement (M-40, M-42)."""
    for key in ("node", "tier"):
        if document.get(key) == "":
            del document[key]


def _write_cpu_as_text(document: dict[str, Any]) -> None:
    """`cpu = 0.5` is a usual spelling; the value domain has no fractions, so the number becomes its decimal text."""
    components = document.get("components")
    for component in components if isinstance(components, list) else ():
        resources = component.get("resources") if isinstance(component, dict) else None
        cpu = resources.get("cpu") if isinstance(resources, dict) else None
        if isinstance(cpu, int | float) and not isinstance(cpu, bool):
            component["resources"]["cpu"] = _decimal(cpu)


def _decimal(number: int | float) -> str | float:
    if isinstance(number, int):
        return str(number) if abs(number) < 10**9 else float("inf")
    text = repr(number)
    return text.removesuffix(".0") if "e" not in text and "n" not in text else number
