"""The operator's terminal: prints, asks and colours. The caller provides the streams."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TextIO

from holdfast.cli.text import Painter, Raw, Text, harmless
from holdfast.errors import Failed, Invalid

COLUMNS, ROWS = 80, 24  # of a terminal that does not say


def width(text: str) -> int:
    """Columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(2 if east_asian_width(c) in "WF" else 0 if combining(c) else 1 for c in text)


def clip(text: str, columns: int) -> str:
    if width(text) <= columns:
        return text
    while text and width(text) > columns - 1:
        text = text[:-1]
    return text + "…" if columns > 0 else ""


def _size(stream: TextIO) -> tuple[int, int]:
    """Columns and lines of the terminal; 0 if unknown."""
    try:
        found = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return 0, 0
    return found.columns, found.lines


def _back(lines: int) -> str:
    """To the first live line, with an empty screen below."""
    up = f"\x1b[{lines - 1}A" if lines > 1 else ""
    return f"\r{up}\x1b[J"


def _note(err: TextIO, text: str) -> None:
    """What stderr does not take is lost: there is no other place to report it, and the command goes on."""
    try:
        err.write(text)
        err.flush()
    except BrokenPipeError:
        raise
    except OSError:
        pass


class Declined(Failed):
    code = "declined"

    def __init__(self, undone: str) -> None:
        super().__init__(f"{undone}: the answer was not yes", remedy="nothing was changed")


class Terminal:
    """`quiet` drops progress and remarks, never results, warnings or errors. `is_dumb`: the terminal has no colours and
    cannot move its cursor."""

    def __init__(
        self,
        out: TextIO,
        err: TextIO,
        source: TextIO,
        environ_no_colour: bool = False,
        is_dumb: bool = False,
        size: Callable[[TextIO], tuple[int, int]] = _size,
    ) -> None:
        self._out, self._err, self._source = out, err, source
        self.colour = out.isatty() and not environ_no_colour and not is_dumb
        self._is_dumb = is_dumb
        self._size = size
        self.argv: Sequence[str] = ()  # of the command that runs
        self.yes = False
        self.quiet = False
        self.verbose = False
        self._live = 0  # lines that the next ones replace
        self._painter = Painter(self.colour)
        self.paint = self._painter.paint

    def say(self, text: Text) -> None:
        self.settle()
        with written():
            self._out.write(self._painter.lines(text))

    def say_raw(self, text: str) -> None:
        """A document for programs, or a text whose reader asked for it as it is."""
        self.say(Raw(text))

    def columns(self) -> int:
        """The width of the terminal that shows the output; 0: the output goes elsewhere, or the width is unknown."""
        return self._size(self._out)[0] if self._out.isatty() else 0

    def flush(self) -> None:
        """For output that is read while it is written."""
        with written():
            self._out.flush()

    def is_shown(self) -> bool:
        """Whether the output goes to a terminal, where control characters have effects."""
        return self._out.isatty()

    def say_exactly(self, content: bytes) -> None:
        """Write exactly these bytes, whatever the encoding of the terminal."""
        with written():
            self._out.flush()
            self._out.buffer.write(content)
            self._out.buffer.flush()

    def remark(self, text: Text) -> None:
        """Progress and advice: to stderr, so that stdout stays one document."""
        if not self.quiet:
            self._tell(self._painter.lines(text))

    def is_live(self) -> bool:
        """Whether progress can be shown on lines of a terminal that change."""
        return not self.quiet and not self._is_dumb and self._err.isatty()

    def live(self, lines: Sequence[str]) -> None:
        """Show lines that the next call replaces, as many as the terminal holds; nothing if stderr is not one."""
        if not self.is_live():
            return
        columns, rows = self._size(self._err)
        columns, rows = columns or COLUMNS, rows or ROWS
        shown = list(lines)
        if len(shown) >= rows:
            shown = [*shown[: max(0, rows - 2)], f"… and {len(shown) - max(0, rows - 2)} more"]
        _note(self._err, _back(self._live) + "\n".join(clip(harmless(one), columns - 1) for one in shown))
        self._live = len(shown)

    def settle(self) -> None:
        if self._live:
            _note(self._err, _back(self._live))
            self._live = 0

    def warn(self, text: str) -> None:
        self._tell(self._painter.lines(self.paint("yellow", "warning: ") + text))

    def complain(self, text: Text) -> None:
        self._tell(self._painter.lines(text))

    def _tell(self, text: str) -> None:
        """To stderr, after what was said before: in one file with stdout the lines are in order."""
        self.settle()
        with suppress(OSError):  # reported when the command ends
            self._out.flush()
        _note(self._err, text)

    def is_interactive(self) -> bool:
        return self._source.isatty()

    def confirm(self, question: str, undone: str, remedy: str = "run the same command with --yes") -> None:
        """Only the full word counts; any other answer is `Declined`. Without a terminal the question is an error."""
        if self.yes:
            return
        self._require_terminal(question, remedy)
        self._err.write(f'{harmless(question)} Only "yes" is accepted: ')
        self._err.flush()
        answer = self._source.readline()
        if not answer:  # Ctrl-D
            _note(self._err, "\n")
        if answer.strip() != "yes":
            raise Declined(undone)

    def choose(self, question: str, default: bool, remedy: str) -> bool:
        self._require_terminal(question, remedy)
        self._err.write(f"{harmless(question)} [{'Y/n' if default else 'y/N'}] ")
        self._err.flush()
        answer = self._source.readline()
        if not answer:  # Ctrl-D: the default is an answer only if it was confirmed with Enter
            _note(self._err, "\n")
            raise Failed("the question was not answered", remedy=remedy, code="declined")
        return default if not answer.strip() else answer.strip().lower() in ("y", "yes")

    def secret(self, prompt: str) -> str:
        self._require_terminal(prompt, "load the key into ssh-agent first (`ssh-add FILE`), or run this in a terminal")
        from getpass import getpass

        try:
            return getpass(prompt + " ", stream=self._err)
        except EOFError:  # Ctrl-D
            _note(self._err, "\n")
            raise Failed(
                "nothing was typed",
                remedy="repeat the command and type it; for a key's passphrase, ssh-agent can do that: ssh-add FILE",
                code="declined",
            ) from None

    def piped(self, bytes_max: int) -> bytes:
        """The piped input, unchanged; one byte more than allowed shows that it is too long."""
        return self._source.buffer.read(bytes_max + 1)

    def _require_terminal(self, question: str, remedy: str) -> None:
        if not self.is_interactive():
            raise Invalid(f"this question needs a terminal: {question}", remedy=remedy, code="no_terminal")


@contextmanager
def written() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as trouble:
        raise unsaid(trouble) from trouble


def unsaid(trouble: OSError) -> Failed:
    return Failed(
        f"the result could not be written to standard output: {trouble.strerror}",
        remedy="run the command again with another output; `holdfast history` shows the applied revisions",
        code="output_failed",
    )


def system_terminal(no_colour: bool) -> Terminal:
    return Terminal(sys.stdout, sys.stderr, sys.stdin, no_colour, is_dumb=os.environ.get("TERM") == "dumb")
