"""Global flags stand before or after the verb; usage errors are ordinary errors."""

import io
from types import SimpleNamespace
from typing import cast

import pytest

from holdfast.cli import flags, main
from holdfast.cli.terminal import Terminal
from holdfast.cli.tools import Toolbox
from holdfast.cli.verbs import LATER, LATER_PAIRS, VERBS, nouns
from holdfast.errors import Invalid


@pytest.mark.parametrize(
    ("argv", "verb", "rest"),
    [
        (["plan"], "plan", []),
        (["--json", "plan"], "plan", ["--json"]),
        (["--fleet", "apply", "plan"], "plan", ["--fleet", "apply"]),
        (["--fleet=apply", "plan", "--json"], "plan", ["--fleet=apply", "--json"]),
        (["history", "show", "3", "--raw"], "history show", ["3", "--raw"]),
        (["--hub", "x", "history", "--json", "show", "3"], "history show", ["--hub", "x", "--json", "3"]),
        (["history"], "history", []),
        (["hub", "run"], "hub run", []),
        (["hub"], "hub", []),
        ([], None, []),
        (["--json"], None, ["--json"]),
    ],
)
def test_the_verb_is_found_wherever_the_flags_stand(argv: list[str], verb: str | None, rest: list[str]) -> None:
    assert flags.split_verb(argv, VERBS, nouns()) == (verb, rest)


def test_environment_sets_defaults_and_flags_win() -> None:
    parser = flags.parser_for("plan", "x", "")
    args = flags.with_defaults(parser.parse_args(["--hub", "mine"]), {"HOLDFAST_HUB": "theirs", "HOLDFAST_FLEET": "f"})
    assert (args.hub, args.fleet, args.key) == ("mine", "f", None)


def test_a_usage_error_has_a_remedy_and_exit_2() -> None:
    with pytest.raises(Invalid) as refused:
        flags.parser_for("plan", "x", "").parse_args(["--nope"])
    assert refused.value.exit_code == 2 and "--help" in refused.value.remedy


def test_verbs_of_the_contract_are_built_or_said_not_to_be() -> None:
    firsts = {verb.split()[0] for verb in VERBS}
    contract = (
        "init validate plan apply sign rollback history sync deploy ps status logs exec run restart stop start "
        "undeploy retired purge node ca edge backup restore drill migrate order audit secret need grant query graph "
        "build image import hub agent lab token ui doctor completion"
    )
    added = {"force-cleanup"}  # by the issue that owns deploying
    assert set(contract.split()) | added == firsts | LATER and not firsts & LATER


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_every_verb_has_an_example(verb: str) -> None:
    from importlib import import_module

    details: str = import_module("holdfast.cli." + VERBS[verb].module).DETAILS
    assert "example" in details and f"holdfast {verb.split()[0]}" in details


@pytest.mark.parametrize("pair", sorted(LATER_PAIRS))
def test_a_second_word_that_is_not_built_yet_is_told_so_m_32(pair: str) -> None:
    verb, _ = flags.split_verb([*pair.split(), "x"], VERBS.keys() | LATER_PAIRS, nouns())
    assert verb == pair and pair not in VERBS
    assert main._unknown(pair, ()).code == "not_built"


@pytest.mark.parametrize("noun", sorted(nouns() - VERBS.keys()))
def test_a_noun_explains_its_verbs(noun: str) -> None:
    out = io.StringIO()
    box = SimpleNamespace(terminal=Terminal(out, io.StringIO(), io.StringIO()), environ={})
    assert main.run([noun, "--help"], cast(Toolbox, box)) == 0
    own = {name: verb.about for name, verb in VERBS.items() if name.startswith(noun + " ")}
    shown = [line.split(None, 2) for line in out.getvalue().splitlines() if line.startswith("  ")]
    assert own and {f"{first} {second}": about for first, second, about in shown} == own
