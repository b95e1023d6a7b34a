"""The hub's machine is gone: real hub, two real agents, one sealed file (issue 16 §5)."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import apsw
import pytest

from tests.fleets.counts import SOAK
from tests.fleets.waiting import wait_until
from tests.lab.product import fingerprints
from tests.lab.test_import_ledger import NODES, Scene

pytestmark = pytest.mark.lab

MIB = 1024 * 1024


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """Two nodes that joined, and whose keys are recorded: revision 2."""
    made = Scene(tmp_path / "x")
    with made.hub():
        made.apply("--detach")
        for node in NODES:
            made.join(node)
        with made.agent("w1"), made.agent("w2"):
            wait_until(lambda: _is_settled(made), "keys and certificates are recorded")
    yield made


def _is_settled(scene: Scene) -> bool:
    place = scene.place
    if "No changes" not in place.run("plan", "--offline").ok().out:
        scene.apply()
    return len(place.run("ca", "bundle", "--json").ok().json["certificates"]) == len(NODES)


def state(scene: Scene) -> tuple[str, str]:
    return ("--state-dir", str(scene.hub_state))


def backed_up(scene: Scene, name: str = "hub.age") -> Path:
    path = scene.place.root / name
    done = scene.place.run("hub", "backup", "--to", str(path), *state(scene), "--json").ok().json
    assert path.stat().st_size == done["size_bytes"]
    return path


def restored(scene: Scene, file: Path, *words: str) -> dict[str, object]:
    return dict(scene.place.run("hub", "restore", str(file), *state(scene), "--yes", "--json", *words).ok().json)


def change(scene: Scene, number: int) -> None:
    scene.place.service("a", env=str(number), node="w1", active=False)
    scene.apply()


def test_a_restored_hub_is_followed_without_joining_again_and_the_old_one_refuses(scene: Scene, tmp_path: Path) -> None:
    place, old = scene.place, tmp_path / "old-hub"
    srv = {node: tmp_path / "x" / f"srv-{node}" for node in NODES}
    with scene.agent("w1") as first, scene.agent("w2") as second:
        with scene.hub():
            file = backed_up(scene)  # while it serves
        before = {node: fingerprints(folder) for node, folder in srv.items()}
        scene.hub_state.rename(old)
        assert restored(scene, file)["missing"] == 0
        with scene.hub():
            joins = len(place.run("audit", "--json").ok().out.split('"join"'))
            assert "No changes" in place.run("plan", "--offline").ok().out
            change(scene, 2)  # waits until both nodes proved that they accepted it
            assert len(place.run("audit", "--json").ok().out.split('"join"')) == joins, "a node joined again"
        assert {node: fingerprints(folder) for node, folder in srv.items()} == before
        new = tmp_path / "new-hub"
        scene.hub_state.rename(new)
        old.rename(scene.hub_state)  # the old machine is switched on again
        with pytest.raises(AssertionError), scene.hub():
            wait_until(lambda: not listening(scene), "the old hub stops")
            raise AssertionError
        assert b"this hub was replaced: operators restored generation 1" in scene.tail("hub")
        refusal = place.run("hub", "run", *state(scene), "--json").refused(7, "superseded")
        assert "hub restore" in refusal["remedy"]
        shutil.rmtree(scene.hub_state)
        new.rename(scene.hub_state)
        with scene.hub():
            change(scene, 3)
        assert (first.poll(), second.poll()) == (None, None)


def test_a_file_that_is_three_revisions_old_is_named_and_mended_from_the_nodes(scene: Scene, tmp_path: Path) -> None:
    place = scene.place
    with scene.agent("w1") as first, scene.agent("w2") as second:
        with scene.hub():
            file = backed_up(scene)
            for number in (2, 3, 4):
                change(scene, number)
            lost = scene.head()
        shutil.rmtree(scene.hub_state)
        assert restored(scene, file)["missing"] == 3  # by fleet.lock
        with scene.hub():
            wait_until(lambda: "misses 3 revisions" in place.run("status").out, "a node showed what it accepted")
            assert "import ledger" in place.run("status").out
            place.service("a", env="5", node="w1", active=False)
            refused = place.run("apply", "--yes", "--offline", "--json").refused(7)  # fleet.lock knows better
            assert refused["code"] == "rolled_back" and "misses 3 revisions" in refused["message"]
            wait_until(lambda: place.run("import", "ledger", *state(scene)).code == 0, "the nodes sent what they have")
        checked = place.run("hub", "check", *state(scene)).ok()
        assert "sound" in checked.out
        with scene.hub():
            assert scene.head() == lost
            scene.apply()
            assert scene.head().number == lost.number + 1
        assert (first.poll(), second.poll()) == (None, None)


def listening(scene: Scene) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", scene.port)) == 0


def test_what_cannot_be_restored_is_refused_and_changes_nothing(scene: Scene, tmp_path: Path) -> None:
    place, root = scene.place, scene.place.root
    with scene.hub():
        file = backed_up(scene)
    place.run("hub", "backup", "--to", str(file), *state(scene), "--json").refused(5, "exists")
    before = fingerprints(scene.hub_state)
    there = place.run("hub", "restore", str(file), *state(scene), "--yes", "--json").refused(5, "already_exists")
    assert "move that one away" in there["remedy"]
    new = ("--state-dir", str(tmp_path / "new"), "--yes", "--json")
    other = tmp_path / "other.age"
    subprocess.run(["age-keygen", "-o", str(other)], check=True, capture_output=True, timeout=60)
    place.run("hub", "restore", str(file), *new, "--identity", str(other)).refused(3, "cannot_open")
    content = file.read_bytes()
    damaged = root / "damaged.age"
    damaged.write_bytes(content[: len(content) // 2] + b"x" + content[len(content) // 2 + 1 :])
    place.run("hub", "restore", str(damaged), *new).refused(3, "cannot_open")
    place.run("hub", "restore", str(file), *new, "--trust", "0" * 64).refused(7, "other_fleet")
    here = place.run("hub", "restore", str(file), "--check", *state(scene), "--json").refused(5, "already_exists")
    assert "exists" in here["message"]
    printed = place.run("hub", "backup", "--to", str(root / "shown.age"), *state(scene)).ok()
    (line,) = [line for line in printed.err.splitlines() if "To look into it" in line]
    pasted = place.run(*shlex.split(line.partition(": ")[2])[1:]).ok()
    assert "This file is sound" in pasted.out
    checked = place.run("hub", "restore", str(file), "--check", *new).ok().json
    assert (checked["state_dir"], checked["missing"]) == (None, 0)
    assert not (tmp_path / "new").exists() and sorted(os.listdir(tmp_path)) == ["other.age", "x"]
    assert fingerprints(scene.hub_state) == before
    place.run("hub", "restore", str(file), *new, "--generation", "0").refused(2, "usage")
    place.run("hub", "restore", str(file), *new, "--generation", "5").ok()
    again = ("hub", "backup", "--state-dir", str(tmp_path / "new"), "--to", str(root / "five.age"), "--json")
    assert place.run(*again).ok().json["generation"] == 5
    kept = tmp_path / "kept"
    kept.mkdir()
    for _ in range(3):
        place.run("hub", "backup", "--to", str(kept), "--keep", "2", *state(scene)).ok()
        time.sleep(1.1)  # names have the second
    assert len(list(kept.iterdir())) == 2


def peak_mib(scene: Scene, *words: str) -> float:
    """Of a command that succeeds."""
    child = subprocess.Popen(
        scene.place.command(*words), cwd=scene.place.fleet, env=scene.place.environ, stdin=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(child.pid, 0)
    assert status == 0
    return usage.ru_maxrss / 1024


def test_memory_stays_flat_however_long_the_ledger_is(tmp_path: Path) -> None:
    """A long ledger has many contents: here so many MiB of them."""
    size_mib = 320 if SOAK else 96
    scene = Scene(tmp_path / "x")
    with scene.hub():
        scene.apply("--detach")
    small = peak_mib(scene, "hub", "backup", "--to", str(tmp_path / "small.age"), *state(scene))
    with closing(apsw.Connection(str(scene.hub_state / "ledger.db"))) as ledger, ledger:
        for _ in range(size_mib):
            content = os.urandom(MIB)
            ledger.execute("INSERT INTO blobs VALUES (?, ?)", (sha256(content).hexdigest(), content))
    file = tmp_path / "large.age"
    large = peak_mib(scene, "hub", "backup", "--to", str(file), *state(scene))
    assert file.stat().st_size > size_mib * MIB
    assert large < small + 32, f"{small:.0f} MiB, and {large:.0f} MiB for {size_mib} MiB"
    new = ("--state-dir", str(tmp_path / "new"))
    restored = peak_mib(scene, "hub", "restore", str(file), *new, "--yes", "-q")
    assert restored < small + 64, f"{small:.0f} MiB, and {restored:.0f} MiB for {size_mib} MiB"
    assert (tmp_path / "new" / "ledger.db").stat().st_size > size_mib * MIB
    print(f"{size_mib} MiB: {large:.0f} MiB to back it up, {restored:.0f} MiB to restore it; small: {small:.0f} MiB")
