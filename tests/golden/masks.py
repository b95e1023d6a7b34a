"""What golden documents leave out of a JSON value: human texts, and values that differ from run to run."""

import re
from collections.abc import Callable
from typing import Any

TEXT = "<text>"

# Fields whose value is a sentence for people, or a list of such sentences. Their keys and types stay fixed.
TEXT_FIELDS = frozenset(
    {
        *("message", "remedy", "about", "detail", "details", "help", "why", "description", "summary", "title"),
        *("reason", "reasons", "warnings", "notes", "trouble", "chosen", "rejected", "note", "backend_trouble"),
        *("dns_trouble", "public_dns", "epilog", "what"),
    }
)

_FORMS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"[0-9a-f]{64}"), "<digest>"),
    (re.compile(r"sha256:[0-9a-f]{64}"), "<sha256:digest>"),
    (re.compile(r"[0-9a-f]{32}|[0-9a-f]{16}"), "<id>"),
    (re.compile(r"SHA256:[A-Za-z0-9+/]{43}"), "<fingerprint>"),
    (re.compile(r"ssh-ed25519 [A-Za-z0-9+/=]{68}( .*)?"), "<public key>"),
    (re.compile(r"age1[0-9a-z]{20,}"), "<recipient>"),
    (re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+-][0-9:]+)"), "<time>"),
    (re.compile(r"hf_[0-9a-f]{16}_[A-Za-z0-9_-]{43}"), "<token>"),
    (re.compile(r"hfj_[A-Za-z0-9_-]+"), "<join token>"),
    (re.compile(r"(-----BEGIN [A-Z ]+-----)[\s\S]*"), r"<\1>"),
    (re.compile(r"/[^\s:]*"), "<path>"),
)


def texts(value: Any, field: str = "") -> Any:
    """The same document with human texts masked; an empty text stays empty, since that is a value."""
    if isinstance(value, dict):
        return {key: texts(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return _sentences(value, field) or [texts(inner, field) for inner in value]
    return TEXT if isinstance(value, str) and value and field in TEXT_FIELDS else value


def _sentences(values: list[Any], field: str) -> list[str]:
    """A list of sentences, however many, is one; an empty list stays empty."""
    return [TEXT] if values and field in TEXT_FIELDS and all(isinstance(one, str) for one in values) else []


def volatile(value: Any, field: str = "") -> Any:
    """Also without what differs from run to run: times, digests of random things, paths."""
    if isinstance(value, dict):
        return {_plain(key): volatile(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return _sentences(value, field) or [volatile(inner, field) for inner in value]
    if isinstance(value, str):
        return TEXT if value and field in TEXT_FIELDS else "<version>" if field == "version" else _plain(value)
    if isinstance(value, float):
        return "<float>"
    return (
        "<int>" if isinstance(value, int) and not isinstance(value, bool) and field.endswith(("_s", "_ms")) else value
    )


def _plain(text: str) -> str:
    return next((form.sub(mask, text) for form, mask in _FORMS if form.fullmatch(text)), text)


def shape(value: Any) -> Any:
    """Keys in their order, and types. A list is the list of the different shapes in it, in order of appearance."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        found: list[Any] = []
        for inner in map(shape, value):
            if inner not in found or _orders(inner) not in map(_orders, found):
                found.append(inner)
        return found
    return _TYPES[type(value)]


_TYPES: dict[type, str] = {str: "string", int: "integer", float: "float", bool: "boolean", type(None): "null"}


def _orders(value: Any) -> Any:
    """Equal dictionaries may have their keys in different order; here they differ."""
    return [(key, _orders(inner)) for key, inner in value.items()] if isinstance(value, dict) else value


def keyed(value: dict[str, Any], name_of: Callable[[str], str]) -> dict[str, Any]:
    """Shapes by pattern of key; the values of several keys of one pattern become one list of shapes."""
    found: dict[str, list[Any]] = {}
    for key, inner in value.items():
        found.setdefault(name_of(key), []).append(inner)
    return {pattern: shape(inners) for pattern, inners in sorted(found.items())}
