"""Help by noun: it fits the terminal, lists the verbs of a noun, and names the nearest word for a wrong one."""

import io
import json
from types import SimpleNamespace
from typing import cast

import pytest

from holdfast import __version__
from holdfast.cli import flags, main
from holdfast.cli.shell import help
from holdfast.cli.terminal import Terminal
from holdfast.cli.tools import Toolbox
from holdfast.cli.verbs import NOUNS, VERBS, nouns


def ran(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    box = SimpleNamespace(terminal=Terminal(out, err, io.StringIO(), environ_no_colour=True), environ={})
    return main.run(list(words), cast(Toolbox, box)), out.getvalue(), err.getvalue()


def listed(page: str) -> dict[str, str]:
    """Name and text of each row; a text may go on in the next lines."""
    found: dict[str, str] = {}
    at = max(map(len, VERBS)) + 4
    for line in page.splitlines():
        name, about = line[2:at].strip(), line[at:]
        if line.startswith("  ") and name in VERBS:
            found[name] = about
        elif line.startswith(" " * at):
            found[list(found)[-1]] += " " + about
    return found


@pytest.mark.parametrize("words", [(), ("--help",), ("help",)])
def test_the_overview_lists_every_verb_under_its_noun_within_80_columns(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, page, _ = ran(*words)
    assert code == 0 and max(map(len, page.splitlines())) <= 80
    assert listed(page) == {name: verb.about for name, verb in VERBS.items()}
    headings = [line for line in page.splitlines() if line in {noun.title for noun in NOUNS}]
    assert headings == [noun.title for noun in NOUNS]
    before = page[: page.index("\n  order sign")].splitlines()
    assert before[-1] == "orders"


@pytest.mark.parametrize(("columns", "shown"), [("20", 40), ("64", 64), ("300", 100)])
def test_pages_are_as_wide_as_the_terminal_within_bounds_n44(
    columns: str, shown: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    _, page, _ = ran("help", "apply")
    text = page[page.index("Plans, shows") : page.index("examples:")]
    assert shown - 12 <= max(map(len, text.splitlines())) <= shown
    assert "\nExit 1: a step failed" in page, "a line that ends early in the source ends here"
    assert "\n  holdfast plan -o change.plan && holdfast sign change.plan --key ~/.ssh/root && " in page


@pytest.mark.parametrize("verb", VERBS)
def test_the_page_of_every_verb_fits_80_columns_but_for_its_examples(verb: str) -> None:
    page = help.page(verb.split(), 80)
    assert page == flags.loaded(verb, VERBS[verb], 80)[0].format_help().rstrip()
    text = page[: page.rindex("examples:")] if "examples:" in page else page
    long = [line for line in text.splitlines() if len(line) > 80 and not line.startswith("  ")]
    assert long == []


@pytest.mark.parametrize("columns", [40, 55, 80])
@pytest.mark.parametrize("verb", VERBS)
def test_the_usage_of_every_verb_fits_and_breaks_no_option(verb: str, columns: int) -> None:
    usage = help.page(verb.split(), columns).partition("\n\n")[0]
    assert max(map(len, usage.splitlines())) <= columns
    wide = help.page(verb.split(), 1000).partition("\n\n")[0]
    assert " ".join(usage.split()) == wide
    assert all(line.count("[") == line.count("]") for line in usage.splitlines())


@pytest.mark.parametrize("noun", sorted(nouns() - VERBS.keys()))
def test_a_noun_alone_lists_its_verbs(noun: str) -> None:
    own = {name: verb.about for name, verb in VERBS.items() if name.startswith(noun + " ")}
    for words, expected in (((noun, "--help"), 0), (("help", noun), 0), ((noun,), 2)):
        code, page, _ = ran(*words)
        assert (code, listed(page)) == (expected, own)
    code, page, trouble = ran(noun, "--json")
    assert (code, page, json.loads(trouble)["code"]) == (2, "", "usage"), "a program gets an error"


def test_a_heading_lists_its_verbs_too() -> None:
    services = next(noun for noun in NOUNS if noun.title == "services")
    assert listed(ran("services")[1]) == {name: verb.about for name, verb in services.verbs.items()}


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (("lgos",), "`holdfast logs`"),
        (("nodes", "list"), "`holdfast node list`"),
        (("tokn",), "`holdfast token`"),
        (("lab", "stop"), '"lab start"'),
        (("history", "shwo", "3"), "`holdfast history show`"),
        (("help", "node", "lst"), '"node list"'),
        (("help", "aply"), "`holdfast apply`"),
        (("plan", "--allow-removal", "3"), "--allow-removals"),
        (("apply", "--detatch"), "--detach"),
    ],
)
def test_the_nearest_word_is_named(words: tuple[str, ...], near: str) -> None:
    code, _, trouble = ran(*words, "--json")
    assert code == 2 and json.loads(trouble)["remedy"].startswith(f"did you mean {near}? ")


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5", ""])
def test_a_wrong_number_is_named_as_such(text: str) -> None:
    code, _, trouble = ran("history", f"--limit={text}")
    assert code == 2 and f"argument --limit: {text!r} is not a number of 1 or more" in trouble


def test_a_word_that_is_near_to_nothing_gets_no_guess() -> None:
    assert "did you mean" not in ran("xyzzy")[2]


def test_the_version_is_printed_for_people_and_programs_n44() -> None:
    assert ran("version")[1] == f"holdfast {__version__}\n"
    assert json.loads(ran("version", "--json")[1]) == {"version": __version__}
