"""Values and types as text for messages. Escapes invisible and look-alike characters."""

import re
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")
SHOWN_CHARS_MAX = 60

Part = str | int
Path = tuple[Part, ...]


def printable(text: str) -> str:
    """Everything outside printable ASCII as an escape: a line break, a right-to-left mark, a Cyrillic «а»."""
    return text if text.isascii() and text.isprintable() else ascii(text)[1:-1]


def shown(value: Any) -> str:
    """A value for a message: short, quoted if it is a string, on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{_short(printable(value[: SHOWN_CHARS_MAX * 2]))}"'
    if isinstance(value, int) and abs(value) >= 10**30:
        return "a number of more than 30 digits"
    return _short(str(value)) if isinstance(value, int | float) else kind_of(value)


def described(value: Any) -> str:
    """The value with its type, for a file that has "80" in place of 80."""
    return f"the string {shown(value)}" if isinstance(value, str) else shown(value)


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS_MAX else text[:SHOWN_CHARS_MAX] + "…"


def kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    for kind, words in ((str, "a string"), (int, "a whole number"), (dict, "a table"), (list, "a list")):
        if isinstance(value, kind):
            return words
    if isinstance(value, float):
        return "a number with a fraction" if abs(value) < float("inf") else "not a finite number"
    return "a date or a time"


def key_path(path: Path) -> str:
    """`components[0].env.PATH`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + _key(part)
    return text


def _key(part: str) -> str:
    return part if _BARE_KEY.match(part) and len(part) <= SHOWN_CHARS_MAX else shown(part)


def one_of(values: tuple[Any, ...]) -> str:
    """`"a", "b" or "c"`."""
    quoted = [shown(value) for value in values]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " or " + quoted[-1]
