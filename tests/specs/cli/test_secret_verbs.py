"""`secret set | list | rotate`: sealed to whoever needs it, from any source but the command line, shown to nobody."""

import io
import json
import os
import sqlite3
import subprocess
from base64 import b64decode
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.cli import main
from holdfast.cli.secrets import secret_get
from holdfast.cli.secrets.identity_file import identity_path
from holdfast.cli.secrets.secret_value import VALUE_BYTES_MAX
from holdfast.cli.terminal import Terminal
from holdfast.model import canonical, sealed
from holdfast.model.fleet import Component, Service
from holdfast.model.purpose import Opened, opened
from holdfast.wiring import cli as wiring
from tests.fleets.build import digest_pinned
from tests.fleets.commands import Scene, scene
from tests.fleets.sealing import CANARY, node_key, node_opener, person, person_file, sealed_to
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
        return self.inside(name, node).value

    def inside(self, name: str, node: str = "w1") -> Opened:
        return opened(node_opener(node).open(self.file(name)))

    def addresses(self, name: str, node: str = "w1") -> tuple[str, ...]:
        purpose = self.inside(name, node).purpose
        assert purpose is not None and purpose.name == name
        return purpose.addresses

    def seal_as_before(self, name: str, *recipients: str, value: bytes = CANARY) -> None:
        """As a release before purposes did."""
        (self.fleet / "secrets").mkdir(exist_ok=True)
        (self.fleet / "secrets" / f"{name}.age").write_bytes(sealed.armoured(sealed_to(*recipients, value=value)))

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
    assert home.complained.endswith(f"once it has: holdfast secret rotate db --keep --fleet {home.fleet}\n")


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


# ---- what it is for (X03)


def test_the_services_that_use_it_are_named_inside_the_seal(home: Home) -> None:
    home.service("job", service("w1", "db"))
    assert home.run("secret", "set", "db", piped=CANARY) == 0
    assert home.addresses("db") == ("service.job", "service.web")
    assert "for service.job, service.web" in home.said


def test_for_names_exactly_the_services_that_may_have_it(home: Home) -> None:
    home.service("job", service("w2"))
    assert home.run("secret", "set", "db", "--for", "service.job", "--for", "service.later", piped=CANARY) == 0
    assert home.addresses("db") == ("service.job", "service.later") and home.recipients("db")[0] == {"w1", "w2"}
    assert home.run("plan") == 2 and "not for service.web" in home.complained
    assert home.run("secret", "rotate", "db", "--keep") == 0
    assert home.addresses("db") == ("service.later", "service.web") and home.opened("db") == CANARY
    assert home.run("plan") == 0
    assert home.run("secret", "rotate", "db", "--keep", "--for", "service.web") == 0
    assert home.addresses("db") == ("service.web",)


def test_an_alert_target_of_nodes_is_named_inside_the_seal_and_its_nodes_can_open_it(home: Home) -> None:
    target = '[[alerts]]\nname = "phone"\nsecret = "url"\nnodes = ["w2"]\n'
    with (home.fleet / "fleet.toml").open("a") as file:
        file.write(target)
    home.service("web", service("w2"))
    assert home.run("plan") == 2 and "holdfast secret set url" in home.complained
    assert home.run("secret", "set", "url", piped=b"ntfys://ntfy.test/fleet\n") == 0
    assert home.addresses("url", "w2") == ("alerts.phone",) and home.recipients("url") == ({"w2"}, 1)
    assert home.run("plan", "--json") == 0 and json.loads(home.said)["warnings"] == []
    assert listed(home)["url"]["used_by"] == ["alerts.phone"] and listed(home)["url"]["not_for"] == []
    assert home.run("secret", "rotate", "url", "--keep") == 0 and "deploys again" not in home.said
    assert home.run("secret", "set", "other", piped=CANARY) == 0 and listed(home)["other"]["used_by"] == []
    (home.fleet / "secrets" / "other.age").unlink()
    home.service("web", service("w2", "url"))
    assert home.run("plan") == 2 and "is sealed for alerts.phone, not for service.web" in home.complained
    home.service("web", service("w2"))
    assert home.run("secret", "rotate", "url", "--keep", "--for", "service.web") == 0
    assert home.run("plan") == 2 and "is sealed for service.web, not for alerts.phone" in home.complained


def test_the_secret_of_a_provider_is_sealed_to_its_node_and_for_nothing_else(home: Home) -> None:
    provides = '[[provides]]\nnode = "w2"\ntype = "postgres"\nservices = ["web"]\n'
    provides += 'params = { address = "127.0.0.1:5432", secret = "admin" }\n'
    text = (home.fleet / "fleet.toml").read_text().replace('["worker"]', '["worker", "provider"]')
    (home.fleet / "fleet.toml").write_text(text + provides)
    home.service("web", service("w1"))
    assert home.run("plan") == 2 and "holdfast secret set admin" in home.complained
    assert home.run("secret", "set", "admin", piped=CANARY) == 0
    assert home.addresses("admin", "w2") == ("provides.w2.postgres",) and home.recipients("admin") == ({"w2"}, 1)
    assert home.run("plan", "--json") == 0 and json.loads(home.said)["warnings"] == []
    assert listed(home)["admin"]["used_by"] == ["provides.w2.postgres"] and listed(home)["admin"]["not_for"] == []
    assert home.run("secret", "rotate", "admin", "--keep", "--for", "service.web") == 0
    assert home.run("plan") == 2
    assert "holdfast secret rotate admin --keep" in home.complained
    assert home.run("secret", "rotate", "admin", "--keep", "--for", "provides.w2.postgres") == 0
    assert home.addresses("admin", "w2") == ("provides.w2.postgres",) and home.run("plan") == 0


@pytest.mark.parametrize(
    "address",
    [
        "web",
        "alert.phone",
        "alerts.",
        "provides.w1",
        "provides.w1.",
        "service.a.b",
        "service.",
        "service.*",
        "node.w1",
        "service.web\x1b[2J",
        "registry:x",
    ],
)
def test_only_a_service_can_be_named(home: Home, address: str) -> None:
    assert home.run("secret", "set", "db", "--generate", "--for", address) == 2
    assert not (home.fleet / "secrets").exists() and "\x1b" not in home.complained


def test_x03_another_services_file_under_a_new_name_is_refused_by_the_plan_and_by_rotate(home: Home) -> None:
    """The proven attack: the sealed file of service.db, from version control, as a secret of service.web."""
    home.service("db", service("w1", "pw"))
    home.service("web", service("w1"))
    assert home.run("secret", "set", "pw", piped=CANARY) == 0
    (home.fleet / "secrets" / "mine.age").write_bytes((home.fleet / "secrets" / "pw.age").read_bytes())
    home.service("web", service("w1", "mine"))
    assert home.run("plan") == 2 and "mine is the secret pw under another name" in home.complained
    assert "holdfast secret rotate mine --keep --for service.web" in home.complained
    before = home.file("mine")
    assert home.run("secret", "rotate", "mine", "--keep") == 5
    assert "is the secret pw, sealed for service.db" in home.complained and home.file("mine") == before
    assert home.run("secret", "rotate", "mine", "--keep", "--for", "service.web") == 0
    assert home.addresses("mine") == ("service.web",) and home.run("plan") == 0


def test_x03_a_service_that_begins_to_use_a_secret_is_named_first(home: Home) -> None:
    home.run("secret", "set", "db", piped=CANARY)
    home.service("job", service("w1", "db"))
    assert home.run("plan") == 2 and "is sealed for service.web, not for service.job" in home.complained
    assert listed(home)["db"]["not_for"] == ["service.job"]
    assert home.run("secret", "rotate", "db", "--keep") == 0 and home.run("plan") == 0


def test_x03_an_unbound_file_is_refused_for_a_new_use_and_stays_where_it_is_applied(home: Home) -> None:
    key = home.root / "key"
    assert home.run("init", str(home.root / "own"), "--key", str(key), "--yes") == 0
    home.fleet = home.root / "own"
    for old in (home.fleet / "services").iterdir():
        old.unlink()
    home.service("web", service("hub1", "db"))
    home.seal_as_before("db", "w1", "@ada")
    assert home.run("plan") == 2 and "was sealed by an older release" in home.complained
    identity = home.root / ".config" / "holdfast" / "identity.age"
    mine, hidden = identity.read_bytes(), home.root / "hidden"
    identity.rename(hidden)  # who cannot open it leaves the decision to the node
    assert home.run("apply", "--yes", "--key", str(key)) == 0
    identity.write_bytes(mine)
    home.service("web", service("hub1", "db") + 'env = { A = "1" }\n')
    assert home.run("plan") == 0
    home.service("job", service("hub1", "db"))
    assert home.run("plan") == 2 and "is new to service.job" in home.complained
    assert listed(home)["db"]["bound"] is False
    assert home.run("secret", "rotate", "db", "--keep") == 0 and home.run("plan") == 0


def test_what_this_command_cannot_open_it_knows_if_it_sealed_it(home: Home) -> None:
    home.declare({"w1": node_key("w1")}, {"ada": ""})
    assert home.run("secret", "set", "db", piped=CANARY) == 0
    assert listed(home)["db"]["addresses"] == ["service.web"]
    (home.root / ".local" / "state" / "holdfast" / "secrets.json").write_bytes(b"\xff{")
    assert (listed(home)["db"]["addresses"], listed(home)["db"]["not_for"]) == (None, [])
    assert home.run("plan") == 0, "the node judges what this command cannot open"


def test_a_secret_of_another_fleet_is_refused(home: Home) -> None:
    home.run("secret", "set", "db", piped=CANARY)
    home.declare({"w1": node_key("w1")}, {"ada": person("ada"), "bob": person("bob")})  # before the first apply
    assert home.run("plan") == 2 and "is sealed for another fleet" in home.complained
    assert home.run("secret", "rotate", "db", "--keep") == 0 and home.run("plan") == 0


@pytest.mark.parametrize("size", [1, VALUE_BYTES_MAX])
def test_the_largest_value_fits_with_its_purpose(home: Home, size: int) -> None:
    (home.root / "value").write_bytes(b"x" * size)
    assert home.run("secret", "set", "db", "--file", str(home.root / "value")) == 0
    assert len(home.opened("db")) == size and listed(home)["db"]["size_bytes"] == size


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
        "bound": True,
        "addresses": ["service.web"],
        "not_for": [],
    }
    assert home.run("secret", "list") == 0
    assert home.said == f"db  {len(CANARY)} bytes  sealed to 1 operator, w1  used by service.web/app  for service.web\n"


def test_the_list_shows_what_is_missing_and_what_drifted(home: Home) -> None:
    assert listed(home)["db"]["sealed"] is False
    home.run("secret", "list")
    assert f"create it: holdfast secret set db --fleet {home.fleet}\n" in home.said
    home.run("secret", "set", "db", piped=CANARY)
    home.service("web", service("w2", "db"))
    home.declare({"w1": node_key("w1"), "w2": node_key("w2")}, {"ada": person("ada"), "bob": person("bob")})
    drifted = listed(home)["db"]
    assert (drifted["cannot_open"], drifted["not_needed"], drifted["operators_wanted"]) == (["w2"], ["w1"], 2)
    home.run("secret", "list")
    assert (
        home.said.count(f"holdfast secret rotate db --keep --fleet {home.fleet}\n") == 4
    )  # and the fleet is founded by other people
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


# ---- older agents


def test_a_secret_is_not_sent_to_an_agent_whose_verified_pulse_names_an_older_format(tmp_path: Path) -> None:
    """Puppets sign pulses without a format, as agents before that field."""

    async def story(one: Scene) -> None:
        component = Component("web", digest_pinned("web:2"), secrets=("pw",))
        one.operator.fleet = replace(one.operator.fleet, services={"web": Service((component,), node="w1")})
        one.says(one.state("converged"))
        one.operator.does("secret", "set", "pw", "--generate")
        assert "the agent on w1 is of an older release" in one.operator.err.getvalue()
        one.operator.does("deploy", "web", "--json", code=5)
        assert one.operator.complaint["code"] == "agent_too_old"

    scene(tmp_path, story)


# ---- get


class Shown(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def got(home: Home, *words: str, terminal: bool = False, identity: str = "") -> tuple[int, bytes, str]:
    """Exit code, the bytes on standard output, and what was said beside them."""
    raw, err = io.BytesIO(), io.StringIO()
    out = (Shown if terminal else io.TextIOWrapper)(raw, write_through=True)
    environ = {"HOME": str(home.root), "NO_COLOR": "1"} | ({"HOLDFAST_IDENTITY": identity} if identity else {})
    box = wiring.SystemToolbox(Terminal(out, err, io.StringIO(), environ_no_colour=True), environ)
    code = main.run(["secret", "get", *words, "--fleet", str(home.fleet)], box)
    box.close()
    return code, raw.getvalue(), err.getvalue()


def test_get_gives_a_pipe_the_value_byte_for_byte_n38(home: Home) -> None:
    home.service("web", service("w1", "db"))
    value = bytes(range(256)) + CANARY
    (home.root / "value").write_bytes(value)
    assert home.run("secret", "set", "db", "--file", str(home.root / "value")) == 0
    home.service("broken", "name = \n")
    (home.fleet / "fleet.toml").write_text("[fleet")
    assert got(home, "db") == (0, value, ""), "reads no other file (N30)"
    code, shown, _ = got(home, "db", "--json")
    document = json.loads(shown)
    assert code == 0 and b64decode(document["value"]) == value and document["addresses"] == ["service.web"]


def test_get_writes_a_private_file_and_overwrites_none_n38(home: Home) -> None:
    home.seal_as_before("db", "@ada")
    path = home.root / "out"
    code, shown, said = got(home, "db", "--out", str(path))
    assert code == 0 and CANARY not in shown and VALUE not in said
    assert path.read_bytes() == CANARY and path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(b"mine")
    assert got(home, "db", "--out", str(path))[0] == 5
    assert path.read_bytes() == b"mine"


def test_get_with_an_empty_file_name_prints_no_value_n38(home: Home) -> None:
    """As `--out "$FILE"` with an unset variable."""
    home.seal_as_before("db", "@ada")
    assert got(home, "db", "--out", "")[:2] == (2, b"")


def test_get_warns_on_a_terminal_and_sends_it_no_control_characters_n38(home: Home) -> None:
    home.seal_as_before("db", "@ada")
    code, shown, said = got(home, "db", terminal=True)
    assert (code, shown) == (0, CANARY + b"\n") and "stays visible" in said
    home.seal_as_before("evil", "@ada", value=b"\x1b]0;pwned\x07")
    code, shown, said = got(home, "evil", terminal=True)
    assert (code, shown) == (2, b"") and "--out FILE" in said


def test_get_says_what_it_cannot_open_n38(home: Home) -> None:
    home.seal_as_before("db", "@ada")
    (home.root / "bob").write_bytes(person_file("bob"))
    for words, identity in ((("db",), str(home.root / "bob")), (("db", "--identity", str(home.root / "bob")), "")):
        code, shown, said = got(home, *words, identity=identity)
        assert (code, shown) == (3, b"") and "is not sealed to it" in said and "remedy: " in said
    code, _, said = got(home, "dbs")
    assert code == 2 and "there is no secrets/dbs.age" in said and "did you mean db?" in said
    (home.fleet / "secrets" / "db.age").write_bytes(b"plain")
    assert "is not an age file" in got(home, "db")[2]


def test_age_itself_opens_a_secret_as_documented_n38(home: Home) -> None:
    """docs/guides/secrets.md and `secret get --help` name this line; Debian's age runs it."""
    home.service("web", service("w1", "db"))
    assert home.run("secret", "set", "db", piped=CANARY) == 0
    line = "age -d -i ~/.config/holdfast/identity.age secrets/NAME.age | tail -n +2"
    guide = (Path(__file__).parents[3] / "docs" / "guides" / "secrets.md").read_text()
    assert line in guide and line in secret_get.DETAILS
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line.replace("NAME", "db")],
        cwd=home.fleet,
        env={"HOME": str(home.root), "PATH": os.environ["PATH"]},
        capture_output=True,
    )
    assert (done.returncode, done.stdout) == (0, CANARY), done.stderr


def test_init_says_which_identity_opens_secrets_and_that_a_copy_is_needed_n38(home: Home) -> None:
    """Made or found: without that file no operator opens a secret any more, and no SSH key replaces it."""
    identity = home.root / ".config" / "holdfast" / "identity.age"
    assert home.run("init", str(home.root / "one"), "--yes", "--name", "one") == 0
    assert f"Your age identity {identity} opens the secrets" in home.said
    identity.unlink()
    assert home.run("init", str(home.root / "two"), "--yes", "--name", "two") == 0
    assert f"Created the age identity {identity}, which opens the secrets of this fleet" in home.said
    assert "Keep a copy in a safe place: SSH keys open no secret" in home.said and identity.exists()
