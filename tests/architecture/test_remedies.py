"""Every command that a remedy names can be found in it, and is one that its verb accepts."""

import re
import shlex

import pytest

from holdfast.cli import flags
from holdfast.cli.noun import ALIASES, LATER, LATER_PAIRS
from holdfast.cli.verbs import VERBS, nouns
from holdfast.errors import HoldfastError
from tests.architecture.remedies import HOLE, Remedy, chain, commands, loose, remedies
from tests.architecture.test_plain_words import parser_of

# A value known only at run time, or a word in capitals, is one of these.
FILLINGS = ("web", "3", "restart", "status")
CAPITALS = re.compile(r"(?<![\w$-])[A-Z][A-Z_]*(?![\w.=])")

# `--for` is an option of `secret set`; no other option is one of these words.
SENTENCE = re.compile(
    r", | \(|…|\b(shows|lists|says|names|prints|does|whether|with|if|then|and|or|its?|the|again)\b|(?<! --)\bfor\b"
)


def usage_error(command: str) -> str:
    """What the parser of the verb says against a command of Holdfast; "" if nothing."""
    said = ""
    for filling in FILLINGS:
        said = _error_of(CAPITALS.sub(filling, _filled(command, filling)))
        if not said:
            break
    return said


def _filled(command: str, filling: str) -> str:
    glued = re.sub(rf"(?<=[a-z0-9]){HOLE}", "", command)  # flags that were given, as `flags.repeated` writes them
    return glued.replace(HOLE, filling)


def _error_of(command: str) -> str:
    try:
        words = shlex.split(command)[1:]
    except ValueError as trouble:
        return str(trouble)
    if words in (["--help"], ["--version"]):
        return ""
    verb, rest = flags.split_verb(words, VERBS.keys() | LATER_PAIRS, nouns())
    verb = ALIASES.get(verb or "", verb or "")
    if verb in LATER or verb in LATER_PAIRS:
        return f"{verb} is not built"
    if verb not in VERBS:
        return f"{verb} is no command"
    try:
        parser_of(verb).parse_args([word for word in rest if word != "--help"])
    except HoldfastError as trouble:
        return trouble.message if "--help" not in rest else ""
    return ""


def of_holdfast(remedy: Remedy) -> list[str]:
    lines = (part for command in commands(remedy.text) for part in chain(command))
    return [command for command in lines if command.split(" ", 1)[0] == "holdfast"]


def test_the_scan_finds_the_remedies() -> None:
    assert len(remedies()) > 1000
    assert sum(bool(of_holdfast(remedy)) for remedy in remedies()) > 300


@pytest.mark.parametrize("remedy", [one for one in remedies() if of_holdfast(one)], ids=lambda one: one.place)
def test_every_command_of_holdfast_in_a_remedy_is_one_its_verb_accepts(remedy: Remedy) -> None:
    """N07: also none that is not built yet."""
    assert {command: said for command in of_holdfast(remedy) if (said := usage_error(command))} == {}, remedy.text


@pytest.mark.parametrize("command", ["holdfast doctor", "holdfast agent upgrade", "holdfast no-such"])
def test_a_remedy_that_names_a_command_that_is_not_built_is_found_n07(command: str) -> None:
    assert usage_error(command)


def test_no_command_in_a_remedy_goes_on_with_words_of_a_sentence() -> None:
    """A verb with a list of names would accept them."""
    found = [(place, command) for place, text in remedies() for command in commands(text)]
    assert [one for one in found if SENTENCE.search(one[1])] == []


@pytest.mark.parametrize(
    ("command", "is_sentence"),
    [
        ("holdfast secret set db --for web", False),
        ("holdfast secret set db --for web and api", True),
        ("holdfast secret set db --for the service", True),
        ("holdfast status for web", True),
        ("holdfast apply --and", True),
    ],
)
def test_the_rule_about_sentences_bites(command: str, is_sentence: bool) -> None:
    assert bool(SENTENCE.search(command)) is is_sentence


def test_every_command_in_a_remedy_can_be_told_from_the_words() -> None:
    """It is a clause, the end of a clause after ": ", or stands in backticks."""
    assert [f"{place}: {text}" for place, text in remedies() if loose(text)] == []
