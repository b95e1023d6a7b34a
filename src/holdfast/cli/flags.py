"""The flags of every command; they may stand before or after the verb."""

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Container, Mapping, Sequence
from typing import NoReturn

from holdfast.errors import Invalid

WITH_VALUE = {"--fleet": "DIR", "--hub": "URL|DIR", "--key": "FILE", "--dir": "D"}  # --dir: `lab --dir D up`


class Parser(ArgumentParser):
    """Usage errors are ordinary errors with a remedy, exit 2."""

    def error(self, message: str) -> NoReturn:
        raise Invalid(message, remedy=f"{self.prog} --help shows the usage", code="usage")


def parser_for(verb: str, about: str, details: str, width: int | None = None) -> Parser:
    parser = Parser(
        prog=f"holdfast {verb}",
        description=about[:1].upper() + about[1:] + ".",
        epilog=details,
        formatter_class=lambda prog: RawDescriptionHelpFormatter(prog, width=width),
        allow_abbrev=False,
        add_help=False,
    )
    common = parser.add_argument_group("flags of every command")
    common.add_argument("--fleet", metavar="DIR", help="fleet directory (default: $HOLDFAST_FLEET, else .)")
    common.add_argument(
        "--hub",
        metavar="URL|DIR",
        help="hub URL or ledger directory (default: $HOLDFAST_HUB, else [fleet] hub, else DIR/.ledger)",
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


def with_defaults(args: Namespace, environ: Mapping[str, str]) -> Namespace:
    args.fleet = args.fleet or environ.get("HOLDFAST_FLEET") or "."
    args.hub = args.hub or environ.get("HOLDFAST_HUB") or None
    args.key = args.key or environ.get("HOLDFAST_KEY") or None
    return args


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
    """A number of 1 or more. argparse turns the ValueError into a usage error."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def repeated(args: Namespace) -> str:
    """The flags for fleet and hub as given, to append to a command in a remedy."""
    from shlex import quote

    given = [("--fleet", args.fleet if args.fleet != "." else None), ("--hub", args.hub)]
    said = [f" {flag} {quote(value)}" for flag, value in given if value]
    return "".join(said) + (" --adopt" if getattr(args, "adopt", False) else "")
