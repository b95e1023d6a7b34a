"""Write a document as TOML for people: the inverse of `toml_file.parse`. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")
_ESCAPED = re.compile(r'[\x00-\x08\x0b-\x1f\x7f"\\]')
_SHORT_CHARS = 100  # of a list on one line
_LINE_CHARS = 2_000  # of a line of a long string; an escaped character takes up to 6 bytes


def document(table: Mapping[str, Any]) -> str:
    return "\n".join(_lines((), table)).strip("\n") + "\n"


def _lines(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[str]:
    """Plain keys first, then tables, then lists of tables: the order that TOML needs."""
    for key, value in table.items():
        if not isinstance(value, dict) and not _is_tables(value):
            yield f"{_key(key)} = {_value(value)}"
    for key, value in table.items():
        if isinstance(value, dict):
            yield from ("", f"[{_keys((*path, key))}]", *_lines((*path, key), value))
    for key, value in table.items():
        for one in value if _is_tables(value) else ():
            yield from ("", f"[[{_keys((*path, key))}]]", *_lines((*path, key), one))


def _is_tables(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(one, dict) for one in value)


def _keys(path: Sequence[str]) -> str:
    return ".".join(map(_key, path))


def _key(key: str) -> str:
    return key if _BARE_KEY.match(key) else _string(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _long_string(value) if "\n" in value or len(value) > _LINE_CHARS else _string(value)
    if isinstance(value, dict):
        inside = ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    return _list([_value(one) for one in value])


def _list(values: list[str]) -> str:
    line = f"[{', '.join(values)}]"
    if len(line) <= _SHORT_CHARS and "\n" not in line:
        return line
    return "\n".join(("[", *(f"  {value}," for value in values), "]"))


def _string(text: str) -> str:
    return f'"{_escaped(text)}"'.replace("\n", "\\n")


def _escaped(text: str) -> str:
    """Line breaks and tabs stay."""
    return _ESCAPED.sub(lambda found: f"\\{found[0]}" if found[0] in '"\\' else f"\\u{ord(found[0]):04x}", text)


def _long_string(text: str) -> str:
    """Line breaks as they are. A longer line is cut, and the space that TOML would skip after a cut is escaped."""
    lines = []
    for line in text.split("\n"):
        pieces = [line[at : at + _LINE_CHARS] for at in range(0, len(line), _LINE_CHARS)] or [""]
        first, *others = map(_escaped, pieces)
        lines.append("\\\n".join((first, *map(_kept_space, others))))
    return '"""\n' + "\n".join(lines) + '"""'


def _kept_space(text: str) -> str:
    return f"\\u{ord(text[0]):04x}{text[1:]}" if text[:1] in (" ", "\t") else text
