"""R11, O-33: what a hub does with every kind of damaged ledger, through the real `hub check` and `hub run`.

A row that concerns everything refuses within five seconds with exit 7, its own code and a remedy, listens nowhere and
leaves the ledger as it found it. A row that concerns one resource boots without exactly that resource.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from tests.fleets.waiting import Stopwatch
from tests.lab.product import PYTHON, Place, Warm, end, fingerprints, locked, make_key, new_place, warm

pytestmark = pytest.mark.lab

REFUSED_WITHIN_S = 5
STATE = ("--state-dir", ".ledger")
CHECK = ("hub", "check", *STATE, "--json")
RUN = ("hub", "run", *STATE, "--listen", "127.0.0.1:0", "--json")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Two revisions; two services and a bound policy."""
    place = new_place(tmp_path_factory.mktemp("good") / "p")
    (place.fleet / "policies").mkdir()
    (place.fleet / "policies" / "base.cedar").write_text("permit(principal, action, resource);\n")
    with (place.fleet / "fleet.toml").open("a") as file:
        file.write('\n[[policies]]\nname = "base"\nfile = "policies/base.cedar"\napplies_to = ["fleet"]\n')
    place.service("extra")
    place.applied_before()  # policies are refused until they are evaluated, but revisions have them
    place.replace("services/hello.toml", "port = 8080", "port = 8081")
    place.copy(place.root.with_name("first-revision"))
    place.run("apply", "--yes").ok()
    return place


@pytest.fixture
def place(good: Place, tmp_path: Path) -> Place:
    return good.copy(tmp_path / "p")


@pytest.fixture(scope="module")
def watcher() -> Iterator[Warm]:
    """Runs commands under the eyes of strace: whoever listens is seen."""
    with warm(watched=("bind", "listen")) as interpreter:
        yield interpreter


@pytest.fixture(scope="module")
def plain() -> Iterator[Warm]:
    with warm() as interpreter:
        yield interpreter


# ---- doing damage ----------------------------------------------------------------------------------------------------


@contextmanager
def database(place: Place) -> Iterator[apsw.Connection]:
    db = apsw.Connection(str(place.database), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        yield db
    finally:
        db.close()


def only(db: apsw.Connection, question: str, value: str) -> Any:
    return db.execute(question, (value,)).fetchall()[0][0]


def value(place: Place, key: str) -> Any:
    question = "SELECT value FROM live JOIN changes USING (key) WHERE key = ? AND revision = modified"
    with database(place) as db:
        return json.loads(only(db, question, key))


def rewrite(place: Place, key: str, content: object) -> None:
    text = content if isinstance(content, bytes) else json.dumps(content, separators=(",", ":")).encode()
    with database(place) as db:
        found = db.execute("SELECT modified FROM live WHERE key = ?", (key,)).fetchall()
        db.execute("UPDATE changes SET value = ? WHERE key = ? AND revision = ?", (text, key, found[0][0]))
        assert db.changes() == 1


def drop(place: Place, *keys: str) -> None:
    with database(place) as db:
        for key in keys:
            db.execute("DELETE FROM live WHERE key = ?", (key,))
            assert db.changes() == 1


def add(place: Place, key: str, content: object) -> None:
    with database(place) as db:
        at = db.execute("SELECT max(revision) + 1 FROM changes").fetchall()[0][0]
        db.execute("INSERT INTO changes VALUES (?, ?, ?)", (at, key, json.dumps(content).encode()))
        db.execute("INSERT INTO live VALUES (?, ?, ?, '')", (key, at, at))


def blob(place: Place, digest: str) -> bytes:
    with database(place) as db:
        return bytes(only(db, "SELECT content FROM blobs WHERE digest = ?", digest))


def flip_one_bit(place: Place, digest: str) -> None:
    content = bytearray(blob(place, digest))
    content[len(content) // 2] ^= 1
    with database(place) as db:
        db.execute("UPDATE blobs SET content = ? WHERE digest = ?", (bytes(content), digest))


def digest_of(place: Place, what: str) -> str:
    """Of `header`, `table`, or an address in the table."""
    head = str(value(place, "head")["digest"])
    if what == "header":
        return head
    table = str(json.loads(blob(place, head))["resources"])
    return table if what == "table" else str(json.loads(blob(place, table))["entries"][what]["digest"])


def lose_blob(place: Place, what: str) -> None:
    digest = digest_of(place, what)
    with database(place) as db:
        db.execute("DELETE FROM blobs WHERE digest = ?", (digest,))
        assert db.changes() == 1


def truncated(share: float, place: Place, _: Place) -> None:
    with database(place) as db:
        db.pragma("wal_checkpoint(truncate)")
    for name in ("ledger.db-wal", "ledger.db-shm"):
        (place.ledger / name).unlink(missing_ok=True)
    os.truncate(place.database, int(place.database.stat().st_size * share))


def foreign(place: Place) -> None:
    clear(place)
    db = apsw.Connection(str(place.database))
    db.execute("CREATE TABLE notes (text)")
    db.close()


def clear(place: Place) -> None:
    """No ledger, but the high-water mark and the directory stay."""
    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
        (place.ledger / name).unlink(missing_ok=True)


def write_plain(place: Place, content: bytes) -> None:
    clear(place)
    place.database.write_bytes(content)


def put_directory(place: Place) -> None:
    clear(place)
    place.database.mkdir()


def take_ledger_of(place: Place, other: Place) -> None:
    clear(place)
    for path in other.ledger.glob("ledger.db*"):
        shutil.copy(path, place.ledger)


def earlier(place: Place) -> Place:
    """The same fleet as it was before its second revision."""
    return Place(place.root.with_name("first-revision"))


def roll_back(place: Place, good: Place) -> None:
    take_ledger_of(place, earlier(good))


def fork(place: Place, good: Place) -> None:
    other = earlier(good).copy(place.root.with_name("fork"))
    other.replace("services/hello.toml", "port = 8081", "port = 9999")
    other.run("apply", "--yes").ok()
    take_ledger_of(place, other)


def second_record(place: Place) -> Any:
    return value(place, "revision/000000000002")


def sign_by_stranger(place: Place) -> None:
    """A good signature over the right bytes, by a key that nobody trusts."""
    key, message = place.root / "stranger", place.root / "message"
    make_key(key)
    message.write_bytes(blob(place, digest_of(place, "header")))
    words = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", "holdfast-revision", str(message)]
    subprocess.run(words, check=True)
    signature = message.with_suffix(".sig").read_text()
    rewrite(place, "revision/000000000002", {**second_record(place), "signatures": [signature]})


def sign_other_bytes(place: Place) -> None:
    """The operator's own signature, of another revision."""
    other = value(place, "revision/000000000001")["signatures"]
    rewrite(place, "revision/000000000002", {**second_record(place), "signatures": other})


def take_signatures_away(place: Place) -> None:
    rewrite(place, "revision/000000000002", {**second_record(place), "signatures": []})


def arm_recovery(place: Place) -> None:
    head = value(place, "head")
    armed = {"id": "00ff", "base": head["number"], "base_digest": head["digest"], "target_digest": "0" * 64}
    add(place, "recovery/00ff", {**armed, "armed_at_s": 1.0, "blobs": []})


def forget_binding(place: Place) -> None:
    """A revision, properly signed, whose table does not say where the policy applies: committed by an older release."""
    from holdfast.adapters.signer.keyfile import KeyfileSigner
    from holdfast.cli.terminal import system_terminal
    from holdfast.model.revision import NAMESPACE, Table
    from holdfast.planning.compile import compile_revision
    from holdfast.wiring.cli import SystemToolbox

    box = SystemToolbox(system_terminal(no_colour=True), place.environ)
    hub: Any = box.hubs.writer(str(place.ledger))
    applied = hub.applied()
    entries = {**applied.table.entries}
    entries["policy.base"] = replace(entries["policy.base"], applies_to=UNSET)
    candidate = compile_revision(Table(entries, applied.table.tombstones), applied, {}).candidate
    signature = KeyfileSigner(str(place.key), lambda question: "").sign(candidate.header, NAMESPACE)
    hub.commit(replace(candidate, signatures=(signature,)))
    (place.fleet / "fleet.lock").unlink()  # the directory did not commit this one
    shutil.rmtree(place.root / "state")


FATAL: dict[str, tuple[str, Callable[[Place, Place], object]]] = {
    "state directory missing": ("ledger_missing", lambda p, _: shutil.rmtree(p.ledger)),
    "ledger missing": ("ledger_missing", lambda p, _: clear(p)),
    "garbage": ("ledger_unreadable", lambda p, _: write_plain(p, random.Random(1).randbytes(40_000))),
    "zero length": ("ledger_truncated", lambda p, _: write_plain(p, b"")),
    "a directory in its place": ("ledger_unreadable", lambda p, _: put_directory(p)),
    "another program's database": ("ledger_foreign", lambda p, _: foreign(p)),
    "newer records": ("ledger_newer", lambda p, _: rewrite(p, "meta/pin", {**value(p, "meta/pin"), "format": 99})),
    "newer file": ("ledger_newer", lambda p, _: pragma(p, "user_version = 99")),
    "recovery pending": ("ledger_recovery_pending", lambda p, _: arm_recovery(p)),
    "header one bit off": ("head_damaged", lambda p, _: flip_one_bit(p, digest_of(p, "header"))),
    "table one bit off": ("head_damaged", lambda p, _: flip_one_bit(p, digest_of(p, "table"))),
    "trust one bit off": ("head_damaged", lambda p, _: flip_one_bit(p, digest_of(p, "trust"))),
    "table missing": ("head_damaged", lambda p, _: lose_blob(p, "table")),
    "head garbled": ("head_damaged", lambda p, _: rewrite(p, "head", b"{")),
    "pin garbled": ("head_damaged", lambda p, _: rewrite(p, "meta/pin", b"[]")),
    "fleet resource one bit off": ("blob_damaged", lambda p, _: flip_one_bit(p, digest_of(p, "fleet"))),
    "record of the head missing": ("chain_broken", lambda p, _: drop(p, "revision/000000000002")),
    "older ledger copied back": ("rolled_back", roll_back),
    "emptied": ("rolled_back", lambda p, _: drop(p, "head", "revision/000000000002")),
    "another revision under the same number": ("forked", fork),
    "signed by a stranger": ("signature_invalid", lambda p, _: sign_by_stranger(p)),
    "signature of other bytes": ("signature_invalid", lambda p, _: sign_other_bytes(p)),
    "signatures taken away": ("signature_invalid", lambda p, _: take_signatures_away(p)),
    "pinned to another fleet": (
        "other_fleet",
        lambda p, _: rewrite(p, "meta/pin", {**value(p, "meta/pin"), "fleet": "f" * 64}),
    ),
    "high-water mark garbled": ("high_water_damaged", lambda p, _: (p.ledger / "high-water").write_bytes(b"x" * 5000)),
}
LENGTHS = random.Random(11)
FATAL |= {
    f"truncated to {share:.3f}": ("ledger_truncated", partial(truncated, share))
    for share in sorted(LENGTHS.uniform(0.0005, 0.999) for _ in range(10))
}


def pragma(place: Place, text: str) -> None:
    with database(place) as db:
        db.execute(f"PRAGMA {text}")


# ---- rows that refuse ------------------------------------------------------------------------------------------------


def refuses(place: Place, watcher: Warm, *words: str) -> dict[str, str]:
    """Exit 7 in time, nothing listened, nothing written."""
    before = fingerprints(place.ledger)
    watch = Stopwatch()
    refused = watcher.run(place, *words).refused(7)
    assert watch.within(REFUSED_WITHIN_S)
    assert fingerprints(place.ledger) == before
    assert watcher.seen() == [], "a port was opened"
    return refused


def test_a_port_would_have_been_seen(place: Place) -> None:
    """The watcher does see a hub that listens."""
    for patience_s in (2, 8, 32):  # it ends only when it is killed, so that an idle machine waits for 2 s
        with warm(watched=("bind", "listen")) as watcher:
            with pytest.raises(TimeoutError):
                watcher.run(place, *RUN, timeout_s=patience_s)
            if any("listen(" in line for line in watcher.seen()):
                return
    pytest.fail("no port was seen")


def checked(place: Place, plain: Warm) -> tuple[int, list[dict[str, str]]]:
    before = fingerprints(place.ledger)
    watch = Stopwatch()
    outcome = plain.run(place, *CHECK)
    assert watch.within(REFUSED_WITHIN_S)
    assert "Traceback" not in outcome.err and fingerprints(place.ledger) == before
    return outcome.code, outcome.json["findings"]


@pytest.mark.parametrize("row", FATAL)
def test_damage_to_everything_refuses_and_opens_no_port(
    row: str, place: Place, good: Place, watcher: Warm, plain: Warm
) -> None:
    """R11, O-33, O-40, I-07, I-09; a restored backup, the remedy that always helps, boots again."""
    code, damage = FATAL[row]
    damage(place, good)
    found, findings = checked(place, plain)
    assert (found, findings[0]["code"]) == (7, code) and findings[0]["remedy"]
    assert refuses(place, watcher, *RUN)["code"] == code
    shutil.rmtree(place.ledger, ignore_errors=True)
    shutil.copytree(good.ledger, place.ledger)
    assert checked(place, plain) == (0, [])


def test_a_truncated_wal_is_a_rollback(place: Place, watcher: Warm, plain: Warm) -> None:
    """R11: what the last commits wrote is cut off; the ledger is whole, but older than it was."""
    wal = place.ledger / "ledger.db-wal"
    os.truncate(wal, wal.stat().st_size // 2)
    found, findings = checked(place, plain)
    assert (found, findings[0]["code"]) == (7, "rolled_back")
    assert refuses(place, watcher, *RUN)["code"] == "rolled_back"


# ---- rows that boot --------------------------------------------------------------------------------------------------


@contextmanager
def running_hub(place: Place, *words: str) -> Iterator[str]:
    """The URL of a hub that is up; it is told to go at the end, and must go."""
    hub = subprocess.Popen(
        [PYTHON, "-m", "holdfast", "hub", "run", *STATE, "--listen", "127.0.0.1:0", *words],
        cwd=place.fleet,
        env=place.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert hub.stderr is not None
        said = ""
        while not (found := re.search(r"serving on (https://\S+)\s+hub key: (.+)\n", said)):
            line = hub.stderr.readline()
            assert line, f"the hub ended: {said}"
            said += line
        place.hub_key.write_text(found[2])
        yield found[1]
        hub.send_signal(signal.SIGTERM)
        watch = Stopwatch()
        assert hub.wait(60) == 0 and watch.within(REFUSED_WITHIN_S)
    finally:
        if hub.poll() is None:
            hub.kill()
        end(hub)
        if hub.stderr is not None:
            hub.stderr.close()


def status(place: Place, plain: Warm) -> Any:
    with running_hub(place) as url:
        return status_at(url, place, plain)


def status_at(url: str, place: Place, plain: Warm) -> Any:
    """Without what it says of nodes: none has joined here, and none is meant to."""
    found = plain.run(place, "status", "--hub", url, "--json").ok().json
    return found | {"findings": [f for f in found["findings"] if f["code"] != "node_not_joined"]}


def test_a_sound_ledger_boots_and_serves_its_head(place: Place, plain: Warm) -> None:
    """R11"""
    assert checked(place, plain) == (0, [])
    found = status(place, plain)
    assert (found["serving"]["number"], found["quarantined"], found["findings"]) == (2, [], [])


RESOURCE: dict[str, tuple[str, str, Callable[[Place], object]]] = {
    "content missing": ("blob_missing", "service.extra", lambda p: lose_blob(p, "service.extra")),
    "content one bit off": (
        "blob_damaged",
        "service.extra",
        lambda p: flip_one_bit(p, digest_of(p, "service.extra")),
    ),
    "binding missing": ("binding_missing", "policy.base", forget_binding),
}


@pytest.mark.parametrize("row", RESOURCE)
def test_damage_to_one_resource_boots_without_it_and_the_remedy_heals_it(
    row: str, place: Place, watcher: Warm, plain: Warm
) -> None:
    """R11, O-30, I-07"""
    code, address, damage = RESOURCE[row]
    damage(place)
    found, findings = checked(place, plain)
    assert found == 7 and [(f["code"], f["address"]) for f in findings] == [(code, address)]
    assert refuses(place, watcher, *RUN, "--strict")["code"] == code
    shown = status(place, plain)
    assert shown["quarantined"] == [address]
    (finding,) = shown["findings"]
    assert (finding["code"], finding["address"]) == (code, address) and "holdfast apply" in finding["remedy"]
    assert shown["resources"]["service"] + shown["resources"].get("policy", 0) == 2
    plain.run(place, "apply", "--yes").ok()  # what the remedy says
    assert checked(place, plain) == (0, [])
    healed = status(place, plain)
    assert (healed["quarantined"], healed["findings"]) == ([], [])


@pytest.mark.parametrize("lock", ["IMMEDIATE", "EXCLUSIVE"])
def test_a_held_lock_never_blocks_the_boot(lock: str, place: Place, plain: Warm) -> None:
    """R11, O-34"""
    with locked(place.database, lock):
        assert checked(place, plain) == (0, [])
        assert status(place, plain)["serving"]["number"] == 2


# ---- remedies, followed literally ------------------------------------------------------------------------------------


def test_a_pending_recovery_is_settled_by_the_sweep_its_remedy_names(place: Place, plain: Warm) -> None:
    arm_recovery(place)
    (finding,) = checked(place, plain)[1]
    assert "holdfast hub check --sweep --state-dir" in finding["remedy"]
    plain.run(place, "hub", "check", "--sweep", *STATE).ok()
    assert checked(place, plain) == (0, [])
    assert status(place, plain)["serving"]["number"] == 2


def test_a_garbled_high_water_mark_may_be_removed_after_a_look(place: Place, plain: Warm) -> None:
    (place.ledger / "high-water").write_bytes(b"x" * 5000)
    (finding,) = checked(place, plain)[1]
    assert "remove the file high-water" in finding["remedy"]
    (place.ledger / "high-water").unlink()
    assert checked(place, plain) == (0, [])
    place.replace("services/hello.toml", "port = 8081", "port = 8082")
    plain.run(place, "apply", "--yes").ok()
    assert (place.ledger / "high-water").exists()


def test_a_missing_ledger_is_made_by_hub_init_and_the_first_apply(tmp_path: Path, watcher: Warm, plain: Warm) -> None:
    """O-33: a new hub; the remedy names both commands."""
    place = new_place(tmp_path / "p")
    assert "holdfast hub init --trust" in refuses(place, watcher, *RUN)["remedy"]
    trust = plain.run(place, "validate", "--json").ok().json["trust"]
    plain.run(place, "hub", "init", "--trust", trust, *STATE).ok()
    with running_hub(place) as url:
        plain.run(place, "apply", "--yes", "--hub", url).ok()
        assert plain.run(place, "status", "--hub", url, "--json").ok().json["serving"]["number"] == 1
    assert checked(place, plain) == (0, [])
