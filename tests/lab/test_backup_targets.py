"""Backups of a real fleet on SeaweedFS, in restic and in a directory: they come back when others are lost."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.fleets.backup_targets import mounted
from tests.fleets.lab import LabUnderTest, lab
from tests.fleets.seaweed import MINE, Seaweed, seaweed
from tests.fleets.waiting import wait_until
from tests.lab.test_backups import NAME, SERVICE, back_up, backups, data, fill, store, tree

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
            shutil.rmtree(stage.folder / "repository" / "data")
    (data(made) / "deep" / "big").write_bytes(b"damaged")
    made.run("restore", NAME, "--yes").ok()
    assert tree(data(made)) == before, "from the bucket alone"
