"""Texts for people use plain words, and every command and option they name exists."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from holdfast.cli import flags
from holdfast.cli.noun import ALIASES, LATER, LATER_PAIRS
from holdfast.cli.verbs import VERBS, nouns

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "holdfast"
PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "changes").glob("*.md")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "adr"),
]

# A room is a folder of src/holdfast; its sub-folders are rooms of their own. "." is the folder itself.
ROOMS = sorted({str(path.parent.relative_to(SRC)) for path in SRC.rglob("*.py")})

BANNED = re.compile(
    r"\b(nobody|somebody|whoever|everybody|anybody|no one|someone|anyone|everyone)\b"
    r"|\b(he|his|him|himself|she|her|anew|mend(s|ed|ing)?)\b"
    r"|\b(by itself|hand(s|ed|ing)? in|(is|was|be|been|not) well|unwell)\b",
    re.IGNORECASE,
)

# Codes, not texts: they are stored, sent or configured, and cannot change. On pages they stand in backticks.
CODES = re.compile(r"`(nobody|mend|mended|audit-mended)`")
CODE_STRINGS = {
    "adapters/audit_log/file.py": {"audit-mended"},  # an event of the audit log
    "adapters/name_server/dnsmasq/server.py": {"nobody"},  # a user of the machine
    "adapters/proxy/envoy/listeners.py": {"nobody.invalid"},  # a hostname (RFC 6761)
    "adapters/stream_link/caller_key.py": {"holdfast stream"},  # the name in a certificate
    "hub/http/handlers/commits.py": {"mend"},  # an operation of /v1
}

COMMAND = re.compile(r"(?<![\w./@=-])holdfast +([a-z][a-z_-]*)(?: +([a-z][a-z-]*))?")

# The text of one command: up to the next command, another program, a comment, or the end of the clause.
END = re.compile(r"[;|`)#\n]|&&| -- |[.,:] | and |\bholdfast ")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
PASSED_ON = ("lab curl",)  # their options are those of curl

# "holdfast" as the name of the program in a sentence, not as the start of a command.
PROSE = frozenset({"and", "as", "command", "from", "in", "of", "on", "with"})

UNKNOWN = "\N{REPLACEMENT CHARACTER}"  # in place of {…} in an f-string


# ---- texts


def strings(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every string that is not a docstring. A part {…} of an f-string becomes UNKNOWN."""
    tree = ast.parse(source)
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inside.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            inside.update(id(part) for part in node.values)
            yield node.lineno, "".join(_text(part) for part in node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.lineno, node.value


def remarks(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every docstring and comment."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _text(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else UNKNOWN


def of_room(room: str) -> Iterator[tuple[str, str]]:
    """Place and text of every string in the modules of one room."""
    for path in sorted((SRC / room).glob("*.py")):
        name = str(path.relative_to(SRC))
        for line, text in strings(path.read_text()):
            if text not in CODE_STRINGS.get(name, ()):
                yield f"{name}:{line}", text


def of_page(page: Path) -> Iterator[tuple[str, str]]:
    """Place and text of every paragraph."""
    line = 1
    for paragraph in page.read_text().split("\n\n"):
        yield f"{page.relative_to(ROOT)}:{line}", paragraph
        line += paragraph.count("\n") + 2


@cache
def parser_of(verb: str) -> flags.Parser:
    return flags.loaded(verb, VERBS[verb], width=100)[0]


def help_of(verb: str) -> str:
    return parser_of(verb).format_help()


# ---- rules


def banned(text: str) -> list[str]:
    plain = " ".join(CODES.sub("", text).split())
    return [found.group().lower() for found in BANNED.finditer(plain)]


def unknown_commands(text: str) -> list[str]:
    """Commands that do not exist. A command of a later step may be named by a sentence that says "not built"."""
    sentences = re.split(r"(?<=[.!?])\s|\n\s*(?=[-*|#])|\n\n", text)
    return [name for sentence in sentences for name in _commands(sentence) if not _is_known(name, sentence)]


def _commands(sentence: str) -> Iterator[str]:
    for found in COMMAND.finditer(sentence):
        first, second = found[1], found[2] or ""
        if first not in PROSE:
            yield f"{first} {second}" if first in nouns() and first not in VERBS and second else first


def _is_known(name: str, sentence: str) -> bool:
    if name in LATER or name in LATER_PAIRS:
        return "not built" in " ".join(sentence.split())
    return name in VERBS or name in ALIASES or name in nouns()


def unknown_options(text: str) -> list[str]:
    """Options that the command before them does not have."""
    found = []
    for command in COMMAND.finditer(text):
        verb = next((name for name in (f"{command[1]} {command[2]}", command[1]) if name in (*VERBS, *ALIASES)), "")
        verb = ALIASES.get(verb, verb)
        if verb and verb not in PASSED_ON:
            rest = END.split(text[command.end() :], maxsplit=1)[0]
            known = {option for action in parser_of(verb)._actions for option in action.option_strings}
            found += [f"{verb} {option}" for option in OPTION.findall(rest) if option not in known]
    return found


# ---- tests


@pytest.mark.parametrize("room", ROOMS)
def test_no_text_of_a_room_has_a_banned_word(room: str) -> None:
    assert [f"{place}: {words}: {text}" for place, text in of_room(room) if (words := banned(text))] == []


@pytest.mark.parametrize("room", ROOMS)
def test_no_docstring_or_comment_of_a_room_has_a_banned_word(room: str) -> None:
    found = [(path, *one) for path in sorted((SRC / room).glob("*.py")) for one in remarks(path.read_text())]
    assert [f"{path.name}:{line}: {words}" for path, line, text in found if (words := banned(text))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_has_a_banned_word(page: Path) -> None:
    assert [f"{place}: {words}" for place, text in of_page(page) if (words := banned(text))] == []


@pytest.mark.parametrize("verb", VERBS)
def test_no_help_page_has_a_banned_word(verb: str) -> None:
    assert banned(help_of(verb)) == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_command_in_a_text_of_a_room_exists(room: str) -> None:
    assert [f"{place}: {names}: {text}" for place, text in of_room(room) if (names := unknown_commands(text))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_on_a_page_exists(page: Path) -> None:
    assert [f"{place}: {names}" for place, text in of_page(page) if (names := unknown_commands(text))] == []


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_on_a_help_page_exists(verb: str) -> None:
    assert unknown_commands(help_of(verb)) == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_option_in_a_text_of_a_room_exists(room: str) -> None:
    assert [f"{place}: {names}: {text}" for place, text in of_room(room) if (names := unknown_options(text))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_option_on_a_page_exists(page: Path) -> None:
    assert [f"{place}: {names}" for place, text in of_page(page) if (names := unknown_options(text))] == []


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_on_a_help_page_exists(verb: str) -> None:
    assert unknown_options(help_of(verb)) == []


def test_an_option_belongs_to_the_command_before_it() -> None:
    assert unknown_options("holdfast node invite w1 --replce; holdfast plan -o f --yess --offline") == [
        "node invite --replce",
        "plan --yess",
    ]
    assert unknown_options("holdfast history show 3 --raw, holdfast lab exec w1 -- podman ps --all") == []
    assert unknown_options("`holdfast apply` with --signature; holdfast lab curl URL --http2") == []
    assert unknown_options("holdfast agent journal and podman ps --all") == []


def test_banned_words_are_found_across_lines_and_codes_are_left_out() -> None:
    assert banned("Nobody mends it;\nit heals by\n    itself, is well and is handed in anew.") == [
        "nobody",
        "mends",
        "by itself",
        "is well",
        "handed in",
        "anew",
    ]
    assert banned("`mend` needs `nobody`; recommended, amended, well") == []


def test_every_exempt_code_is_still_in_its_module() -> None:
    for name, codes in CODE_STRINGS.items():
        assert codes <= {text for _, text in strings((SRC / name).read_text())}, name


def test_commands_are_told_from_the_name_of_the_program() -> None:
    assert unknown_commands("run holdfast nod list; holdfast node lst; holdfast doctor") == [
        "nod",
        "node lst",
        "doctor",
    ]
    assert unknown_commands("holdfast doctor is not built yet. Then run\nholdfast graph web.") == ["graph"]
    assert unknown_commands("moving data is not\nbuilt yet: holdfast graph") == []
    assert unknown_commands("- not built yet: a\n- holdfast graph") == ["graph"]
    assert (
        unknown_commands("`holdfast lab` or holdfast node list w1, holdfast history show 3, holdfast apply f.plan")
        == []
    )
    assert unknown_commands("run holdfast as root; /run/holdfast is; holdfast-agent; holdfast.internal here") == []


def test_strings_are_read_without_docstrings() -> None:
    source = '"""Nobody."""\nx = f"holdfast {verb} of " "w1"  # nobody\ndef f():\n    """Nobody."""\n    return "a"\n'
    assert sorted(strings(source)) == [(2, f"holdfast {UNKNOWN} of w1"), (5, "a")]
    assert sorted(remarks(source)) == [(1, "Nobody."), (2, "# nobody"), (4, "Nobody.")]
