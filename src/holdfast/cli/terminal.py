"""The operator's terminal: prints, asks and colours. The caller provides the streams."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from holdfast.errors import Failed, Invalid

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


def harmless(text: str) -> str:
    """Escape control characters: text from a hub or a file must not move the cursor or change the text direction."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


class Terminal:
    """`quiet` drops progress and remarks, never results, warnings or errors."""

    def __init__(self, out: TextIO, err: TextIO, source: TextIO, environ_no_colour: bool = False) -> None:
        self._out, self._err, self._source = out, err, source
        self.colour = out.isatty() and not environ_no_colour
        self.yes = False
        self.quiet = False
        self._live = False  # the current line is replaced by the next one

    def paint(self, style: str, text: str) -> str:
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.colour else text

    def say(self, text: str) -> None:
        self.settle()
        with _output():
            self._out.write(text + "\n")

    def flush(self) -> None:
        """For output that is read while it is written."""
        with _output():
            self._out.flush()

    def is_shown(self) -> bool:
        """Whether the output goes to a terminal, where control characters have effects."""
        return self._out.isatty()

    def say_exactly(self, content: bytes) -> None:
        """Write exactly these bytes, whatever the encoding of the terminal."""
        with _output():
            self._out.flush()
            self._out.buffer.write(content)
            self._out.buffer.flush()

    def remark(self, text: str) -> None:
        """Progress and advice: to stderr, so that stdout stays one document."""
        if not self.quiet:
            self.settle()
            self._err.write(text + "\n")
            self._err.flush()

    def is_live(self) -> bool:
        """Whether progress can be shown on one changing line of a terminal."""
        return not self.quiet and self._err.isatty()

    def live(self, text: str) -> None:
        """Show a line that the next one replaces; nothing if stderr is not a terminal."""
        if self.is_live():
            self._err.write(f"\r\x1b[K{text}")
            self._err.flush()
            self._live = True

    def settle(self) -> None:
        if self._live:
            self._err.write("\r\x1b[K")
            self._err.flush()
            self._live = False

    def warn(self, text: str) -> None:
        self.settle()
        self._err.write(self.paint("yellow", "warning: ") + text + "\n")

    def complain(self, text: str) -> None:
        self.settle()
        self._err.write(text + "\n")

    def is_interactive(self) -> bool:
        return self._source.isatty()

    def confirm(self, question: str, remedy: str) -> bool:
        """Only the full word counts. Without a terminal an unanswered question is an error."""
        if self.yes:
            return True
        self._require_terminal(question, remedy)
        self._err.write(f'{question} Only "yes" is accepted: ')
        self._err.flush()
        return self._source.readline().strip() == "yes"

    def choose(self, question: str, default: bool, remedy: str) -> bool:
        self._require_terminal(question, remedy)
        self._err.write(f"{question} [{'Y/n' if default else 'y/N'}] ")
        self._err.flush()
        answer = self._source.readline().strip().lower()
        return default if not answer else answer in ("y", "yes")

    def secret(self, prompt: str) -> str:
        self._require_terminal(prompt, "load the key into ssh-agent first (ssh-add FILE), or run this in a terminal")
        from getpass import getpass

        try:
            return getpass(prompt + " ", stream=self._err)
        except EOFError:  # Ctrl-D
            self._err.write("\n")
            raise Failed(
                "no passphrase was given",
                remedy="repeat the command and type it, or load the key into ssh-agent first (ssh-add FILE)",
                code="declined",
            ) from None

    def piped(self, bytes_max: int) -> bytes:
        """The piped input, unchanged; one byte more than allowed shows that it is too long."""
        return self._source.buffer.read(bytes_max + 1)

    def _require_terminal(self, question: str, remedy: str) -> None:
        if not self.is_interactive():
            raise Invalid(f"this question needs a terminal: {question}", remedy=remedy, code="no_terminal")


@contextmanager
def _output() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as trouble:
        raise unsaid(trouble) from trouble


def unsaid(trouble: OSError) -> Failed:
    return Failed(
        f"the result could not be written to standard output: {trouble.strerror}",
        remedy="run the command again with another output; holdfast history shows the applied revisions",
        code="output_failed",
    )


def system_terminal(no_colour: bool) -> Terminal:
    return Terminal(sys.stdout, sys.stderr, sys.stdin, no_colour)
