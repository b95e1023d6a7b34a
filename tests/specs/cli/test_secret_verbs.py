"""`secret set | list | rotate`: sealed to whoever needs it, from any source but the command line, shown to nobody."""

import io
import json
import sqlite3
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.cli.secrets.identity_file import identity_path
from holdfast.cli.secrets.secret_value import VALUE_BYTES_MAX
from holdfast.cli.terminal import Terminal
from holdfast.model import canonical, sealed
from holdfast.wiring import cli as wiring
from tests.fleets.sealing import CANARY, node_key, node_opener, person, person_file
from tests.specs.declared.declared_fleets import key_line

VALUE = CANARY.decode()


def fleet_text(nodes: dict[str, str], recipients: dict[str, str]) -> str:
    people = "".join(
        f'[[operators]]\nname = "{name}"\ngrade = "root"\nkey = "{key_line(at)}"\n'
        + (f'recipient = "{recipient}"\n' if recipient else "")
        for at, (name, recipient) in enumerate(recipients.items(), 1)
    )
    machines = "".join(
        f'[[nodes]]\nname = "{name}"\nroles = ["worker"]\n' + (f'key = "{key}"\n' if key else "")
        for name, key in nodes.items()
    )
    return f'[fleet]\nname = "home"\n{people}{machines}'


def service(node: str, *secrets: str, failover: str = "[]") -> str:
    named = ", ".join(f'"{name}"' for name in secrets)
    image = f"registry.test/web@sha256:{'1' * 64}"
    return (
        f'node = "{node}"\nfailover = {failover}\n'
        f'[[components]]\nname = "app"\nimage = "{image}"\nsecrets = [{named}]\n'
    )


class Typing(Terminal):
    """Somebody sits there and types these."""

    typed: list[str] = []  # noqa: RUF012 (set by the test)

    def is_interactive(self) -> bool:
        return bool(self.typed)

    def secret(self, prompt: str) -> str:
        return self.typed.pop(0)


class Home:
    def __init__(self, tmp_path: Path) -> None:
        self.root = tmp_path
        self.fleet = tmp_path / "fleet"
        (self.fleet / "services").mkdir(parents=True)
        self.declare({"w1": node_key("w1"), "w2": node_key("w2"), "w3": ""}, {"ada": person("ada")})
        identity = tmp_path / ".config" / "holdfast" / "identity.age"
        identity.parent.mkdir(parents=True)
        identity.write_bytes(person_file("ada"))
        self.said = self.complained = ""

    def declare(self, nodes: dict[str, str], recipients: dict[str, str]) -> None:
        (self.fleet / "fleet.toml").write_text(fleet_text(nodes, recipients))

    def service(self, name: str, text: str) -> None:
        (self.fleet / "services" / f"{name}.toml").write_text(text)

    def run(self, *words: str, piped: bytes = b"", typed: tuple[str, ...] = ()) -> int:
        out, err = io.StringIO(), io.StringIO()
        terminal = Typing(out, err, io.TextIOWrapper(io.BytesIO(piped)), environ_no_colour=True)
        terminal.typed = list(typed)
        box = wiring.SystemToolbox(terminal, {"HOME": str(self.root)})
        try:
            code = main.run([*words, "--fleet", str(self.fleet)], box)
        finally:
            box.close()
        self.said, self.complained = out.getvalue(), err.getvalue()
        assert VALUE not in self.said + self.complained
        return code

    def file(self, name: str) -> bytes:
        return sealed.bare((self.fleet / "secrets" / f"{name}.age").read_bytes())

    def opened(self, name: str, node: str = "w1") -> bytes:
        return node_opener(node).open(self.file(name))

    def recipients(self, name: str) -> tuple[set[str], int]:
        tags = {sealed.tag_of(node_key(node)): node for node in ("w1", "w2", "w3", "w4")}
        seen = sealed.read(self.file(name))
        return {tags[tag] for tag in seen.tags}, seen.anonymous


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path)
    found.service("web", service("w1", "db"))
    return found


# ---- set


@pytest.mark.parametrize(
    ("piped", "value"),
    [
        (CANARY, CANARY),
        (CANARY + b"\n", CANARY),
        (CANARY + b"\r\n", CANARY),
        (CANARY + b"\n\n", CANARY + b"\n"),
        (b"\0\xff", b"\0\xff"),
    ],
)
def test_a_piped_value_is_sealed_without_its_last_line_break(home: Home, piped: bytes, value: bytes) -> None:
    assert home.run("secret", "set", "db", piped=piped) == 0
    assert home.opened("db") == value
    assert home.recipients("db") == ({"w1"}, 1)


def test_a_typed_value_is_asked_for_twice(home: Home) -> None:
    assert home.run("secret", "set", "db", typed=("slip", VALUE, VALUE, VALUE)) == 0
    assert home.opened("db") == CANARY and "The values differ" in home.complained


def test_two_values_that_keep_differing_are_none(home: Home) -> None:
    assert home.run("secret", "set", "db", typed=("a", "b") * 3) == 1
    assert not (home.fleet / "secrets").exists()


def test_a_file_is_taken_byte_for_byte(home: Home) -> None:
    (home.root / "value").write_bytes(CANARY + b"\n")
    assert home.run("secret", "set", "db", "--file", str(home.root / "value")) == 0
    assert home.opened("db") == CANARY + b"\n"
    assert home.run("secret", "set", "other", "--file", str(home.root / "nowhere")) == 2


def test_a_generated_value_is_another_one_each_time(home: Home) -> None:
    assert home.run("secret", "set", "db", "--generate") == 0
    first = home.opened("db")
    assert len(first) == 64 and first.decode() not in home.said + home.complained
    assert home.run("secret", "rotate", "db", "--generate", "16") == 0
    assert len(home.opened("db")) == 32 and not first.startswith(home.opened("db"))


@pytest.mark.parametrize(
    ("words", "piped"),
    [
        ((), b""),
        ((), b"\n"),
        ((), b"x" * (VALUE_BYTES_MAX + 1)),
        (("--generate", "3"), b""),
        (("--generate", "99999999999"), b""),
        (("--generate", "--file", "x"), b""),
    ],
)
def test_what_gives_no_usable_value_is_a_usage_error(home: Home, words: tuple[str, ...], piped: bytes) -> None:
    assert home.run("secret", "set", "db", *words, piped=piped) == 2
    assert not (home.fleet / "secrets" / "db.age").exists()


def test_there_is_no_way_to_give_a_value_on_the_command_line(home: Home) -> None:
    assert home.run("secret", "set", "db", "value") == 2


@pytest.mark.parametrize("name", ["DB", "../db", "db.age", "a/b", "-", "x" * 41])
def test_a_name_is_a_name(home: Home, name: str) -> None:
    assert home.run("secret", "set", name, "--generate") == 2
    assert not (home.fleet / "secrets").exists()


def test_one_that_is_there_is_not_overwritten(home: Home) -> None:
    home.run("secret", "set", "db", piped=CANARY)
    before = home.file("db")
    assert home.run("secret", "set", "db", "--generate") == 5
    assert "holdfast secret rotate db" in home.complained and home.file("db") == before
    (home.fleet / "secrets" / "link.age").symlink_to(home.root / "elsewhere")
    assert home.run("secret", "set", "link", "--generate") == 2
    assert not (home.root / "elsewhere").exists()


def test_it_is_sealed_to_every_node_that_may_run_a_service_that_names_it(home: Home) -> None:
    home.service("web", service("w1", "db", failover='["w2"]'))
    home.service("job", service("w3", "db"))
    assert home.run("secret", "set", "db", "--generate", "--json") == 0
    assert home.recipients("db") == ({"w1", "w2"}, 1)
    told = json.loads(home.said)
    assert (told["nodes"], told["waiting"], told["operators"]) == (["w1", "w2"], ["w3"], ["ada"])
    assert told["used_by"] == ["service.job/app", "service.web/app"]
    assert "w3 has not joined yet" in home.complained


def test_one_that_nobody_names_is_for_operators_only(home: Home) -> None:
    assert home.run("secret", "set", "spare", "--generate") == 0
    assert home.recipients("spare") == (set(), 1) and "No component uses spare" in home.complained


def test_without_anybody_to_seal_to_nothing_is_written(home: Home) -> None:
    home.declare({"w1": ""}, {"ada": ""})
    assert home.run("secret", "set", "db", "--generate") == 2
    assert "db has no recipient" in home.complained and not (home.fleet / "secrets").exists()
    home.declare({"w1": node_key("w1")}, {"ada": ""})
    assert home.run("secret", "set", "db", "--generate") == 0
    assert "no operator can open it" in home.complained


# ---- rotate


def test_a_rotated_secret_names_who_restarts_and_the_plan_says_so(home: Home) -> None:
    home.run("secret", "set", "db", "--generate")
    assert home.run("secret", "rotate", "db", piped=CANARY) == 0
    assert home.opened("db") == CANARY and "The next apply deploys again: service.web" in home.said
    assert home.run("plan", "--json") == 0 and json.loads(home.said)["warnings"] == []


def test_one_that_is_not_there_cannot_be_rotated(home: Home) -> None:
    assert home.run("secret", "rotate", "db", "--generate") == 2
    assert "holdfast secret set db" in home.complained


def test_a_kept_value_is_sealed_to_todays_nodes_and_people(home: Home) -> None:
    home.run("secret", "set", "db", piped=CANARY)
    home.service("web", service("w2", "db"))
    assert home.run("plan") == 2 and "holdfast secret rotate db --keep" in home.complained
    home.declare({"w1": node_key("w1"), "w2": node_key("w2")}, {"ada": person("ada"), "bob": person("bob")})
    assert home.run("secret", "rotate", "db", "--keep") == 0
    assert home.opened("db", "w2") == CANARY and home.recipients("db") == ({"w2"}, 2)
    assert home.run("plan") == 0


def test_a_value_that_is_not_mine_to_open_is_left_alone(home: Home) -> None:
    home.run("secret", "set", "db", piped=CANARY)
    before = home.file("db")
    (home.root / "bob").write_bytes(person_file("bob"))
    assert home.run("secret", "rotate", "db", "--keep", "--identity", str(home.root / "bob")) == 3
    assert home.run("secret", "rotate", "db", "--keep", "--identity", str(home.root / "nowhere")) == 2
    assert home.run("secret", "rotate", "db", "--keep", "--generate") == 2
    assert home.file("db") == before


# ---- list


def listed(home: Home) -> dict[str, dict[str, object]]:
    assert home.run("secret", "list", "--json") == 0
    return {one["name"]: one for one in json.loads(home.said)["secrets"]}


def test_the_list_says_who_can_open_what_and_who_uses_it(home: Home) -> None:
    home.run("secret", "set", "db", piped=CANARY)
    assert listed(home)["db"] == {
        "name": "db",
        "sealed": True,
        "size_bytes": len(CANARY),
        "nodes": ["w1"],
        "operators": 1,
        "operators_wanted": 1,
        "used_by": ["service.web/app"],
        "cannot_open": [],
        "not_needed": [],
        "unknown": [],
    }
    assert home.run("secret", "list") == 0
    assert home.said == f"db  {len(CANARY)} bytes  sealed to 1 operator, w1  used by service.web/app\n"


def test_the_list_shows_what_is_missing_and_what_drifted(home: Home) -> None:
    assert listed(home)["db"]["sealed"] is False
    home.run("secret", "list")
    assert "create it: holdfast secret set db" in home.said
    home.run("secret", "set", "db", piped=CANARY)
    home.service("web", service("w2", "db"))
    home.declare({"w1": node_key("w1"), "w2": node_key("w2")}, {"ada": person("ada"), "bob": person("bob")})
    drifted = listed(home)["db"]
    assert (drifted["cannot_open"], drifted["not_needed"], drifted["operators_wanted"]) == (["w2"], ["w1"], 2)
    home.run("secret", "list")
    assert home.said.count("holdfast secret rotate db --keep") == 3
    home.declare({"w2": node_key("w2")}, {"ada": person("ada")})
    assert listed(home)["db"]["unknown"] == [sealed.tag_of(node_key("w1"))]


# ---- to the ledger and back


def test_no_value_reaches_the_ledger_or_any_file(home: Home) -> None:
    key = home.root / "key"
    assert home.run("init", str(home.root / "own"), "--key", str(key), "--yes") == 0
    home.fleet = home.root / "own"
    for old in (home.fleet / "services").iterdir():
        old.unlink()
    home.service("web", service("hub1", "db"))
    assert home.run("secret", "set", "db", piped=CANARY) == 0
    assert home.run("apply", "--yes", "--key", str(key)) == 0
    assert home.run("secret", "rotate", "db", piped=CANARY + b"2") == 0
    assert home.run("plan") == 0 and "secret db rotated" in home.said
    assert home.run("apply", "--yes", "--key", str(key), "-v") == 0
    assert home.run("history", "show", "2", "--json") == 0
    assert home.run("rollback", "--yes", "--key", str(key)) == 0
    kept = [path for path in home.root.rglob("*") if path.is_file()]
    assert len(kept) > 8 and not [path for path in kept if CANARY in path.read_bytes()]


def test_a_secret_that_the_ledger_lost_is_noticed_and_stored_anew_by_an_apply(home: Home) -> None:
    home.run("init", str(home.root / "own"), "--key", str(home.root / "key"), "--yes")
    home.fleet = home.root / "own"
    (home.fleet / "services" / "hello.toml").unlink()
    home.service("web", service("hub1", "db"))
    home.run("secret", "set", "db", piped=CANARY)
    home.run("apply", "--yes", "--key", str(home.root / "key"))
    check = ("hub", "check", "--state-dir", str(home.fleet / ".ledger"))
    assert home.run(*check) == 0
    digest = canonical.digest(home.file("db"))
    with sqlite3.connect(home.fleet / ".ledger" / "ledger.db") as db:
        assert db.execute("DELETE FROM blobs WHERE digest = ?", (digest,)).rowcount == 1
    db.close()
    assert (
        home.run(*check) == 7
        and "the secret db of service.web is missing from the ledger" in home.said + home.complained
    )
    assert home.run("apply", "--yes", "--key", str(home.root / "key")) == 0
    assert "Repaired 1 damaged content" in home.complained
    assert home.run(*check) == 0


def test_the_environment_may_name_the_identity_that_opens() -> None:
    """A lab does: its operator's is not in anybody's home."""
    assert identity_path({"HOLDFAST_IDENTITY": "/lab/identity.age", "HOME": "/h"}) == "/lab/identity.age"
    assert identity_path({"HOME": "/h"}) == "/h/.config/holdfast/identity.age"
