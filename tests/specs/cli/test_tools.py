"""The frame around a command: what was opened is closed, questions end, a wrong --config is told apart."""

import getpass
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.cli.fleet import init
from holdfast.cli.terminal import Terminal
from holdfast.errors import Failed, Invalid
from holdfast.hub.ledger.legacy import directory_of
from holdfast.ports.ledger_store import Transaction
from holdfast.wiring import cli as wiring


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal() -> tuple[Terminal, Screen]:
    screen = Screen()
    return Terminal(screen, screen, screen, environ_no_colour=True), screen


def test_everything_opened_is_closed_and_trouble_in_closing_is_nobody_elses(tmp_path: Path) -> None:
    box = wiring.SystemToolbox(terminal()[0], {})
    store = box.ledgers.store(str(tmp_path / "ledger"), create=True)
    box._endings.append(lambda: 1 // 0)  # type: ignore[arg-type]
    reader = box.ledgers.reader(str(tmp_path / "ledger"))
    box.close()
    box.close()
    for closed in (store, reader):
        with pytest.raises(Exception, match="closed"):
            closed.revision()
    with pytest.raises(Exception, match="closed"):
        store.commit(Transaction(expect={}, put={"a": b""}))


def test_a_command_closes_its_toolbox_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []
    monkeypatch.setattr(wiring.SystemToolbox, "close", lambda box: closed.append(box))
    assert wiring.command_line(["--help"]) == 0
    assert wiring.command_line(["nonsense"]) == 2
    assert len(closed) == 2


def test_ctrl_d_at_a_passphrase_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(prompt: str, stream: object) -> str:
        raise EOFError

    monkeypatch.setattr(getpass, "getpass", ended)
    with pytest.raises(Failed, match="nothing was typed") as refused:
        terminal()[0].secret("Passphrase:")
    assert refused.value.code == "declined"
    assert refused.value.remedy


def asked(*answers: str) -> tuple[Any, list[str]]:
    left = list(answers)
    place, _ = terminal()
    place.secret = lambda prompt: left.pop(0)  # type: ignore[method-assign]
    return SimpleNamespace(terminal=place), left


def test_a_passphrase_typed_differently_three_times_is_given_up() -> None:
    box, left = asked("a", "b", "c", "d", "e", "f", "never", "asked")
    with pytest.raises(Failed) as refused:
        init._passphrase(box)
    assert (refused.value.code, left) == ("declined", ["never", "asked"])
    box, _ = asked("a", "b", "a", "b", "good", "good")
    assert init._passphrase(box) == "good"


def test_a_legacy_source_is_named_by_its_fleet_toml(tmp_path: Path) -> None:
    assert directory_of("fleet.toml") == "."
    assert directory_of("old/fleet.toml") == "old"
    for wrong, named in (
        ("old/holdfast.toml", "DIR/fleet.toml"),
        ("", "DIR/fleet.toml"),
        (str(tmp_path), f"{tmp_path}/fleet.toml"),
        (f"{tmp_path}/", f"{tmp_path}/fleet.toml"),
    ):
        with pytest.raises(Invalid) as refused:
            directory_of(wrong)
        assert refused.value.code == "config_name"
        assert named in refused.value.remedy


@pytest.mark.parametrize("name", ["other.toml", ""])
def test_hub_run_refuses_a_config_of_another_name(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fleet.toml beside it would have been served in its place, and an empty name would have meant the ledger."""
    monkeypatch.setattr("sys.stdin", io.StringIO())
    (tmp_path / "fleet.toml").write_text("")
    (tmp_path / "other.toml").write_text("")
    config = str(tmp_path / name) if name else ""
    assert wiring.command_line(["hub", "run", "--json", "--config", config]) == 2
    assert '"code":"config_name"' in capsys.readouterr().err
