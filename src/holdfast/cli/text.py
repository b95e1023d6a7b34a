"""Text for a terminal: a string is one line, a Block is several. Text of others can write no line of its own (X09).

What a node, a hub, a container, a registry or a file says goes through `Terminal`, which prints every string as one
line: line breaks become ⏎, control characters are shown as escapes. Only a `Block`, which our code puts together line
by line, has several. `Terminal.say_raw` is for documents and bytes that a program reads; a test lists its callers.
"""

import os
from collections.abc import Callable, Iterable

from msgspec import Struct

FOLD = "⏎"
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


class Block(Struct, frozen=True):
    """Several lines. Each of them is printed as one, whatever it contains."""

    lines: tuple[str, ...]


class Raw(Struct, frozen=True):
    """A document for programs, or a text whose reader asked for it as it is."""

    text: str


Text = str | Block | Raw


def harmless(text: str) -> str:
    """One line that cannot move the cursor, begin another line or change the direction of writing."""
    if text.isprintable():
        return text
    folded = text.rstrip("\r\n").replace("\r\n", "\n").replace("\n", FOLD)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in folded)


def block(lines: Iterable[str]) -> Block:
    return Block(tuple(lines))


def page(text: str) -> Block:
    """A text of our own with several lines, such as a page of help."""
    return Block(tuple(text.split("\n")))


def indented(text: str, by: str = "  ") -> Block:
    """A text that may hold lines of others: all but the first are indented, so that none looks like one of ours."""
    first, *others = text.rstrip("\n").split("\n")
    return Block((first, *(by + other for other in others)))


class Painter:
    """Our colours. They are marked inside a text by bytes that others cannot know, and become escapes when it is
    printed; every other escape in it is shown."""

    def __init__(self, colour: bool) -> None:
        self._mark = f"\0{os.urandom(8).hex()}\0" if colour else ""

    def paint(self, style: str, text: str) -> str:
        return f"{self._mark}{_CODES[style]}m{text}{self._mark}0m" if self._mark else text

    def lines(self, text: Text) -> str:
        """As the terminal gets it, with a final line break."""
        if isinstance(text, Raw):
            return self._coloured(text.text, str) + "\n"
        lines = (text,) if isinstance(text, str) else text.lines
        return "".join(self._coloured(one, harmless) + "\n" for one in lines)

    def _coloured(self, text: str, shown: Callable[[str], str]) -> str:
        if not self._mark:
            return shown(text)
        first, *painted = text.split(self._mark)
        parts = (part.partition("m") for part in painted)
        return shown(first) + "".join(f"\x1b[{code}m{shown(rest)}" for code, _, rest in parts)
