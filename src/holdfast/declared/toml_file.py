"""Decode one file: bytes → text → TOML document. Strict about encoding and size; knows no keys."""

import re
from functools import lru_cache
from typing import Any

import tomli

from holdfast.errors import Invalid

LINE_BYTES_MAX = 16 * 1024
DEPTH_MAX = 32

_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_TOO_DEEP = (f"tables or lists are nested more than {DEPTH_MAX} deep", "no key needs more than five levels")
_HUGE_NUMBER = re.compile(r"[0-9_]{1000,}")


class NotToml(Invalid):
    """The file is not acceptable: where and why."""

    code = "not_toml"

    def __init__(self, line: int, what: str, *, remedy: str) -> None:
        super().__init__(what, remedy=remedy)
        self.line = line


def text(content: bytes) -> str:
    """Strict UTF-8 without a byte order mark, without NUL, without endless lines."""
    if content.startswith(_BOMS):
        raise NotToml(1, "begins with a byte order mark", remedy="save it as UTF-8 without BOM")
    if b"\0" in content:
        line = content.count(b"\n", 0, content.index(b"\0")) + 1
        raise NotToml(line, "holds a NUL byte", remedy="replace it with a text file")
    if len(content) > LINE_BYTES_MAX:
        _check_lines(content)
    try:
        return content.decode()
    except UnicodeDecodeError as trouble:
        line = content.count(b"\n", 0, trouble.start) + 1
        column = trouble.start - content.rfind(b"\n", 0, trouble.start)
        raise NotToml(line, f"is not UTF-8 at column {column}", remedy="save it as UTF-8") from None


def _check_lines(content: bytes) -> None:
    for number, line in enumerate(content.split(b"\n"), 1):
        if len(line) > LINE_BYTES_MAX:
            what = f"a line of {len(line):,} bytes; the limit is {LINE_BYTES_MAX:,} bytes"
            raise NotToml(number, what, remedy="break the line")


def parse(content: bytes) -> dict[str, Any]:
    """Parse a document. TOML itself refuses duplicate keys and tables."""
    source = text(content)
    try:
        document = tomli.loads(source)
    except tomli.TOMLDecodeError as trouble:
        what = f"is not TOML: {_lower_first(trouble.msg)} (column {trouble.colno})"
        raise NotToml(trouble.lineno, what, remedy="correct this line; quote strings, write one key per line") from None
    except RecursionError:
        raise NotToml(_deepest_line(source), _TOO_DEEP[0], remedy=_TOO_DEEP[1]) from None
    except ValueError:  # the interpreter refuses numbers of thousands of digits
        found = _HUGE_NUMBER.search(source)
        line = source.count("\n", 0, found.start()) + 1 if found else 1
        raise NotToml(line, "holds a number with thousands of digits", remedy="write a smaller number") from None
    if content.count(b"[") + content.count(b"{") + content.count(b".") > DEPTH_MAX and _is_deep(document):
        raise NotToml(_deepest_line(source), _TOO_DEEP[0], remedy=_TOO_DEEP[1])
    return document


@lru_cache(maxsize=1)
def fleet_document(content: bytes) -> dict[str, Any]:
    """Of fleet.toml, which several parts of one command read: parsed once. Readers do not change it."""
    return parse(content)


def _lower_first(message: str) -> str:
    return message[:1].lower() + message[1:]


def _is_deep(document: dict[str, Any]) -> bool:
    """Level by level, because a deep document would exhaust recursion."""
    level: list[Any] = [document]
    for _ in range(DEPTH_MAX + 1):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _deepest_line(source: str) -> int:
    """The line with the most brackets and dots, as the likely place of the mistake."""
    lines = source.split("\n")
    busy = max(range(len(lines)), key=lambda at: lines[at].count("[") + lines[at].count("{") + lines[at].count("."))
    return busy + 1
