"""`hub init` makes the hub's key once and says its public half; `hub run` refuses what cannot be before it listens."""

import io
import json
import os
import stat
from pathlib import Path

import pytest

from holdfast.adapters.certificates import x509
from holdfast.adapters.identity_key import file as key_file
from holdfast.wiring import cli as wiring

TRUST = "ab" * 32


@pytest.fixture(autouse=True)
def nobody_at_the_keyboard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())


def init(folder: Path, *words: str) -> int:
    return wiring.command_line(["hub", "init", "--trust", TRUST, "--state-dir", str(folder), *words])


def test_the_key_is_made_once_and_its_public_half_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "hub"
    assert init(state, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    kept = key_file.load(str(state / "hub.key"))
    assert kept is not None
    assert said == {"state_dir": str(state), "fleet": TRUST, "hub_key": kept.line}
    assert stat.S_IMODE(os.stat(state / "hub.key").st_mode) == 0o600
    assert stat.S_IMODE(os.stat(state).st_mode) == 0o700
    assert init(state, "--json") == 0, "the same fleet: nothing is made, and the key is said again"
    assert json.loads(capsys.readouterr().out) == said
    assert init(state) == 0
    again = capsys.readouterr().out
    assert "already exists" in again and f'hub_key = "{kept.line}"' in again
    assert wiring.command_line(["hub", "init", "--trust", "cd" * 32, "--state-dir", str(state), "--json"]) == 5
    assert '"already_exists"' in capsys.readouterr().err
    assert key_file.load(str(state / "hub.key")).line == kept.line  # type: ignore[union-attr]


def test_a_key_made_before_a_crash_is_the_key_afterwards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from holdfast.adapters.disk.posix import PosixDisk
    from holdfast.adapters.random_source.system import SystemRandom

    made = key_file.make(str(tmp_path / "hub" / "hub.key"), PosixDisk(), SystemRandom())
    assert init(tmp_path / "hub", "--json") == 0
    assert json.loads(capsys.readouterr().out)["hub_key"] == made.line


def test_a_person_is_shown_the_line_for_fleet_toml(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert init(tmp_path / "hub") == 0
    assert 'hub_key = "ssh-ed25519 ' in capsys.readouterr().out


def test_names_are_in_the_certificate_of_that_key(tmp_path: Path) -> None:
    assert init(tmp_path / "hub", "--name", "hub.example", "--name", "192.0.2.7", "-q") == 0
    facts = x509.facts((tmp_path / "hub" / "hub.crt").read_bytes())
    assert (facts.names, facts.addresses) == (("hub.example",), ("192.0.2.7",))


def test_a_command_that_is_refused_changes_neither_key_nor_certificate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "my hub"
    assert init(state, "--name", "hub.example") == 0
    assert f"Next: holdfast hub run --state-dir '{state}'" in capsys.readouterr().out
    before = {path.name: path.read_bytes() for path in state.iterdir() if path.suffix in (".key", ".crt")}
    (state / "hub.key").rename(tmp_path / "hub.key")
    other = ["hub", "init", "--trust", "cd" * 32, "--state-dir", str(state), "--name", "other.example"]
    assert wiring.command_line(other) == 5 and not (state / "hub.key").exists()
    (tmp_path / "hub.key").rename(state / "hub.key")
    assert wiring.command_line(other) == 5
    assert {name: (state / name).read_bytes() for name in before} == before


@pytest.mark.parametrize("name", ["", "*.example", "a b", "-x", "x" * 300])
def test_a_name_nobody_can_be_called_by_is_refused(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init(tmp_path / "hub", f"--name={name}", "--json") == 2
    assert not (tmp_path / "hub" / "ledger.db").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--pace", "slow"),
        ("--alert-command", "logger 'unclosed"),
        ("--listen", "9555"),
        ("--listen", "127.0.0.1:70000"),
        ("--name", "*"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_listens(
    tmp_path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert init(tmp_path / "hub", "-q") == 0
    assert wiring.command_line(["hub", "run", "--state-dir", str(tmp_path / "hub"), "--json", *words]) == 2
    assert '"remedy"' in capsys.readouterr().err


def test_a_check_says_the_hubs_key_and_makes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So that "compare with hub_key" can be done where the hub is, at any time."""
    state = tmp_path / "hub"
    assert init(state, "--json") == 0
    line = json.loads(capsys.readouterr().out)["hub_key"]
    check = ["hub", "check", "--state-dir", str(state)]
    assert wiring.command_line(check) == 0
    assert f'hub_key = "{line}"' in capsys.readouterr().out
    assert wiring.command_line([*check, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hub_key"] == line
    (state / "hub.key").unlink()
    assert wiring.command_line([*check, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hub_key"] == ""
    assert not (state / "hub.key").exists()
    (state / "hub.key").write_text("rubbish")
    assert wiring.command_line(check) == 0, "the verdict is of the ledger"
    assert "hub.key" in capsys.readouterr().err
