"""The commands in a remedy use the fleet and the hub of the call."""

import io
import json
from pathlib import Path

import pytest

from holdfast.cli.hub import hub_check, show_finding
from holdfast.cli.remedies import complete, for_pasting
from holdfast.cli.terminal import Terminal
from holdfast.declared.problem import Problem, Problems
from holdfast.hub.ledger.ledger_check import Verdict
from holdfast.ledger.boot_findings import Finding
from holdfast.model.invite import encode_token
from holdfast.model.report import NodeFinding, Parked
from tests.fleets.commands import Scene, scene
from tests.fleets.tools import HUB
from tests.specs.cli.test_agent_verbs import TOKEN, Ran


@pytest.mark.parametrize(
    ("remedy", "pasted"),
    [
        ("`holdfast history` lists them", "`holdfast history --fleet 'a b' --hub h` lists them"),
        (
            "holdfast ps && holdfast node show w1 --fleet 'a b'",
            "holdfast ps --fleet 'a b' --hub h && holdfast node show w1 --fleet 'a b' --hub h",
        ),
        ("holdfast hub init --trust X; holdfast init x; holdfast plan --help", None),
        ("use the holdfast command; holdfast --help", None),
    ],
)
def test_a_remedy_repeats_the_fleet_and_the_hub_of_the_call(remedy: str, pasted: str | None) -> None:
    assert for_pasting(remedy, ["apply", "--fleet", "a b", "--hub=h"]) == (pasted or remedy)
    assert for_pasting(remedy, ["apply"]) == remedy


@pytest.mark.parametrize(
    ("call", "remedy", "pasted"),
    [
        ("lab exec w1 --dir d -- x --dir e", "holdfast lab start w1", "holdfast lab start w1 --dir d"),
        ("lab --dir d exec w1", "holdfast lab exec w1 -- CMD", "holdfast lab exec w1 --dir d -- CMD"),
        ("lab status", "holdfast lab up", "holdfast lab up"),
        ("agent check --state-dir s", "holdfast agent join TOKEN", "holdfast agent join TOKEN --state-dir s"),
        ("agent check --state-dir s", "holdfast hub check", "holdfast hub check"),
        ("hub run --state-dir s", "holdfast hub check", "holdfast hub check --state-dir s"),
        ("hub check --state-dir s", "holdfast import ledger", "holdfast import ledger --state-dir s"),
        ("hub run --state-dir s", "holdfast hub init --state-dir DIR", "holdfast hub init --state-dir DIR"),
        ("hub run --state-dir s", "`holdfast agent join TOKEN`", "`holdfast agent join TOKEN`"),
        ("hub check --hub l", "holdfast hub check --sweep", "holdfast hub check --sweep --hub l"),
        ("plan --hub l", "`holdfast hub check` names it", "`holdfast hub check --hub l` names it"),
        ("plan --hub https://h:9555", "holdfast hub check", "holdfast hub check"),
    ],
)
def test_a_remedy_repeats_the_directory_of_the_call(call: str, remedy: str, pasted: str) -> None:
    """Of a lab, of a hub, or of an agent."""
    assert for_pasting(remedy, call.split()) == pasted


def test_remedies_for_programs_repeat_them_too(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        finding = NodeFinding("schedule_failed", "it broke", "holdfast schedule logs web nightly")
        one.says(one.state("converged"), findings=(finding,))
        flags = f"--fleet {one.operator.home / 'fleet'} --hub {HUB}"
        for verb in (("status",), ("node", "show", "w1")):
            found = json.loads(one.operator.does(*verb, "--json"))["findings"]
            (remedy,) = [each["remedy"] for each in found if each["code"] == "schedule_failed"]
            assert remedy == f"holdfast schedule logs web nightly {flags}"
        one.says(one.state("converged"), parked=(Parked("service.web", "its data", "holdfast order list", 0.0),))
        (parked,) = json.loads(one.operator.does("node", "show", "w1", "--json"))["parked"]
        assert parked["remedy"] == f"holdfast order list {flags}"

    scene(tmp_path, story)


def test_remedies_of_the_checks_for_programs_repeat_the_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = str(tmp_path / "agent")
    Ran("agent", "join", encode_token(TOKEN), "--state-dir", state)
    (tmp_path / "agent" / "node.key").unlink()
    found = json.loads(Ran("agent", "check", "--state-dir", state, "--json").out)["findings"]
    (remedy,) = [each["remedy"] for each in found if each["code"] == "key"]
    assert remedy.endswith(f"holdfast agent join TOKEN --state-dir {state}")
    again = Finding("chain_broken", "fatal", "it is broken", "look again: holdfast hub check")
    monkeypatch.setattr(hub_check, "_examine", lambda *given: Verdict((again,), 1, 1, 1))
    hub = str(tmp_path)
    (shown,) = json.loads(Ran("hub", "check", "--state-dir", hub, "--json").out)["findings"]
    assert shown["remedy"] == f"look again: holdfast hub check --state-dir {hub}"


def test_the_remedies_of_mistakes_in_a_fleet_directory_repeat_it_too() -> None:
    """They are part of the message."""
    trouble = Problems([Problem("services/a.toml", 4, "secrets", "there is none", "holdfast secret set pw; or guess")])
    complete(trouble, ["plan", "--fleet", "a b"])
    said = "holdfast secret set pw --fleet 'a b'; or guess"
    assert trouble.message == f"services/a.toml:4: secrets: there is none; {said}"
    assert [problem.remedy for problem in trouble.problems] == [said]


def test_a_finding_in_one_line_repeats_them_too() -> None:
    terminal = Terminal(io.StringIO(), io.StringIO(), io.StringIO())
    terminal.argv = ["apply", "--hub", "l"]
    found = Finding("blob_missing", "resource", "it is lost", "store it: holdfast apply", "service.web")
    assert show_finding.line(found, terminal).endswith("store it: holdfast apply --hub l")
