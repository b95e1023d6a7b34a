"""`agent join` and `agent run` before there is a hub: tokens as people give them, and what stays of a wrong one."""

import io
import json
import os
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.agent import membership
from holdfast.cli import main
from holdfast.cli.agent import agent_check, agent_journal
from holdfast.cli.terminal import Terminal
from holdfast.model.invite import JoinToken, encode_token
from holdfast.model.journal import JournalEntry, Operation
from holdfast.model.order import OrderResult
from holdfast.model.revision import NO_HEAD, Head
from holdfast.wiring import cli as wiring
from tests.fleets.enrolments import OTHER_KEY, invite, signed_invite

SECRET = sha256(b"once").digest()
NOBODY = "https://127.0.0.1:1"
TOKEN = JoinToken(signed_invite(invite()), SECRET, NOBODY, OTHER_KEY.line, Head(3, "a" * 64))


class Ran:
    def __init__(self, *words: str) -> None:
        out, err = io.StringIO(), io.StringIO()
        self.code = main.run(words, wiring.SystemToolbox(Terminal(out, err, io.StringIO()), {"HOME": "/nowhere"}))
        self.out, self.err = out.getvalue(), err.getvalue()


def remembered(state: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((state / "identity.json").read_text())
    return found


def test_the_token_given_last_says_where_the_hub_is_until_the_node_has_joined(tmp_path: Path) -> None:
    state = tmp_path / "agent"
    for word in (replace(TOKEN, hub="https://127.0.0.1:2", hub_key="ssh-ed25519 AAAA", head=Head(1, "b" * 64)), TOKEN):
        Ran("agent", "join", encode_token(word), "--state-dir", str(state))
    found = remembered(state)
    assert (found["hub"], found["hub_key"]) == (NOBODY, OTHER_KEY.line)
    assert found["head"] == {"number": 3, "digest": "a" * 64}


def test_an_unreachable_hub_is_to_be_asked_again_by_the_caller(tmp_path: Path) -> None:
    """With --json there is nothing but one document on stderr, also when the token is on the command line."""
    ran = Ran("agent", "join", encode_token(TOKEN), "--state-dir", str(tmp_path / "agent"), "--json")
    said = json.loads(ran.err)
    assert (ran.code, said["code"]) == (6, "unavailable")
    assert "repeat the command" in said["remedy"] and "tried again" not in said["remedy"]


def test_run_takes_the_token_from_a_file_or_from_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S-16 of the review. The --url of another hub ends it before it runs."""
    (tmp_path / "token").write_text(encode_token(TOKEN) + "\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO(encode_token(TOKEN) + "\n"))
    for number, source in enumerate((str(tmp_path / "token"), "-")):
        state = tmp_path / f"agent{number}"
        ran = Ran("agent", "run", "--token-file", source, "--url", "https://other", "--state-dir", str(state))
        assert ran.code == 5 and NOBODY in ran.err and "warning" not in ran.err
        assert remembered(state)["node"] == "w1"
    ran = Ran("agent", "run", "--token", encode_token(TOKEN), "--url", "https://other", "--state-dir", str(state))
    warning = json.loads(ran.err.splitlines()[0])
    assert warning["event"] == "warning" and "see the token" in warning["message"], "a log is JSON, line by line"
    ran = Ran("agent", "run", "--token", encode_token(TOKEN), "--url", "https://x", "--state-dir", str(state), "--json")
    assert json.loads(ran.err)["code"] == "failed_precondition", "one document"
    assert "see the token" in Ran("agent", "join", encode_token(TOKEN), "--state-dir", str(state)).err


def test_the_journal_says_when_in_the_form_of_everything_else() -> None:
    done = OrderResult("a" * 64, 1, "done", finished_s=1_700_000_000.0)
    document = agent_journal._document(JournalEntry(Operation("o", "purge", "web", 1_700_000_000.0), (), "done", done))
    assert document["result"]["finished"] == document["begun"] == "2023-11-14T22:13:20Z"
    assert "finished_s" not in document["result"]


def test_a_file_that_a_running_agent_renames_meanwhile_is_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "my agent"
    Ran("agent", "join", encode_token(TOKEN), "--state-dir", str(state))
    there = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: [".holdfast-0.tmp", *there(path)])
    assert list(agent_check._modes(str(state))) == []


def test_a_joined_node_that_lost_its_key_gets_no_other_one(tmp_path: Path) -> None:
    """The fleet knows the old one: with a new key this node could not say who it is."""
    state = tmp_path / "agent"
    Ran("agent", "join", encode_token(TOKEN), "--state-dir", str(state))
    (state / "identity.json").write_text(json.dumps({**remembered(state), "joined": True}))
    again = Ran("agent", "join", encode_token(TOKEN), "--state-dir", str(state))
    assert again.code == 0 and "This machine is now node w1" in again.out
    (state / "node.key").unlink()
    lost = Ran("agent", "join", encode_token(TOKEN), "--state-dir", str(state), "--json")
    assert (lost.code, json.loads(lost.err)["code"]) == (7, "agent_state_damaged")
    assert not (state / "node.key").exists() and "holdfast node invite w1 --replace" in lost.err
    for token in ((), ("--token", encode_token(TOKEN))):
        ran = Ran("agent", "run", *token, "--url", "https://other", "--state-dir", str(state), "--json")
        assert (ran.code, json.loads(ran.err)) == (7, json.loads(lost.err)), "in the same words"
        assert not (state / "node.key").exists()


def test_a_machine_that_lost_its_key_before_it_joined_asks_with_the_new_one(tmp_path: Path) -> None:
    state = tmp_path / "agent"
    Ran("agent", "join", encode_token(TOKEN), "--state-dir", str(state))
    (state / "node.key").unlink()
    Ran("agent", "join", encode_token(TOKEN), "--state-dir", str(state))
    checked = json.loads(Ran("agent", "check", "--state-dir", str(state), "--json").out)
    assert "key" not in [one["code"] for one in checked["findings"]]


def test_the_command_that_follows_a_join_can_be_pasted(tmp_path: Path) -> None:
    state = tmp_path / "my agent"
    Ran("agent", "join", encode_token(TOKEN), "--state-dir", str(state))
    (state / "identity.json").write_text(json.dumps({**remembered(state), "joined": True}))
    ran = Ran("agent", "join", encode_token(TOKEN), "--state-dir", str(state))
    assert ran.err.splitlines()[-1] == f"Next: holdfast agent run --state-dir '{state}'"


REPLACING = replace(TOKEN, invite=signed_invite(invite(replaces=True, over=OTHER_KEY.line)))


def test_replace_counts_also_when_the_join_is_repeated_with_it(tmp_path: Path) -> None:
    """Else the machine begins the services of the lost one with nothing."""
    state, text = tmp_path / "agent", encode_token(REPLACING)
    Ran("agent", "join", text, "--replace", "w1", "--state-dir", str(tmp_path / "at once"))
    assert remembered(tmp_path / "at once")["restores"] is True
    Ran("agent", "join", text, "--state-dir", str(state))
    assert "restores" not in remembered(state)
    for _ in range(2):
        Ran("agent", "join", text, "--replace", "w1", "--state-dir", str(state))
        assert remembered(state)["restores"] is True
    Ran("agent", "join", text, "--state-dir", str(state))
    assert remembered(state)["restores"] is True


def joined_without_replace(state: Path, accepted: Head) -> Ran:
    text = encode_token(REPLACING)
    Ran("agent", "join", text, "--state-dir", str(state))
    known = membership.decode((state / "identity.json").read_bytes(), "it")
    (state / "identity.json").write_bytes(membership.encode(replace(known, joined=True, accepted=accepted)))
    return Ran("agent", "join", text, "--replace", "w1", "--state-dir", str(state))


def test_a_machine_that_joined_and_has_not_begun_takes_the_flag(tmp_path: Path) -> None:
    ran = joined_without_replace(tmp_path / "agent", NO_HEAD)
    assert ran.code == 0 and remembered(tmp_path / "agent")["restores"] is True


def test_a_machine_that_has_begun_without_the_flag_says_so(tmp_path: Path) -> None:
    ran = joined_without_replace(tmp_path / "agent", Head(3, "a" * 64))
    assert ran.code == 5 and "holdfast migrate --all --from w1 --to w1; with --force" in ran.err
    assert "restores" not in remembered(tmp_path / "agent")
