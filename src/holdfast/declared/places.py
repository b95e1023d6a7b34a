"""Find the line of each key in a TOML text. Used only to explain a mistake; does not validate."""

import re

from holdfast.declared.words import Path

_SPACE = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_BLANK = re.compile(r"[ \t]*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\n]*'""")
_STRING = re.compile(r""""[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\n]*'""")
_LONG_STRING_END = re.compile(r'\\.|"{3,5}', re.DOTALL)
_SCALAR = re.compile(r"[^\s,\]}#]+")
_DEPTH_MAX = 64


class _Lost(Exception):
    """This is not TOML that we can parse; continue with the next line."""


def index(text: str) -> dict[Path, int]:
    """Key path → line, counted from 1. Tables, elements of arrays and parts of dotted keys have a line too."""
    scanner = _Scanner(text)
    scanner.scan()
    return scanner.lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Path, int] = {}
        self._arrays: dict[Path, int] = {}  # array of tables → its number of elements so far
        self._line = 1
        self._counted = 0

    def scan(self) -> None:
        table: Path = ()
        while self._skip(_SPACE):
            try:
                if self.text[self.at] == "[":
                    table = self._header()
                else:
                    self._pair(table, 0)
            except _Lost:
                pass
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end

    def _skip(self, what: re.Pattern[str]) -> bool:
        found = what.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.at < len(self.text)

    def _note(self, path: Path) -> None:
        if path not in self.lines:
            self._line += self.text.count("\n", self._counted, self.at)
            self._counted = self.at
            self.lines[path] = self._line

    def _take(self, character: str) -> bool:
        if self.text.startswith(character, self.at):
            self.at += len(character)
            return True
        return False

    def _expect(self, character: str) -> None:
        self._skip(_BLANK)
        if not self._take(character):
            raise _Lost

    def _key(self) -> list[str]:
        parts: list[str] = []
        while not parts or self._take("."):
            self._skip(_BLANK)
            found = _KEY.match(self.text, self.at)
            if not found:
                raise _Lost
            parts.append(_unquoted(found[0]))
            self.at = found.end()
            self._skip(_BLANK)
        return parts

    def _header(self) -> Path:
        self._take("[")
        is_array = self._take("[")
        start = self.at
        parts, end = self._key(), self.at
        self.at = start
        table = self._descend((), parts[:-1] if is_array else parts)
        if is_array:
            array = (*table, parts[-1])
            self._note(array)
            count = self._arrays.get(array, 0)
            self._arrays[array] = count + 1
            table = (*array, count)
            self._note(table)
        self.at = end
        return table

    def _descend(self, path: Path, parts: list[str]) -> Path:
        for part in parts:
            path = (*path, part)
            self._note(path)
            if path in self._arrays:
                path = (*path, self._arrays[path] - 1)
        return path

    def _pair(self, table: Path, depth: int) -> None:
        start = self.at
        parts, end = self._key(), self.at
        self.at = start
        path = self._descend(table, parts)
        self.at = end
        self._expect("=")
        self._skip(_BLANK)
        self._value(path, depth + 1)

    def _value(self, path: Path, depth: int) -> None:
        if depth > _DEPTH_MAX:
            raise _Lost
        if self._take("["):
            self._array(path, depth)
        elif self._take("{"):
            self._inline_table(path, depth)
        elif self.text.startswith(('"""', "'''"), self.at):
            self._long_string()
        elif not self._match(_STRING) and not self._match(_SCALAR):
            raise _Lost

    def _match(self, what: re.Pattern[str]) -> bool:
        found = what.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found is not None

    def _array(self, path: Path, depth: int) -> None:
        count = 0
        while self._skip(_SPACE) and not self._take("]"):
            if count and self._take(","):
                continue
            self._note((*path, count))
            self._value((*path, count), depth + 1)
            self._rest_of_scalar()
            count += 1

    def _inline_table(self, path: Path, depth: int) -> None:
        while self._skip(_SPACE) and not self._take("}"):
            if not self._take(","):
                self._pair(path, depth)
                self._rest_of_scalar()

    def _rest_of_scalar(self) -> None:
        """A date may have a space before its time."""
        while self._skip(_SPACE) and self.text[self.at] not in ",]}":
            if not self._match(_SCALAR):
                raise _Lost

    def _long_string(self) -> None:
        quote = self.text[self.at : self.at + 3]
        self.at += 3
        if quote == "'''":
            end = self.text.find(quote, self.at)
            self.at = len(self.text) if end < 0 else end + 3
            for _ in range(2):
                self._take("'")
            return
        for found in _LONG_STRING_END.finditer(self.text, self.at):
            if found[0][0] == '"':
                self.at = found.end()
                return
        self.at = len(self.text)


def _unquoted(key: str) -> str:
    if key[0] == "'":
        return key[1:-1]
    if key[0] != '"':
        return key
    if "\\" not in key:
        return key[1:-1]
    import tomli

    try:
        return str(tomli.loads(f"key = {key}")["key"])
    except (ValueError, RecursionError):
        raise _Lost from None
