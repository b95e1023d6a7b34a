"""Backups of a real fleet on SeaweedFS, in restic and in a directory: they come back when others are lost."""

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import obstore
import pytest
from msgspec import Struct

from holdfast.model.backup import Receipt, SignedReceipt
from tests.fleets.backup_targets import mounted, run
from tests.fleets.lab import LabUnderTest, lab
from tests.fleets.lab_pasting import runs
from tests.fleets.seaweed import MINE, Seaweed, seaweed
from tests.fleets.waiting import wait_until
from tests.lab.product import PYTHON
from tests.lab.test_backups import NAME, SERVICE, back_up, backups, data, fill, next_backup, store, tree

pytestmark = pytest.mark.lab

PASSWORD = "password-of-a-test"


class Stage(Struct, frozen=True):
    lab: LabUnderTest
    server: Seaweed
    folder: Path


def target(name: str, **keys: Any) -> str:
    return "\n[[storage]]\n" + "".join(
        f"{key} = {json.dumps(value)}\n" for key, value in {"name": name, **keys}.items()
    )


def restic(folder: Path, *words: str) -> bytes:
    env = {"RESTIC_REPOSITORY": str(folder / "repository"), "RESTIC_PASSWORD": PASSWORD, "PATH": "/usr/bin:/bin"}
    return subprocess.run(["restic", "--no-cache", *words], env=env, capture_output=True, check=True).stdout


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("targets")
    with (
        mounted(folder / "disk", "512M", "ext4") as disk,
        lab(folder / "lab", nodes="hub1:hub,w1:worker") as made,
        seaweed(folder / "weed", made.registry.partition(":")[0]) as server,
    ):
        (disk / ".holdfast-target").write_text("backup target of Holdfast\nid disk-1\nseparate yes\n")
        restic(folder, "init")
        repository = json.loads(restic(folder, "cat", "config"))["id"]
        made.lab("fast").ok()
        file = Path(made.fleet) / "fleet.toml"
        file.write_text(
            file.read_text()
            + target(
                "disk", type="local-dir", durable_id="disk-1", location=str(disk), nodes=["w1"], **{"class": "fast"}
            )
            + target(
                "cold", type="s3", durable_id="cold-1", location=f"{server.endpoint}/backups/fleet", nodes=["w1"],
                secret="cold-keys", role="offsite",
            )
            + target(
                "hubs", type="s3", durable_id="hubs-1", location=f"{server.endpoint}/backups/hubs", nodes=["hub1"],
                secret="cold-keys",
            )
            + target(
                "vault", type="restic", durable_id=repository, location=str(folder / "repository"), nodes=["w1"],
                secret="vault-password",
            )
        )  # fmt: skip
        keys = f"AWS_ACCESS_KEY_ID={MINE.access_key_id}\nAWS_SECRET_ACCESS_KEY={MINE.secret_access_key}\n"
        (folder / "keys").write_text(keys)
        (folder / "password").write_text(f"RESTIC_PASSWORD={PASSWORD}\n")
        made.run("secret", "set", "cold-keys", "--file", str(folder / "keys")).ok()
        made.run("secret", "set", "vault-password", "--file", str(folder / "password")).ok()
        made.write(NAME, SERVICE.format(image=f"{made.registry}/hello:1"))
        made.run("deploy", NAME, "--yes").ok()
        made.run("apply", "--yes").ok()
        yield Stage(made, server, folder)


def copies(made: LabUnderTest) -> set[str]:
    """Of the newest backup."""
    found = backups(made)
    return {one["target"] for one in found[-1]["copies"]} if found else set()


def everywhere(made: LabUnderTest) -> None:
    wait_until(lambda: copies(made) == {"hub", "disk", "cold", "vault"}, lambda: f"{copies(made)}")


def test_a_backup_lies_on_every_target_and_comes_back_from_each_that_is_left(stage: Stage) -> None:
    made, disk = stage.lab, stage.folder / "disk"
    fill(data(made))
    back_up(made)
    everywhere(made)
    shown = json.loads(made.run("backup", "show", NAME, "--json").ok().out)
    assert {one["target"]: one["same_machine"] for one in shown["copies"]} == {
        "hub": False, "disk": True, "cold": False, "vault": True,
    }  # fmt: skip
    before = tree(data(made))
    for pack in store(made).rglob("packs/*"):  # the hub's disk is lost, but for the receipts
        pack.unlink()
    for lost in ("disk", "vault"):
        (data(made) / "deep" / "big").write_bytes(b"damaged")
        made.run("restore", NAME, "--yes").ok()
        assert tree(data(made)) == before, f"with {lost} there"
        if lost == "disk":
            shutil.rmtree(next(path for path in disk.iterdir() if path.is_dir() and path.name != "lost+found"))
        else:
            (stage.folder / "repository" / "data").rename(stage.folder / "away")
    (data(made) / "deep" / "big").write_bytes(b"damaged")
    made.run("restore", NAME, "--yes").ok()
    assert tree(data(made)) == before, "from the bucket alone"
    (stage.folder / "away").rename(stage.folder / "repository" / "data")


# ---- faults while a backup is made


def broken(paths: set[str], read: Callable[[str], bytes]) -> set[int]:
    """Numbers of backups whose receipt is on this target and some object of it is not."""
    names = {path.rpartition("/")[2] for path in paths}
    signed = [msgspec.json.decode(read(path), type=SignedReceipt) for path in paths if "/receipts/" in path]
    found = [msgspec.json.decode(one.receipt, type=Receipt) for one in signed]
    assert found
    return {one.sequence for one in found if {one.manifest.digest, *(pack.digest for pack in one.packs)} - names}


def broken_below(top: Path) -> set[int]:
    paths = {str(path) for path in top.rglob("*") if path.is_file() and "lost+found" not in path.parts}
    return broken(paths, lambda path: Path(path).read_bytes())


def in_bucket(stage: Stage) -> set[str]:
    return {str(one["path"]) for page in obstore.list(stage.server.store(), "fleet") for one in page}


def states(made: LabUnderTest) -> dict[str, str]:
    found = json.loads(made.run("backup", "list", "--json").ok().out)["targets"]
    return {one["name"]: one["state"] for one in found}


def more(made: LabUnderTest, mib: int) -> None:
    (data(made) / "more").write_bytes(os.urandom(mib << 20))


def test_a_server_and_a_hub_that_are_killed_in_the_middle_get_the_rest_when_they_are_back_i33(stage: Stage) -> None:
    """SeaweedFS first, then the hub: every receipt on every target has all that it names, at any time."""
    made = stage.lab
    everywhere(made)
    before = in_bucket(stage)
    more(made, 48)
    made.run("backup", NAME).ok()
    wait_until(lambda: in_bucket(stage) - before, "the first object of it is in the bucket")
    stage.server.kill()
    wait_until(lambda: copies(made) == {"hub", "disk", "vault"}, lambda: f"{copies(made)}")
    assert states(made)["cold"] == "missing", "the hub decides: the backup is made"
    assert broken_below(stage.folder / "disk") == set()
    stage.server.start_again()
    everywhere(made)
    assert broken(in_bucket(stage), lambda path: bytes(obstore.get(stage.server.store(), path).bytes())) == set()

    count, packs = len(backups(made)), len(list(store(made).rglob("packs/*")))
    lost = broken_below(store(made))  # the test above deleted packs there
    more(made, 48)
    made.run("backup", NAME).ok()
    wait_until(lambda: len(list(store(made).rglob("packs/*"))) > packs, "the first packs are stored")
    made.lab("kill", "hub").ok()
    assert broken_below(store(made)) == lost and broken_below(stage.folder / "disk") == set()
    made.lab("start", "hub").ok()
    wait_until(lambda: made.run("node", "list").code == 0, "the hub answers")
    wait_until(lambda: len(backups(made)) > count or next_backup(made) is not None, "the next run goes on")
    everywhere(made)
    made.run("backup", "verify", NAME).ok()


def test_a_target_that_is_really_full_loses_nothing_and_goes_on_when_there_is_room_r05(stage: Stage) -> None:
    made, disk = stage.lab, stage.folder / "disk"
    everywhere(made)
    held = {path: path.stat().st_size for path in disk.rglob("*") if path.is_file()}
    free = os.statvfs(disk)
    run("fallocate", "-l", str(free.f_bavail * free.f_frsize - (6 << 20)), disk / "filler")
    more(made, 32)
    assert back_up(made)["target"] == "hub"
    wait_until(lambda: states(made)["disk"] in ("full", "missing"), lambda: str(states(made)))
    assert "disk" not in copies(made) and broken_below(disk) == set()
    assert all(path.stat().st_size == size for path, size in held.items()), "nothing is pruned there, nothing lost"
    (disk / "filler").unlink()
    everywhere(made)
    assert broken_below(disk) == set()


# ---- a disk that the node has mounted


USB = str(uuid.uuid4())


@contextmanager
def plugged(image: Path) -> Iterator[None]:
    done = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True, check=True)
    try:
        yield
    finally:
        run("losetup", "--detach", done.stdout.strip())


def unit(made: LabUnderTest) -> bool:
    """What holdfast-mounts.path does on a machine with systemd, once."""
    if (Path(made.node("w1")["dirs"]["state"]) / "agent" / "mounts" / "requests").exists():
        words = ("/var/lib/holdfast/agent/mounts", "/run/holdfast/storage")  # as the node sees them
        made.enter("w1", PYTHON, "-m", "holdfast.mounts", *words).ok()
    return True


def mounted_in_node(made: LabUnderTest) -> bool:
    return "/storage/stick " in made.enter("w1", "cat", "/proc/self/mountinfo").ok().out


def test_a_disk_is_mounted_by_its_uuid_yanked_and_levelled_when_it_is_back_h48_h49(stage: Stage) -> None:
    made, image = stage.lab, stage.folder / "stick"
    run("truncate", "-s", "512M", image)
    run("mkfs.ext4", "-q", "-U", USB, image)
    file = made.fleet / "fleet.toml"
    file.write_text(file.read_text() + target("stick", type="usb", durable_id=USB, nodes=["w1"]))
    made.run("apply", "--yes").ok()

    def told() -> dict[str, str]:
        found = json.loads(made.run("backup", "list", "--json").ok().out)["targets"]
        return {one["name"]: one["state"] for one in found}

    wait_until(lambda: told().get("stick") == "missing", lambda: str(told()))
    unit(made)
    with plugged(image):
        wait_until(lambda: unit(made) and told()["stick"] == "attached", lambda: str(told()))
        assert mounted_in_node(made)
        back_up(made)
        wait_until(lambda: "stick" in copies(made), lambda: str(copies(made)))
        made.enter("w1", "umount", "-l", "/run/holdfast/storage/stick").ok()
        (data(made) / "later").write_text("made while the disk was away")
        assert back_up(made)["target"] == "hub"
        wait_until(lambda: told()["stick"] == "missing" or not mounted_in_node(made), "it is noticed")
        assert "stick" not in copies(made)
        wait_until(lambda: unit(made) and "stick" in copies(made), lambda: str(told()))
        file.write_text(file.read_text().replace('name = "stick"', 'name = "stick"\nstate = "disconnected"'))
        made.run("apply", "--yes").ok()
        wait_until(lambda: unit(made) and not mounted_in_node(made), "it is unmounted, so that it can be taken away")


def test_the_file_of_the_hub_is_kept_on_a_target_of_its_node_and_is_fetched_without_the_hub(stage: Stage) -> None:
    """The whole way back runs in docs/guides/disaster.md, and on this server in tests/lab/test_hub_copies.py (soak)."""
    made = stage.lab

    def copy() -> Any:
        return next(iter(json.loads(made.run("backup", "list", "--json").ok().out)["hub"]), {})

    wait_until(lambda: bool(copy().get("elsewhere")), "the node of the hub has stored its file")
    first = copy()
    assert (first["service"], first["targets"], first["elsewhere"]) == ("hub.hub1", ["hubs"], ["hubs"])
    assert not list(store(made).glob("*/hub.hub1")), "the hub stores its own file"
    said = made.run("status").ok().out
    assert "The hub: hub.hub1 made" in said and "on hubs" in said
    assert "hub.hub1" in made.run("backup", "list").ok().out
    made.run("backup", "hub.hub1", "--wait").ok()
    wait_until(lambda: copy()["id"] != first["id"], "the order made another one")
    runs("holdfast hub fetch STORAGE --list", (), lambda line: made.run(*line.split()[1:]), STORAGE="hubs")
    rows = made.run("hub", "fetch", "hubs", "--list", "--json").ok().json["files"]
    assert [row["id"] for row in rows] == [first["id"], copy()["id"]]
    file, again = stage.folder / "fetched.age", stage.folder / "again.age"
    made.run("hub", "fetch", "hubs", "--to", str(file)).ok()
    made.run("hub", "fetch", "hubs", "--to", str(file), "--json").refused(5, "exists")
    made.run("hub", "fetch", "hubs", "--to", str(again), "--backup", first["id"][:6]).ok()
    new = ("--state-dir", str(stage.folder / "new-hub"))
    assert made.run("hub", "restore", str(file), "--check", *new, "--json").ok().json["missing"] == 0
    made.run("hub", "restore", str(again), "--check", *new, "--json").ok()  # made while revisions were applied
    content = stage.server.store().get(next(_keys(stage, "hubs"))).bytes()
    assert b"-> ssh-ed25519 " in bytes(content) or b"-> X25519 " in bytes(content)


def _keys(stage: Stage, folder: str) -> Iterator[str]:
    for page in stage.server.store().list(f"{folder}/"):
        yield from (str(one["path"]) for one in page if "/keys/" in str(one["path"]))
