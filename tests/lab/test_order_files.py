"""Orders signed by file, without any hub (H-33; contract: `sign PLAN|ORDER`, exit 4 names who could sign)."""

import base64
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.adapters.disk.posix import PosixDisk
from holdfast.cli.fleet.seen_heads import parse_lock
from holdfast.cli.orders.seen_pulses import SeenPulse, SeenPulses
from tests.fleets.desks import key_of
from tests.fleets.lives import life_of, pulse_of
from tests.lab.product import Place, Warm, make_key, new_place, warm

pytestmark = pytest.mark.lab

NODE = "hub1"
PURGE = ("order", "sign", "--node", NODE, "--action", "purge", "--target", "data.web", "--counter", "4", "--yes")


@pytest.fixture(scope="module")
def interpreter() -> Iterator[Warm]:
    with warm() as made:
        yield made


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, interpreter: Warm) -> Place:
    """A fleet where destroying takes two: alice (root) and bob (destroy); cat may only apply."""
    made = new_place(tmp_path_factory.mktemp("orders") / "place")
    for name, grade in (("bob", "destroy"), ("cat", "apply")):
        line = make_key(made.root / name)
        with (made.fleet / "fleet.toml").open("a") as file:
            file.write(f'\n[[operators]]\nname = "{name}"\nkey = "{line}"\ngrade = "{grade}"\n')
    interpreter.run(made, "apply", "--yes").ok()
    made.replace("fleet.toml", "destroy = 1", "destroy = 2")
    interpreter.run(made, "apply", "--yes").ok()
    remember_pulse(made)
    return made


def remember_pulse(place: Place) -> None:
    """As if this machine had reached a hub once: an order names the newest pulse of its node that it has seen."""
    lock = parse_lock((place.fleet / "fleet.lock").read_bytes())
    signed = pulse_of(lock.fleet, NODE, key_of(NODE), time.time(), counter=3)
    seen = SeenPulses(PosixDisk(), str(place.root / "state" / "holdfast"), lock.fleet)
    seen.remember(NODE, SeenPulse(signed, key_of(NODE).line, life_of(NODE), 3, time.time()))


def test_an_order_is_signed_by_two_without_a_hub(place: Place, interpreter: Warm, tmp_path: Path) -> None:
    file = tmp_path / "purge.order"
    made = interpreter.run(place, *PURGE, "-o", str(file), "--arg", "reason=moved", "--json").ok().json
    assert (made["counter"], made["signatures"]) == (4, 1) and file.stat().st_mode & 0o777 == 0o600

    lacking = interpreter.run(place, "order", "submit", str(file), "--json").refused(4, "signature_required")
    assert "bob" in lacking["message"] and "cat" not in lacking["message"] and "holdfast sign" in lacking["remedy"]

    shown = interpreter.run(place, "sign", str(file), "--key", str(place.root / "bob"), "--yes").ok().out
    assert f"purge data.web on {NODE}" in shown and "reason = moved" in shown and "2 signatures" in shown
    again = interpreter.run(place, "sign", str(file), "--key", str(place.root / "bob"), "--yes").ok().out
    assert "2 signatures" in again

    ledger = interpreter.run(place, "order", "submit", str(file), "--json").refused(2, "no_hub")
    assert "running hub" in ledger["message"]


def test_any_ssh_keygen_can_check_an_order(place: Place, interpreter: Warm, tmp_path: Path) -> None:
    file = tmp_path / "ping.order"
    interpreter.run(place, "order", "sign", "--node", NODE, "--action", "ping", "--counter", "1", "-o", str(file)).ok()
    signed = json.loads(file.read_text())["signed"]
    (tmp_path / "sig").write_text(signed["signatures"][0])
    (tmp_path / "allowed").write_text(f"alice {place.key.with_suffix('.pub').read_text()}")
    words = ["ssh-keygen", "-Y", "verify", "-f", "allowed", "-I", "alice", "-n", "holdfast-order", "-s", "sig"]
    content = base64.b64decode(signed["order"])
    assert subprocess.run(words, cwd=tmp_path, input=content, capture_output=True).returncode == 0
    assert subprocess.run(words, cwd=tmp_path, input=content + b" ", capture_output=True).returncode != 0


def test_a_low_grade_signs_and_still_does_not_suffice(place: Place, interpreter: Warm, tmp_path: Path) -> None:
    file = tmp_path / "purge.order"
    interpreter.run(place, *PURGE, "-o", str(file)).ok()
    interpreter.run(place, "order", "sign", "--add", str(file), "--key", str(place.root / "cat"), "--yes").ok()
    refused = interpreter.run(place, "order", "submit", str(file), "--json").refused(4, "signature_required")
    assert "1 given" in refused["message"] and "bob" in refused["message"]


def test_a_stranger_cannot_sign(place: Place, interpreter: Warm, tmp_path: Path) -> None:
    make_key(tmp_path / "eve")
    refused = interpreter.run(place, *PURGE, "--key", str(tmp_path / "eve"), "-o", str(tmp_path / "x"), "--json")
    refused.refused(3, "unknown_signer")
    assert not (tmp_path / "x").exists()


def test_a_directory_of_another_fleet_does_not_sign_it(place: Place, interpreter: Warm, tmp_path: Path) -> None:
    file = tmp_path / "purge.order"
    interpreter.run(place, *PURGE, "-o", str(file)).ok()
    other = new_place(tmp_path / "other")
    interpreter.run(other, "apply", "--yes").ok()
    interpreter.run(other, "sign", str(file), "--yes", "--json").refused(3, "other_fleet")


@pytest.mark.parametrize("change", [("purge", "ping."), ('"hub1"', '"hub2"')])
def test_a_file_that_was_changed_is_not_handed_in(
    place: Place, interpreter: Warm, tmp_path: Path, change: tuple[str, str]
) -> None:
    file = tmp_path / "purge.order"
    interpreter.run(place, *PURGE, "-o", str(file)).ok()
    value = json.loads(file.read_text())
    content = base64.b64decode(value["signed"]["order"]).replace(change[0].encode(), change[1].encode())
    value["signed"]["order"] = base64.b64encode(content).decode()
    file.write_text(json.dumps(value, separators=(",", ":")))
    assert interpreter.run(place, "order", "submit", str(file), "--json").code in (2, 3, 7)
    value["signed"]["arguments"] = base64.b64encode(b'{"a":"b"}').decode()
    file.write_text(json.dumps(value, separators=(",", ":")))
    assert interpreter.run(place, "sign", str(file), "--yes", "--json").code in (2, 7)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--action", "purg"), "unknown_action"),
        (("--action", "verify", "--target", "service.web"), "not_built"),
        (("--action", "purge"), "target_mismatch"),
        (("--action", "purge", "--target", "service.web"), "target_mismatch"),
        (("--action", "ping", "--target", "node.w9"), "target_mismatch"),
        (("--action", "ping", "--expires", "8d"), "invalid_argument"),
        (("--action", "ping", "--expires", "soon"), "invalid_argument"),
        (("--action", "ping", "--arg", "x"), "invalid_argument"),
        (("--action", "ping", "--arg", "x=1", "--arg", "x=2"), "invalid_argument"),
        (("--action", "ping", "--node", "w9"), "unknown_node"),
        (("--action", "ping", "--counter", "-1"), "order_malformed"),
        ((), "usage"),
    ],
)
def test_a_mistake_is_met_with_a_sentence(
    place: Place, interpreter: Warm, tmp_path: Path, words: tuple[str, ...], code: str
) -> None:
    base = ("order", "sign", "--node", NODE, "--counter", "1", "-o", str(tmp_path / "x"), "--yes", "--json")
    interpreter.run(place, *base, *words).refused(2, code)
    assert not (tmp_path / "x").exists()


def test_signing_something_that_destroys_is_asked_first(place: Place, interpreter: Warm, tmp_path: Path) -> None:
    words = [word for word in PURGE if word != "--yes"]
    interpreter.run(place, *words, "-o", str(tmp_path / "x"), "--json").refused(2, "no_terminal")
    assert not (tmp_path / "x").exists()
