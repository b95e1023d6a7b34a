"""Global flags stand before or after the verb; usage errors are ordinary errors."""

import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from holdfast.cli import flags
from holdfast.cli.noun import FOLDERS, LATER, LATER_PAIRS, rows_in, rows_of
from holdfast.cli.shell import help
from holdfast.cli.verbs import VERBS, nouns
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
        "build image import hub agent lab token ui doctor completion schedule volume resync checkpoint"
    )
    added = {"force-cleanup", "help", "version"}  # by later issues
    assert set(contract.split()) | added == firsts | LATER and not firsts & LATER


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_every_verb_has_an_example(verb: str) -> None:
    details = flags.command(verb, VERBS[verb]).details
    assert "example" in details and f"holdfast {verb.split()[0]}" in details


@pytest.mark.parametrize("pair", sorted(LATER_PAIRS))
def test_a_second_word_that_is_not_built_yet_is_told_so_m_32(pair: str) -> None:
    verb, _ = flags.split_verb([*pair.split(), "x"], VERBS.keys() | LATER_PAIRS, nouns())
    assert verb == pair and pair not in VERBS
    assert help.unknown(pair, ()).code == "not_built"


@pytest.mark.parametrize(
    ("typed", "meant"), [("lab stop", "lab start"), ("secret lst", "secret list"), ("node lst", "node list")]
)
def test_an_unknown_second_word_is_named_with_the_nearest_one_n35(typed: str, meant: str) -> None:
    noun, word = typed.split()
    refusal = help.unknown(noun, ("--json", word))
    assert refusal.message == f'unknown command "{typed}"' and refusal.remedy.startswith(f'did you mean "{meant}"?')
    assert "needs a verb" in help.unknown(noun, ("--json",)).message


@pytest.mark.parametrize("hub", ["127.0.0.1:9555", "hub.example:9555", "[::1]:9555"])
def test_a_hub_without_its_scheme_is_understood_n41(hub: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def understood(given: str, **environ: str) -> str | None:
        found = flags.with_defaults(Namespace(fleet="", hub=given, key=""), environ).hub
        assert found is None or isinstance(found, str)
        return found

    assert understood(hub) == understood("", HOLDFAST_HUB=hub) == f"https://{hub}"
    (tmp_path / hub).mkdir()
    assert understood(hub) == hub, "a ledger directory of that name"
    assert (understood("./ledger"), understood("")) == ("./ledger", None)


def test_each_folder_is_found_by_the_first_words_of_its_verbs() -> None:
    for folder, words in FOLDERS.items():
        own = rows_in(folder).verbs
        assert list(dict.fromkeys(name.partition(" ")[0] for name in own)) == words.split(" "), folder
        assert all(rows_of(name.partition(" ")[0]) is own for name in own)
    assert rows_of("nothing") == {}


def test_a_command_loads_the_rows_of_its_own_folder_only(tmp_path: Path) -> None:
    script = (
        "import sys; from holdfast.wiring.cli import command_line;"
        f"command_line(['init', {str(tmp_path / 'f')!r}, '--yes', '-q']);"
        "print(*(n for n in sys.modules if n.endswith('.verbs') and n.startswith('holdfast.cli.')))"
    )
    env = {**os.environ, "HOME": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=env)
    assert ran.stdout.splitlines()[-1] == "holdfast.cli.fleet.verbs"


def test_the_rows_of_all_verbs_load_no_command_adr_0003() -> None:
    script = "import sys, holdfast.cli.verbs; print(*(n for n in sys.modules if n.startswith('holdfast.cli.')))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    rooms = {f"holdfast.cli.{verb.module.partition('.')[0]}" for verb in VERBS.values()} - {"holdfast.cli.logs"}
    assert set(ran.stdout.split()) == {
        *("holdfast.cli.verbs", "holdfast.cli.noun"),
        *rooms,
        *(f"{room}.verbs" for room in rooms),
    }
