"""The flags of every command; they may stand before or after the verb."""

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, HelpFormatter, Namespace
from collections.abc import Callable, Container, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import Struct

from holdfast.cli.noun import Verb, rows_of
from holdfast.cli.terminal import written
from holdfast.errors import Invalid

if TYPE_CHECKING:
    from holdfast.cli.tools import Toolbox

WITH_VALUE = {"--fleet": "DIR", "--hub": "URL|DIR", "--key": "FILE", "--dir": "D"}  # --dir: `lab --dir D up`
COLUMNS_MIN, COLUMNS_MAX, SOURCE_COLUMNS = 40, 100, 120


class Parser(ArgumentParser):
    """Usage errors are ordinary errors with a remedy, exit 2."""

    def error(self, message: str) -> NoReturn:
        raise Invalid(message, remedy=f"{self._nearest(message)}`{self.prog} --help` shows the usage", code="usage")

    def _nearest(self, message: str) -> str:
        """Of an option, or of the second word of a noun that is also a verb: `history shwo 3`."""
        if not message.startswith("unrecognized arguments: "):
            return ""
        from holdfast.model.nearest import hint

        given = message.split()[2].partition("=")[0]
        if given.startswith("-"):
            return hint(given, (option for action in self._actions for option in action.option_strings))
        verb = self.prog.removeprefix("holdfast ")
        return hint(f"{verb} {given}", (name for name in rows_of(verb) if name.startswith(verb + " ")), "`holdfast {}`")

    def _print_message(self, message: str, file: Any = None) -> None:
        """argparse does not report a page that could not be written."""
        with written():
            (file or sys.stderr).write(message)


class Formatter(HelpFormatter):
    """Texts fit the terminal; lines that are indented in the source, such as examples, stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return wrapped(text, width)

    def _format_usage(self, *given: Any) -> str:
        """argparse indents by the name of the command, which leaves too little of a narrow terminal."""
        found = super()._format_usage(*given)
        if max(map(len, found.splitlines())) <= self._width:
            return found
        import re
        from textwrap import fill

        parts = re.sub(r"\[[^]]*\]", lambda part: part[0].replace(" ", "\xa0"), " ".join(found.split()))
        text = fill(parts, self._width, subsequent_indent=" " * 8, break_long_words=False, break_on_hyphens=False)
        return text.replace("\xa0", " ") + "\n\n"


def columns() -> int:
    """The width of help pages: that of the terminal, within bounds in which text can be read."""
    return min(max(terminal_columns(), COLUMNS_MIN), COLUMNS_MAX)


def wrapped(text: str, columns: int) -> str:
    """Undo line breaks that are only there because the source has a width; then wrap. Other line breaks stay."""
    from textwrap import fill

    lines: list[str] = []
    before = ""
    for line in text.splitlines():
        first = line.partition(" ")[0]
        if before and first and len(before) + 1 + len(first) > SOURCE_COLUMNS:
            lines[-1] += " " + line
        else:
            lines.append(line)
        before = line
    return "\n".join(
        line if line.startswith(" ") else fill(line, columns, break_long_words=False, break_on_hyphens=False)
        for line in lines
    )


class Command(Struct, frozen=True):
    """What a verb says of itself in --help, its arguments, and what it does."""

    details: str
    declare: Callable[[Parser], None]
    run: "Callable[[Namespace, Toolbox], int]"


def declare_nothing(parser: Parser) -> None:
    """For a verb without arguments of its own."""


def command(name: str, verb: Verb) -> Command:
    """A module with several verbs has COMMANDS by name; one with a single verb has DETAILS, declare and run."""
    module: Any = import_module("holdfast.cli." + verb.module)
    found: Command | None = getattr(module, "COMMANDS", {}).get(name)
    return found or Command(module.DETAILS, module.declare, module.run)


def loaded(name: str, verb: Verb, width: int | None = None) -> tuple[Parser, Command]:
    """Import the verb's module; its parser has all its arguments."""
    found = command(name, verb)
    parser = parser_for(name, verb.about, found.details, width)
    found.declare(parser)
    return parser, found


def parser_for(verb: str, about: str, details: str, width: int | None = None) -> Parser:
    parser = Parser(
        prog=f"holdfast {verb}",
        description=about[:1].upper() + about[1:] + ".",
        epilog=details,
        formatter_class=lambda prog: Formatter(prog, width=width or columns()),
        allow_abbrev=False,
        add_help=False,
    )
    common = parser.add_argument_group("flags of every command")
    common.add_argument("--fleet", metavar="DIR", help="fleet directory (default: $HOLDFAST_FLEET, else .)")
    common.add_argument(
        "--hub",
        metavar="URL|DIR",
        help="hub URL (or HOST:PORT) or ledger directory (default: $HOLDFAST_HUB, else [fleet] hub, else DIR/.ledger)",
    )
    common.add_argument(
        "--key", metavar="FILE", help="operator key (default: $HOLDFAST_KEY, else ssh-agent, else ~/.ssh/id_ed25519)"
    )
    common.add_argument("--yes", action="store_true", help="answer every question with yes")
    common.add_argument("--json", action="store_true", help="one JSON document on stdout; errors as JSON on stderr")
    common.add_argument("-q", "--quiet", action="store_true", help="results and errors only")
    common.add_argument("-v", "--verbose", action="store_true", help="more detail")
    common.add_argument("-h", "--help", action="help", help="show this page")
    return parser


def terminal_columns() -> int:
    """As shutil.get_terminal_size, which takes 2 ms to load, and argparse asks at every command."""
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return 80


def with_defaults(args: Namespace, environ: Mapping[str, str]) -> Namespace:
    args.fleet = args.fleet or environ.get("HOLDFAST_FLEET") or "."
    args.hub = _hub(args.hub or environ.get("HOLDFAST_HUB") or "") or None
    args.key = args.key or environ.get("HOLDFAST_KEY") or None
    return args


def _hub(given: str) -> str:
    """`HOST:PORT` means https://HOST:PORT, unless a ledger directory has that name."""
    if ":" not in given or "://" in given or os.path.exists(given):
        return given
    import re

    is_place = re.fullmatch(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):[0-9]{1,5}", given)
    return f"https://{given}" if is_place else given


def split_verb(argv: Sequence[str], known: Container[str], nouns: set[str]) -> tuple[str | None, list[str]]:
    """The verb (one or two words) and everything else, wherever the global flags stand."""
    words = _plain_words(argv)
    if not words:
        return None, list(argv)
    first = argv[words[0]]
    taken = [words[0]]
    if first in nouns and len(words) > 1 and f"{first} {argv[words[1]]}" in known:
        taken.append(words[1])
    verb = " ".join(argv[index] for index in taken)
    return verb, [word for index, word in enumerate(argv) if index not in taken]


def first_word(argv: Sequence[str]) -> str:
    """The first argument that is neither a flag nor a flag's value; "" if there is none."""
    words = _plain_words(argv)
    return argv[words[0]] if words else ""


def _plain_words(argv: Sequence[str]) -> list[int]:
    found, skip = [], False
    for index, word in enumerate(argv):
        if skip:
            skip = False
        elif word == "--":
            break
        elif word in WITH_VALUE:
            skip = True
        elif not word.startswith("-"):
            found.append(index)
    return found


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def repeated(args: Namespace) -> str:
    """The flags for fleet and hub as given, to append to a command in a remedy."""
    from shlex import quote

    given = [("--fleet", args.fleet if args.fleet != "." else None), ("--hub", args.hub)]
    said = [f" {flag} {quote(value)}" for flag, value in given if value]
    return "".join(said) + (" --adopt" if getattr(args, "adopt", False) else "")
