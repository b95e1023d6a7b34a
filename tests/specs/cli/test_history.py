"""History: what changed, who signed, and why; a list that was cut says so."""

import io
import json
from argparse import Namespace
from pathlib import Path
from typing import cast

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.cli.fleet import history
from holdfast.cli.terminal import Terminal
from holdfast.cli.tools import Toolbox
from holdfast.model.record import Approval, RevisionRecord, Signer
from tests.fleets.build import START_S, grown_mailbox
from tests.fleets.commands import Scene, changed, scene
from tests.specs.cli.test_terminal import CONTROLS, HOSTILE, Screen

HUB = grown_mailbox(5)


class Capped:
    """Gives three records at most, as a hub gives a thousand."""

    def records(self, newest: int, limit: int) -> list[RevisionRecord]:
        return HUB.records(newest, min(limit, 3))


def remarks(hub: object, limit: int, as_json: bool = False) -> str:
    out, err = io.StringIO(), io.StringIO()
    box = Namespace(
        terminal=Terminal(out, err, io.StringIO()),
        hubs=Namespace(reader=lambda target: hub),
        disk=Namespace(read=lambda path, bytes_max: None),
    )
    assert history.run(Namespace(limit=limit, json=as_json, hub="somewhere", fleet="."), cast(Toolbox, box)) == 0
    return err.getvalue()


@pytest.mark.parametrize("as_json", [False, True])
def test_a_list_that_was_cut_says_so_and_how_to_see_older_ones(as_json: bool) -> None:
    said = remarks(Capped(), 4, as_json)
    assert "Only the newest" in said and "holdfast history show 2" in said


@pytest.mark.parametrize("limit", [5, 50])
def test_a_whole_list_says_nothing(limit: int) -> None:
    assert remarks(HUB, limit) == ""


@pytest.mark.parametrize("limit", [1, 3])
def test_as_many_as_were_asked_for_is_no_cut(limit: int) -> None:
    assert remarks(Capped(), limit) == ""


def test_nothing_applied_yet_is_said_and_is_no_failure() -> None:
    assert "Nothing has been applied yet" in remarks(None, 5)


# ---- what changed, and why

WHY = "raise the upload limit – für Ümläute"


def shown(record: RevisionRecord, columns: int = 0) -> str:
    out = Screen() if columns else io.StringIO()
    hub = Namespace(records=lambda newest, limit: [record])
    terminal = Terminal(out, io.StringIO(), io.StringIO(), size=lambda stream: (columns, 24))
    box = Namespace(terminal=terminal, hubs=Namespace(reader=lambda target: hub))
    history.run(Namespace(limit=1, json=False, hub="somewhere", fleet="."), cast(Toolbox, box))
    return out.getvalue()


def a_record(**more: object) -> RevisionRecord:
    approval = Approval("apply", (Signer("alice", "SHA256:x", "apply"), Signer("bob", "SHA256:y", "apply")))
    return replace(RevisionRecord(1, "ab" * 32, (), START_S, approval, {"create": 1, "update": 5}), **more)


def test_a_revision_names_its_first_addresses_its_signers_and_its_message_n37() -> None:
    line = shown(a_record(addresses=("service.a", "service.b", "service.c", "service.d"), message=WHY))
    assert "abababababab  signed by alice, bob  1 create, 5 update: service.a, service.b, service.c, +3 more" in line
    assert line.rstrip().endswith(f"+3 more  {WHY}")


def test_a_narrow_terminal_hides_neither_addresses_nor_message() -> None:
    line = shown(a_record(addresses=("service.a",), message=WHY), columns=60)
    assert "service.a, +5 more" in line and WHY in line


def test_a_revision_of_an_older_release_shows_its_counts() -> None:
    assert shown(a_record()).rstrip().endswith("signed by alice, bob  1 create, 5 update")


def test_the_message_of_a_hostile_hub_is_harmless_and_short() -> None:
    line = shown(a_record(message=HOSTILE + "\nforged " + "x" * 10_000))
    assert not CONTROLS & set(line) and line.count("\n") == 1 and len(line) < 500


def test_every_applying_verb_records_its_message_n37(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        verbs = (("apply",), ("deploy", "web"), ("sync",), ("undeploy", "web"), ("rollback", "1"))
        for version, verb in enumerate(verbs, 5):
            one.operator.fleet = changed(one.operator.fleet, web=version)
            one.operator.does(*verb, "--yes", "--detach", "-m", f"{verb[0]}: {WHY}")
            newest = one.operator.shows("history")["revisions"][0]
            assert newest["message"] == f"{verb[0]}: {WHY}" and "service.web" in newest["addresses"], verb
        number = str(newest["number"])
        assert one.operator.shows("history", "show", number)["message"] == newest["message"]
        assert f"message (not signed): {newest['message']}" in one.operator.does("history", "show", number)
        assert one.operator.shows("history", "show", "1")["message"] == ""
        assert "does not keep messages" not in one.operator.err.getvalue()

    scene(tmp_path, story)


@pytest.mark.parametrize("text", [HOSTILE, "two\nlines", "a\u202egpj.exe", "x" * 201, "x" * 10_240, "\x00", "a\u2028b"])
def test_a_message_that_could_deceive_a_reader_is_refused_with_a_remedy(tmp_path: Path, text: str) -> None:
    async def story(one: Scene) -> None:
        one.operator.fleet = changed(one.operator.fleet, web=5)
        before = one.rig.head
        one.operator.does("apply", "--yes", "-m", text, "--json", code=2)
        complaint = one.operator.complaint
        assert "message" in complaint["message"] and "at most 200 printable characters" in complaint["remedy"]
        assert one.rig.head == before and len(json.dumps(complaint)) < 1_000

    scene(tmp_path, story)


def test_a_hub_of_an_older_release_loses_the_message_and_the_command_says_so(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        kept = one.operator.held.commit
        one.operator.held.commit = lambda candidate: kept(replace(candidate, message=UNSET))  # type: ignore[method-assign]
        one.operator.fleet = changed(one.operator.fleet, web=5)
        one.operator.does("apply", "--detach", "-m", WHY)
        assert "which does not keep messages" in one.operator.err.getvalue()

    scene(tmp_path, story)
