"""Everything an operator is refused: contract.md's exit code, a code, and a remedy that works when followed literally.

The refused command always runs cold, as from a shell; what prepares and what follows may run warm.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket as sockets
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fleets.waiting import wait_until
from tests.lab.product import Outcome, Place, Warm, locked, make_key, new_place, strace, warm
from tests.lab.test_boot_table import digest_of, flip_one_bit, lose_blob, sign_by_stranger

pytestmark = pytest.mark.lab

APPLY = ("apply", "--yes", "--json")


@pytest.fixture(scope="module")
def plain() -> Iterator[Warm]:
    with warm() as interpreter:
        yield interpreter


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Six services, one of them protected, applied as revision 1. Operators: alice (root) and bob (apply)."""
    place = new_place(tmp_path_factory.mktemp("prepared") / "p", "--operator", "alice")
    add_operator(place, "bob", "apply")
    for name in ("one", "two", "three"):
        place.service(name, env=name)
    place.service("four")  # but for its protection the same as precious
    place.service("precious", protect=True)
    place.run("apply", "--yes").ok()
    return place


@pytest.fixture
def place(prepared: Place, tmp_path: Path) -> Place:
    return prepared.copy(tmp_path / "p")


def add_operator(place: Place, name: str, grade: str) -> None:
    public = make_key(place.root / name)
    with (place.fleet / "fleet.toml").open("a") as file:
        file.write(f'\n[[operators]]\nname = "{name}"\ngrade = "{grade}"\nkey = "{public}"\n')


def by(place: Place, name: str) -> tuple[str, str]:
    return "--key", str(place.root / name)


def change(place: Place, port: int) -> None:
    path = place.fleet / "services" / "hello.toml"
    path.write_text(re.sub(r"port = \d+", f"port = {port}", path.read_text()))


def remove(place: Place, *names: str) -> None:
    for name in names:
        (place.fleet / "services" / f"{name}.toml").unlink()


def converged(place: Place, plain: Warm) -> None:
    assert plain.run(place, "plan").ok().out.startswith("No changes")


def number(outcome: Outcome) -> int:
    return int(outcome.ok().json["applied"]["number"])


# ---- removals --------------------------------------------------------------------------------------------------------


def test_a_deleted_service_file_removes_nothing_until_the_number_is_said(place: Place, plain: Warm) -> None:
    """C-08, I-37, W12: exit 3"""
    remove(place, "one")
    plain.run(place, "plan").ok()
    refused = place.run(*APPLY).refused(3, "removals_not_allowed")
    assert refused["remedy"].endswith("--allow-removals 1")
    assert plain.run(place, "history", "--json").json["revisions"][0]["number"] == 1
    assert number(plain.run(place, *APPLY, "--allow-removals", "1")) == 2
    converged(place, plain)


def test_a_deleted_service_file_may_be_put_back_instead(place: Place, plain: Warm) -> None:
    text = (place.fleet / "services" / "one.toml").read_text()
    remove(place, "one")
    assert "if a file is missing by mistake, restore it" in place.run(*APPLY).refused(3)["remedy"]
    (place.fleet / "services" / "one.toml").write_text(text)
    converged(place, plain)


@pytest.mark.parametrize(("gone", "said", "meant"), [(("one",), "2", "1"), (("one", "two"), "1", "2")])
def test_a_wrong_number_of_removals_is_refused(
    gone: tuple[str, ...], said: str, meant: str, place: Place, plain: Warm
) -> None:
    """C-08: exit 2"""
    remove(place, *gone)
    refused = place.run(*APPLY, "--allow-removals", said).refused(2, "wrong_removals")
    assert refused["remedy"].endswith(f"--allow-removals {meant}")
    assert number(plain.run(place, *APPLY, "--allow-removals", meant)) == 2


def test_allowing_removals_where_there_are_none_is_refused(place: Place, plain: Warm) -> None:
    """exit 2"""
    change(place, 9000)
    refused = place.run(*APPLY, "--allow-removals", "1").refused(2, "wrong_removals")
    assert "without --allow-removals" in refused["remedy"]
    assert number(plain.run(place, *APPLY)) == 2


def test_protection_survives_the_file_that_declared_it(place: Place, plain: Warm) -> None:
    """I-37: exit 3, whatever number is said; then protect = false first."""
    text = (place.fleet / "services" / "precious.toml").read_text()
    remove(place, "precious")
    refused = place.run(*APPLY, "--allow-removals", "1").refused(3, "protected")
    assert "restore services/precious.toml" in refused["remedy"] and "protect = false" in refused["remedy"]
    (place.fleet / "services" / "precious.toml").write_text(text.replace("protect = true", "protect = false"))
    assert number(plain.run(place, *APPLY)) == 2
    remove(place, "precious")
    assert number(plain.run(place, *APPLY, "--allow-removals", "1")) == 3
    converged(place, plain)


def test_too_many_removals_at_once_are_refused(place: Place, plain: Warm) -> None:
    """W12: exit 3; fewer at a time, or a higher limit that was applied before."""
    names = ("one", "two", "three", "four")
    texts = {name: (place.fleet / "services" / f"{name}.toml").read_text() for name in names}
    remove(place, *names)
    refused = place.run(*APPLY, "--allow-removals", "4").refused(3, "too_many_removals")
    assert "restore the missing files" in refused["remedy"] and "raise removals_max" in refused["remedy"]
    for name, text in texts.items():
        (place.fleet / "services" / f"{name}.toml").write_text(text)
    place.replace("fleet.toml", 'name = "lab"\n', 'name = "lab"\nremovals_max = 4\n')
    assert number(plain.run(place, *APPLY)) == 2
    remove(place, *names)
    assert number(plain.run(place, *APPLY, "--allow-removals", "4")) == 3
    converged(place, plain)


def test_fewer_removals_at_a_time_work(place: Place, plain: Warm) -> None:
    remove(place, "one", "two", "three")
    assert number(plain.run(place, *APPLY, "--allow-removals", "3")) == 2
    remove(place, "four")
    assert number(plain.run(place, *APPLY, "--allow-removals", "1")) == 3


# ---- the directory ---------------------------------------------------------------------------------------------------


def test_an_unreadable_file_is_not_a_removed_one(place: Place, plain: Warm) -> None:
    """S11, W12: exit 2. Without the capability that lets root read everything."""
    path = place.fleet / "services" / "one.toml"
    path.chmod(0)
    without = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-all")
    refused = place.run(*APPLY, wrap=without).refused(2)
    assert "one.toml" in json.dumps(refused)
    path.chmod(0o644)
    assert place.run("plan", wrap=without).ok().out.startswith("No changes")


@pytest.mark.parametrize("what", ["empty", "missing"])
def test_an_empty_or_missing_directory_removes_nothing(what: str, place: Place, plain: Warm) -> None:
    """S11, W12: exit 2"""
    other = place.root / "other"
    if what == "empty":
        other.mkdir()
    hub = ("--hub", str(place.ledger))
    for verb in (("plan", "--json"), APPLY):
        refused = place.run(*verb, "--fleet", str(other), *hub).refused(2)
    assert "holdfast init" in refused["remedy"]
    plain.run(place, "init", str(other), "--yes").ok()
    plain.run(place, "plan", "--fleet", str(other)).ok()
    converged(place, plain)


# ---- plans and checkouts that are out of date ------------------------------------------------------------------------


def test_a_stale_saved_plan_is_refused(place: Place, plain: Warm) -> None:
    """exit 5"""
    change(place, 9001)
    plain.run(place, "plan", "-o", "change.plan").ok()
    change(place, 9002)
    plain.run(place, "apply", "--yes").ok()
    refused = place.run(*APPLY, "change.plan").refused(5, "stale_plan")
    assert "holdfast plan -o change.plan" in refused["remedy"]
    change(place, 9003)
    plain.run(place, "plan", "-o", "change.plan").ok()
    assert number(plain.run(place, *APPLY, "change.plan")) == 3


def test_an_old_checkout_is_refused_and_may_be_adopted(place: Place, plain: Warm) -> None:
    """W14: exit 5"""
    old = place.root / "checkout"
    shutil.copytree(place.fleet, old, ignore=shutil.ignore_patterns(".ledger"))
    change(place, 9001)
    plain.run(place, "apply", "--yes").ok()
    here = ("--fleet", str(old), "--hub", str(place.ledger))
    assert "--adopt" in place.run("plan", "--json", *here).refused(5, "old_directory")["remedy"]
    assert "git pull" in place.run(*APPLY, *here).refused(5, "old_directory")["remedy"]
    plain.run(place, "plan", "--adopt", *here).ok()
    assert number(plain.run(place, *APPLY, "--adopt", *here)) == 3
    assert plain.run(place, "plan", *here).ok().out.startswith("No changes")


def test_an_old_checkout_that_is_updated_is_welcome(place: Place, plain: Warm) -> None:
    old = place.root / "checkout"
    shutil.copytree(place.fleet, old, ignore=shutil.ignore_patterns(".ledger"))
    change(place, 9001)
    plain.run(place, "apply", "--yes").ok()
    here = ("--fleet", str(old), "--hub", str(place.ledger))
    place.run("plan", "--json", *here).refused(5, "old_directory")
    shutil.copytree(place.fleet, old, ignore=shutil.ignore_patterns(".ledger"), dirs_exist_ok=True)  # git pull
    assert plain.run(place, "plan", *here).ok().out.startswith("No changes")


def test_of_two_applies_at_once_exactly_one_wins(place: Place, plain: Warm, tmp_path: Path) -> None:
    """exit 5 for the other, whether it comes a moment later or in the middle of the first one's commit."""
    directories = []
    for port in (9001, 9002):
        directory = place.root / f"checkout-{port}"
        shutil.copytree(place.fleet, directory, ignore=shutil.ignore_patterns(".ledger"))
        (directory / "services" / "hello.toml").write_text(
            (directory / "services" / "hello.toml").read_text().replace("port = 8080", f"port = {port}")
        )
        directories.append(directory)
    slow = strace(tmp_path / "log", ["fdatasync:delay_enter=300000", "fsync:delay_enter=100000"])

    def apply(directory: Path) -> Outcome:
        return place.run(*APPLY, "--fleet", str(directory), "--hub", str(place.ledger), wrap=slow)

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(apply, directories))
    assert sorted(outcome.code for outcome in outcomes) == [0, 5], outcomes
    loser = outcomes.index(next(outcome for outcome in outcomes if outcome.code == 5))
    assert outcomes[loser].refused(5)["code"] in ("stale_base", "revision_behind", "failed_precondition")
    assert "plan" in outcomes[loser].error["remedy"]
    winner = place.root / f"checkout-{(9001, 9002)[1 - loser]}"
    check = plain.run(place, "hub", "check", "--state-dir", str(place.ledger), "--json").ok().json
    assert (check["sound"], check["revisions"]) == (True, 2)
    assert plain.run(place, "plan", "--fleet", str(winner), "--hub", str(place.ledger)).ok().out.startswith("No ch")
    here = ("--fleet", str(directories[loser]), "--hub", str(place.ledger))
    assert number(plain.run(place, *APPLY, "--adopt", *here)) == 3


def test_a_ledger_locked_for_long_is_a_conflict(place: Place, plain: Warm) -> None:
    """exit 5: locked"""
    change(place, 9001)
    with locked(place.database, "IMMEDIATE"):
        assert "try again" in place.run(*APPLY).refused(5, "ledger_locked")["remedy"]
    assert number(plain.run(place, *APPLY)) == 2


# ---- tampering -------------------------------------------------------------------------------------------------------


def tampered(content: bytes, where: str) -> bytes:
    saved = json.loads(content)
    part = saved["candidate"]
    if where == "signature":
        lines = part["signatures"][0].splitlines()
        lines[3] = lines[3][::-1]
        part["signatures"] = ["\n".join(lines) + "\n"]
    elif where == "content":
        digest = next(d for d in part["blobs"] if d != _sha_of_table(saved))
        part["blobs"][digest] = part["blobs"][digest][:-8] + "AAAA" + part["blobs"][digest][-4:]
    else:
        part[where] = part[where][:40] + ("A" if part[where][40] != "A" else "B") + part[where][41:]
    return json.dumps(saved).encode()


def _sha_of_table(saved: dict[str, dict[str, str]]) -> str:
    from base64 import b64decode
    from hashlib import sha256

    return sha256(b64decode(saved["candidate"]["table"])).hexdigest()


@pytest.mark.parametrize(
    ("where", "code"),
    [("table", "plan_damaged"), ("content", "plan_damaged"), ("header", ""), ("signature", "signature_invalid")],
)
def test_a_tampered_saved_plan_is_refused(where: str, code: str, place: Place, plain: Warm) -> None:
    """A9: exit 7"""
    change(place, 9001)
    plan = place.fleet / "change.plan"
    plain.run(place, "plan", "-o", "change.plan").ok()
    plain.run(place, "sign", "change.plan", "--yes").ok()
    plan.write_bytes(tampered(plan.read_bytes(), where))
    place.run(*APPLY, "change.plan").refused(7, code)
    plan.unlink()  # "delete the file and create it again"
    plain.run(place, "plan", "-o", "change.plan").ok()
    assert number(plain.run(place, *APPLY, "change.plan")) == 2


def test_a_tampered_content_is_found_and_stored_anew_by_an_apply(place: Place, plain: Warm) -> None:
    """exit 7 from hub check"""
    flip_one_bit(place, digest_of(place, "service.one"))
    check = place.run("hub", "check", "--state-dir", ".ledger", "--json")
    assert check.code == 7
    (finding,) = check.json["findings"]
    assert (finding["code"], finding["address"]) == ("blob_damaged", "service.one")
    assert "holdfast apply" in finding["remedy"]
    plain.run(place, "apply", "--yes").ok()
    plain.run(place, "hub", "check", "--state-dir", ".ledger").ok()


@pytest.mark.parametrize("what", ["tampered with", "lost"])
def test_a_damaged_content_does_not_stop_other_changes(what: str, place: Place, plain: Warm) -> None:
    """The remedy says apply, and there is something else to apply."""
    if what == "lost":
        lose_blob(place, "service.one")
    else:
        flip_one_bit(place, digest_of(place, "service.one"))
    change(place, 9001)
    plain.run(place, "apply", "--yes").ok()
    plain.run(place, "hub", "check", "--state-dir", ".ledger").ok()
    converged(place, plain)


@pytest.fixture
def two(place: Place, plain: Warm) -> Place:
    """With a second revision, and a copy of the ledger as it was before it in `old`, and after it in `backup`."""
    shutil.copytree(place.ledger, place.root / "old")
    change(place, 9001)
    plain.run(place, "apply", "--yes").ok()
    shutil.copytree(place.ledger, place.root / "backup")
    return place


def restore(place: Place) -> None:
    shutil.rmtree(place.ledger, ignore_errors=True)
    shutil.copytree(place.root / "backup", place.ledger)


def test_a_forged_signature_in_the_ledger_is_refused(two: Place, plain: Warm) -> None:
    """exit 7, from hub check and from a machine that meets this fleet for the first time"""
    sign_by_stranger(two)
    check = two.run("hub", "check", "--state-dir", ".ledger", "--json")
    assert check.code == 7 and check.json["findings"][0]["code"] == "signature_invalid"
    assert "restore" in check.json["findings"][0]["remedy"]
    newcomer = {"XDG_STATE_HOME": str(two.root / "new-state")}
    (two.fleet / "fleet.lock").rename(two.root / "fleet.lock")
    two.run("plan", "--json", env=newcomer).refused(7, "signature_invalid")
    restore(two)
    plain.run(two, "hub", "check", "--state-dir", ".ledger").ok()
    assert two.run("plan", env=newcomer).ok().out.startswith("No changes")


def _fork(place: Place) -> None:
    other = Place(place.root / "fork")
    other.root.mkdir()
    shutil.copytree(place.fleet, other.fleet, ignore=shutil.ignore_patterns(".ledger", "fleet.lock"))
    shutil.copytree(place.root / "old", other.ledger)
    shutil.copytree(place.root / "home", other.root / "home")
    change(other, 9999)
    other.run("apply", "--yes").ok()
    shutil.rmtree(place.ledger)
    shutil.copytree(other.ledger, place.ledger)


def _put_old_back(place: Place) -> None:
    shutil.rmtree(place.ledger)
    shutil.copytree(place.root / "old", place.ledger)


LEDGERS: dict[str, tuple[str, Callable[[Place], object]]] = {
    "forked": ("forked", _fork),
    "rolled back": ("rolled_back", _put_old_back),
    "lost": ("rolled_back", lambda place: shutil.rmtree(place.ledger)),
}


# A machine remembers by fleet, and an empty place belongs to none yet: a lost ledger is missed by fleet.lock alone.
MISSED = [(what, by) for what in LEDGERS for by in ("fleet.lock", "memory") if (what, by) != ("lost", "memory")]


@pytest.mark.parametrize(("what", "keeps"), MISSED)
def test_a_ledger_that_is_not_the_one_seen_before_is_refused(what: str, keeps: str, two: Place, plain: Warm) -> None:
    """W14, A11: exit 7, by what the directory knows or by what this machine knows"""
    code, damage = LEDGERS[what]
    damage(two)
    if keeps == "fleet.lock":
        shutil.rmtree(two.root / "state")
    else:
        (two.fleet / "fleet.lock").unlink()
    change(two, 9005)
    for verb in (("plan", "--json"), APPLY):
        refused = two.run(*verb).refused(7, code)
    assert "estore" in refused["remedy"]
    restore(two)
    assert number(plain.run(two, *APPLY)) == 3
    plain.run(two, "hub", "check", "--state-dir", ".ledger").ok()


def test_a_fleet_whose_ledger_is_lost_may_be_founded_anew(two: Place, plain: Warm) -> None:
    """The second remedy of exit 7."""
    shutil.rmtree(two.ledger)
    assert "remove fleet.lock" in two.run("plan", "--json").refused(7, "rolled_back")["remedy"]
    (two.fleet / "fleet.lock").unlink()
    assert number(plain.run(two, *APPLY)) == 1
    converged(two, plain)


# ---- signatures ------------------------------------------------------------------------------------------------------


def printed_commands(remedy: str) -> list[list[str]]:
    """The commands of a remedy, as they are printed: joined by &&, with remarks in brackets."""
    return [shlex.split(part)[1:] for part in re.sub(r"\(.*?\)", "", remedy).split("&&")]


def test_a_missing_grade_is_asked_for_and_the_printed_commands_work(place: Place, plain: Warm) -> None:
    """exit 4: bob may apply, lifting protection needs more"""
    place.replace("services/precious.toml", "protect = true", "protect = false")
    refused = place.run(*APPLY, *by(place, "bob")).refused(4, "signature_required")
    assert "grade destroy" in refused["message"] and "who can sign: alice" in refused["message"]
    for words in printed_commands(refused["remedy"]):
        given = [str(place.key) if word == "KEY" else word for word in words]
        plain.run(place, *given, "--yes").ok()
    converged(place, plain)


def test_a_scoped_key_and_grade_apply_meet_their_bounds_x04_x11(place: Place, plain: Warm) -> None:
    """exit 4: a name beyond the service's own, and where alerts go"""
    add_operator(place, "ci", "apply")
    with (place.fleet / "fleet.toml").open("a") as file:
        file.write('scope = ["service.hello", "name:shop.example.com"]\n')
        file.write('\n[[nodes]]\nname = "e1"\nroles = ["edge"]\naddress = "100.64.0.77"\n')
    place.replace("fleet.toml", "[fleet]\n", '[fleet]\npublic_domains = ["example.com"]\n')
    plain.run(place, "apply", "--yes").ok()
    hello = place.fleet / "services" / "hello.toml"
    text = hello.read_text()
    hello.write_text(text.replace("port = ", 'public = true\nhostname = "www.example.com"\nport = ', 1))
    refused = place.run(*APPLY, *by(place, "ci")).refused(4, "signature_required")
    assert "not for name:www.example.com" in refused["message"]
    plain.run(place, "plan").ok()
    for hostname in ("shop.example.com", "hello.example.com"):
        hello.write_text(text.replace("port = ", f'public = true\nhostname = "{hostname}"\nport = ', 1))
        plain.run(place, *APPLY, *by(place, "ci")).ok()
    with (place.fleet / "fleet.toml").open("a") as file:
        file.write('\n[[alerts]]\nname = "x"\napprise = "json://a.example.com/api"\n')
    refused = place.run(*APPLY, *by(place, "bob")).refused(4, "signature_required")
    assert "grade destroy (changes where the hub sends alerts)" in refused["message"]
    place.replace("fleet.toml", "com/api", "com/api?method=DELETE&+X-Evil=1")
    assert 'the option "method"' in place.run(*APPLY).refused(2)["message"]


def test_a_threshold_of_two_collects_two_signatures(tmp_path: Path, plain: Warm) -> None:
    """exit 4 until the second operator has signed"""
    place = new_place(tmp_path / "p", "--operator", "alice")
    add_operator(place, "bob", "apply")
    place.replace("fleet.toml", "apply = 1", "apply = 2")
    plain.run(place, "apply", "--yes").ok()
    change(place, 9001)
    refused = place.run(*APPLY).refused(4, "signature_required")
    assert "2 signatures" in refused["message"]
    save, first, second, apply = printed_commands(refused["remedy"])
    plain.run(place, *save).ok()
    plain.run(place, *[str(place.key) if word == "KEY" else word for word in first], "--yes").ok()
    lacking = place.run(*apply, "--yes", "--json").refused(4, "signature_required")
    assert printed_commands(lacking["remedy"]) == [first, apply]
    plain.run(place, *[str(place.root / "bob") if word == "KEY2" else word for word in second], "--yes").ok()
    plain.run(place, *apply, "--yes").ok()
    converged(place, plain)
    assert len(plain.run(place, "history", "--json").ok().json["revisions"][0]["signers"]) == 2


def test_an_unknown_signer_is_refused(place: Place, plain: Warm) -> None:
    """exit 3"""
    make_key(place.root / "eve")
    change(place, 9001)
    refused = place.run(*APPLY, *by(place, "eve")).refused(3, "unknown_signer")
    assert "--key FILE" in refused["remedy"]
    assert number(plain.run(place, *APPLY, *by(place, "bob"))) == 2


@pytest.mark.parametrize("what", ["missing", "not a key"])
def test_a_key_that_is_none_is_refused(what: str, place: Place, plain: Warm) -> None:
    """exit 2"""
    path = place.root / "nothing"
    if what == "not a key":
        path.write_text("this is a shopping list\n")
        path.chmod(0o600)
    change(place, 9001)
    place.run(*APPLY, "--key", str(path)).refused(2)
    assert number(plain.run(place, *APPLY, "--key", str(place.key))) == 2


def test_without_a_terminal_an_unanswered_question_is_an_error(place: Place, plain: Warm) -> None:
    """exit 2"""
    change(place, 9001)
    assert "--yes" in place.run("apply", "--json").refused(2, "no_terminal")["remedy"]
    assert number(plain.run(place, *APPLY)) == 2


def listens(path: Path) -> bool:
    """A path exists as soon as it is bound; only a connection shows that a process listens."""
    with sockets.socket(sockets.AF_UNIX) as line:
        return line.connect_ex(str(path)) == 0


@contextmanager
def ssh_agent(place: Place) -> Iterator[dict[str, str]]:
    socket = place.root / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: agent.poll() is not None or listens(socket), "the agent listens")
        assert agent.poll() is None
        yield {"SSH_AUTH_SOCK": str(socket)}
    finally:
        agent.send_signal(signal.SIGTERM)
        agent.wait()


def test_a_key_with_a_passphrase_needs_a_terminal_or_an_agent(place: Place, plain: Warm) -> None:
    """exit 2; ssh-add FILE, as the remedy says, makes the same command work"""
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", str(place.key)], check=True)
    change(place, 9001)
    refused = place.run(*APPLY).refused(2, "no_terminal")
    assert "ssh-add FILE" in refused["remedy"]
    with ssh_agent(place) as agent:
        ask = place.root / "ask"
        ask.write_text("#!/bin/sh\necho secret\n")
        ask.chmod(0o700)
        env = {**os.environ, **agent, "SSH_ASKPASS": str(ask), "SSH_ASKPASS_REQUIRE": "force"}
        subprocess.run(["ssh-add", "-q", str(place.key)], env=env, check=True, stdin=subprocess.DEVNULL)
        assert number(place.run(*APPLY, env=agent)) == 2


# ---- the network -----------------------------------------------------------------------------------------------------


def test_a_hub_that_does_not_answer_is_unreachable(place: Place, plain: Warm) -> None:
    """exit 6"""
    change(place, 9001)
    nobody = ("--hub", "https://127.0.0.1:9")
    for verb in (("plan", "--json"), APPLY, ("history", "--json"), ("status", "--json")):
        assert place.run(*verb, *nobody).refused(6)["remedy"]
    assert number(plain.run(place, *APPLY)) == 2


def test_a_damaged_content_whose_file_was_edited_is_mended_by_putting_the_file_back(tmp_path: Path) -> None:
    """The old content is needed to say what changes; the remedy, followed literally, brings it back."""
    place = new_place(tmp_path)
    place.run("apply", "--yes").ok()
    flip_one_bit(place, digest_of(place, "service.hello"))
    before = (place.fleet / "services" / "hello.toml").read_text()
    place.replace("services/hello.toml", 'tier = "worker"', 'tier = "core"')
    refused = place.run("apply", "--yes", "--json").refused(7, "blob_damaged")
    assert "put its file back" in refused["remedy"]
    (place.fleet / "services" / "hello.toml").write_text(before)
    place.run("apply", "--yes").ok()
    place.replace("services/hello.toml", 'tier = "worker"', 'tier = "core"')
    place.run("apply", "--yes").ok()
    assert place.run("hub", "check", "--state-dir", ".ledger").ok().out.startswith("sound")


def test_two_fleets_of_one_operator_are_two_fleets(tmp_path: Path) -> None:
    """The fleet id tells them apart, so neither looks like a fork or a rollback of the other."""
    place = new_place(tmp_path)
    other = tmp_path / "other"
    place.run("init", str(other), "--name", "lab", "--yes").ok()
    assert (
        place.run("validate", "--json").ok().json["trust"]
        != (place.run("validate", "--json", "--fleet", str(other)).ok().json["trust"])
    )
    for fleet in (str(place.fleet), str(other)):
        place.run("apply", "--yes", "--fleet", fleet).ok()
    for fleet in (str(place.fleet), str(other)):
        assert place.run("plan", "--fleet", fleet).ok().out.startswith("No changes")
    place.run("plan", "--hub", str(other / ".ledger"), "--json").refused(7, "other_fleet")


def test_a_plan_without_changes_is_saved_and_applied_as_such(tmp_path: Path) -> None:
    """`plan -o f && apply f` is a script that also works when there is nothing to do; no older plan stays behind."""
    place = new_place(tmp_path)
    place.run("apply", "--yes").ok()
    place.service("extra")
    place.run("plan", "-o", "../change.plan").ok()
    (place.fleet / "services" / "extra.toml").unlink()
    place.run("plan", "-o", "../change.plan").ok()
    assert place.run("apply", "../change.plan", "--yes").ok().out.startswith("No changes")
    assert len(place.run("history", "--json").ok().json["revisions"]) == 1


def test_removals_of_a_saved_plan_are_counted_out_loud_again(tmp_path: Path) -> None:
    place = new_place(tmp_path)
    place.service("extra")
    place.run("apply", "--yes").ok()
    (place.fleet / "services" / "extra.toml").unlink()
    place.run("plan", "-o", "../change.plan", "--allow-removals", "1").ok()
    place.run("apply", "../change.plan", "--yes", "--json").refused(3, "removals_not_allowed")
    place.run("apply", "../change.plan", "--yes", "--allow-removals", "1").ok()


def test_an_apply_from_a_directory_that_cannot_be_written_says_that_it_is_applied(tmp_path: Path) -> None:
    place = new_place(tmp_path)
    ledger = str(tmp_path / "ledger")
    subprocess.run(["mount", "--bind", "-o", "ro", str(place.fleet), str(place.fleet)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(place.fleet)], check=True)
        refused = place.run("apply", "--yes", "--json", "--hub", ledger).refused(1, "lock_not_written")
        assert "revision 1 is applied" in refused["message"]
        assert place.run("plan", "--hub", ledger).ok().out.startswith("No changes")
    finally:
        subprocess.run(["umount", str(place.fleet)], check=True)
    assert place.run("plan", "--hub", ledger).ok().out.startswith("No changes")
    assert (place.fleet / "fleet.lock").exists()


def test_reading_before_the_first_apply_is_no_failure(tmp_path: Path) -> None:
    place = new_place(tmp_path)
    assert place.run("history", "--json").ok().json == {"revisions": []}
    assert "Nothing has been applied yet" in place.run("history").ok().err
    place.run("apply", "--yes", "--hub", "../ledger").ok()
    assert place.run("hub", "check", "--hub", "../ledger").ok().out.startswith("sound")


def test_a_lost_ledger_is_not_shown_as_a_fleet_without_history(tmp_path: Path) -> None:
    """N35: the remedy must not be an apply, which refuses."""
    place = new_place(tmp_path)
    place.run("apply", "--yes").ok()
    for words in (("history",), ("history", "show", "1"), ("status",)):
        trouble = place.run(*words, "--hub", "elsewhere", "--json").refused(5, "nothing_applied")
        assert "but fleet.lock names an applied revision" in trouble["message"]
        assert "holdfast apply" not in trouble["remedy"]


def test_a_rollback_in_a_ledger_directory_compares_the_files_with_the_new_revision(tmp_path: Path) -> None:
    """N36: there the reader of before the commit shows the ledger as it was."""
    place = new_place(tmp_path)
    place.run("apply", "--yes").ok()
    file = next((place.fleet / "services").glob("*.toml"))
    file.write_text(file.read_text().replace("hello >", "hi >"))
    place.run("apply", "--yes").ok()
    assert "Your files still differ from this revision in service." in place.run("rollback", "1", "--yes").ok().err
    assert "Your files match this revision." in place.run("rollback", "2", "--yes").ok().err
