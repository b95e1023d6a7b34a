"""`token create|list|revoke`: the secret is said once and alone on stdout; a mistake never repeats it."""

import io
import json
from argparse import Namespace
from typing import Any, cast

import pytest

from holdfast.adapters.clock.virtual import VirtualClock
from holdfast.adapters.ledger_store.memory import MemoryStore
from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.cli import main
from holdfast.cli.terminal import Terminal
from holdfast.cli.tools import Toolbox
from holdfast.hub.http.tokens import Tokens
from holdfast.model.principal import Principal
from holdfast.model.token import NewToken, Token

NOW_S = 1_700_000_000.0


class Desk:
    """The tokens of a hub without the hub."""

    def __init__(self) -> None:
        clock = VirtualClock(NOW_S)
        self.book = Tokens(MemoryStore(), clock, SeededRandom(3))

    def create_token(self, name: str, expires_in_s: int) -> NewToken:
        return self.book.create(Principal("operator", "alice"), name, expires_in_s)

    def tokens(self) -> tuple[Token, ...]:
        return self.book.list()

    def revoke_token(self, token_id: str) -> Token:
        return self.book.revoke(token_id)


class Box:
    def __init__(self) -> None:
        self.desk = Desk()
        self.environ: dict[str, str] = {}
        self.hubs = Namespace(tokens=self._tokens)

    def _tokens(self, target: str) -> Desk:
        assert target == "https://hub.example"
        return self.desk


class Ran:
    def __init__(self, box: Box, *words: str) -> None:
        out, err = io.StringIO(), io.StringIO()
        box.terminal = Terminal(out, err, io.StringIO())  # type: ignore[attr-defined]
        self.code = main.run([*words, "--hub", "https://hub.example"], cast(Toolbox, box))
        self.out, self.err = out.getvalue(), err.getvalue()

    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def box() -> Box:
    return Box()


def test_the_secret_is_alone_on_stdout(box: Box) -> None:
    ran = Ran(box, "token", "create", "--name", "ci", "--expires", "12h")
    assert ran.code == 0
    text = ran.out.strip()
    assert box.desk.book.principal_of(text).name == "ci"
    assert text not in ran.err and "2023-11-15T10:13:20Z" in ran.err
    assert f"holdfast token revoke {text[3:19]}" in ran.err
    assert text.split("_", 2)[2] not in Ran(box, "token", "list").out


def test_json_says_the_same(box: Box) -> None:
    made = Ran(box, "token", "create", "--json").json()
    assert box.desk.book.principal_of(made["text"]).key == made["token"]["id"]
    assert (made["token"]["created"], made["token"]["expires"]) == ("2023-11-14T22:13:20Z", "2023-12-14T22:13:20Z")
    assert made["token"]["revoked"] is None
    listed = Ran(box, "token", "list", "--json").json()["tokens"]
    assert listed == [made["token"]]
    ended = Ran(box, "token", "revoke", made["token"]["id"], "--json").json()["token"]
    assert ended["revoked"] == "2023-11-14T22:13:20Z"


def test_the_list_shows_who_what_and_until_when(box: Box) -> None:
    Ran(box, "token", "create", "--name", "grafana", "--expires", "1h")
    (line,) = Ran(box, "token", "list").out.splitlines()
    assert all(word in line for word in ("read", "until 2023-11-14T23:13:20Z", "operator:alice", "grafana"))


def test_no_token_is_no_failure(box: Box) -> None:
    ran = Ran(box, "token", "list")
    assert (ran.code, ran.out) == (0, "")
    assert "holdfast token create" in ran.err


@pytest.mark.parametrize("expires", ["0d", "367d", "1000000h", "soon", "1", "-1d", "1h\n", "500ms"])
def test_a_time_that_is_none_is_a_usage_error(expires: str, box: Box) -> None:
    ran = Ran(box, "token", "create", f"--expires={expires}")
    assert ran.code == 2 and ran.out == ""


@pytest.mark.parametrize("name", [" x", "x" * 65, "x\ny", "grün"])
def test_a_name_that_is_none_is_a_usage_error(name: str, box: Box) -> None:
    assert Ran(box, "token", "create", "--name", name).code == 2


def test_a_whole_token_given_for_its_id_is_not_repeated(box: Box) -> None:
    text = Ran(box, "token", "create", "-q").out.strip()
    for flags in ((), ("--json",)):
        ran = Ran(box, "token", "revoke", text, *flags)
        assert ran.code == 2
        assert text.split("_", 2)[2] not in ran.out + ran.err


def test_an_unknown_id_is_said(box: Box) -> None:
    ran = Ran(box, "token", "revoke", "0" * 16)
    assert ran.code == 2 and "holdfast token list" in ran.err


def test_what_a_hub_sends_as_a_token_cannot_move_the_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box()
    made = box.desk.create_token("x", 60)
    monkeypatch.setattr(box.desk, "create_token", lambda *_: NewToken(made.token, "\x1b[2J"))
    assert Ran(box, "token", "create").out == "\\x1b[2J\n"
