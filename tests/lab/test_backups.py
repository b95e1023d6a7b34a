"""Backups in a real fleet: the hub cannot read them, kills leave nothing half, and the data of a dead node returns."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.backup import Receipt, SignedReceipt
from tests.fleets.lab import LabUnderTest, lab
from tests.fleets.lab_pasting import runs
from tests.fleets.waiting import wait_until
from tests.lab.product import Outcome

pytestmark = pytest.mark.lab

NAME = "notes"
CANARY = "canary-5d20b1c9"
MIB = 1024 * 1024

SERVICE = """
[[components]]
name = "web"
image = "{image}"

[[components.volumes]]
name = "files"
path = "/data"
protect = "backup"
"""


GRPC = """
[snapshot]
method = "grpc"
restore = "sh -c 'cat > /data/loaded'"
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabUnderTest]:
    with lab(tmp_path_factory.mktemp("backups"), nodes="hub1:hub,w1:worker,w2:worker") as found:
        found.lab("fast").ok()
        found.write(NAME, SERVICE.format(image=f"{found.registry}/hello:1"))
        found.run("deploy", NAME, "--yes").ok()
        yield found


def data(made: LabUnderTest, node: str = "w1") -> Path:
    return Path(made.node(node)["dirs"]["data"]) / NAME / "files"


def store(made: LabUnderTest) -> Path:
    return Path(made.node("hub1")["dirs"]["state"]) / "hub" / "backups"


def home_of(made: LabUnderTest, service: str = NAME) -> str:
    """The node where the service is applied."""
    rows = json.loads(made.run("ps", service, "--json").ok().out)["services"]
    return str(rows[0]["node"])


def backups(made: LabUnderTest) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(made.run("backup", "list", NAME, "--json").ok().out)["backups"]
    return found


def back_up(made: LabUnderTest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(made.run("backup", NAME, "--wait", "--json").ok().out)
    return found


def next_backup(made: LabUnderTest) -> int | None:
    """How many files it has; None if the agent refused an order that was signed before the hub heard of its restart."""
    done = made.run("backup", NAME, "--wait", "--json")
    if done.code and json.loads(done.err)["code"] == "other_life":
        return None
    return int(json.loads(done.ok().out)["files"])


def tree(top: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Everything that a restore must bring back."""
    found = {}
    for path in sorted(top.rglob("*")):
        about = path.lstat()
        content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(top))] = about.st_mode, about.st_uid, int(about.st_mtime), content
    return found


def fill(top: Path) -> None:
    for number in range(40):
        (top / f"{CANARY}-name-{number}").write_text(f"{CANARY}-content-{number}\n")
    (top / "deep").mkdir(mode=0o750)
    (top / "deep" / "big").write_bytes(os.urandom(40 * MIB))
    (top / "link").symlink_to("deep/big")
    os.chown(top / "deep" / "big", 1000, 1000)


def receipts(made: LabUnderTest) -> list[Receipt]:
    import msgspec

    found = [path.read_bytes() for path in sorted(store(made).rglob("receipts/*"))]
    signed = [msgspec.json.decode(content, type=SignedReceipt) for content in found]
    return [msgspec.json.decode(one.receipt, type=Receipt) for one in signed]


def complete(made: LabUnderTest) -> bool:
    """Every object that a receipt names is there."""
    stored = {path.name for path in store(made).rglob("*") if path.is_file()}
    return all({one.manifest.digest, *(pack.digest for pack in one.packs)} <= stored for one in receipts(made))


def test_the_hub_stores_neither_content_nor_names_and_stock_tools_open_everything(
    made: LabUnderTest, tmp_path: Path
) -> None:
    """With the hub's disk alone nothing can be read; with the operator's identity, age, zstd and tar all of it can."""
    fill(data(made))
    done = back_up(made)
    assert done["files"] == 42 and done["target"] == "hub" and done["new_bytes"] > 40 * MIB
    state = made.node("hub1")["dirs"]["state"]
    assert subprocess.run(["grep", "-rlF", CANARY, state], capture_output=True).stdout == b""
    assert not [path for path in Path(state).rglob("*") if CANARY in path.name]
    (key,) = store(made).rglob("keys/*")
    script = """
        age --decrypt --identity "$IDENTITY" "$KEY" > key
        for pack in $PACKS; do age --decrypt --identity key "$pack" | zstd --decompress --quiet | tar --extract; done
    """
    packs = " ".join(map(str, store(made).rglob("packs/*")))
    env = {**os.environ, "IDENTITY": made.variables["HOLDFAST_IDENTITY"], "KEY": str(key), "PACKS": packs}
    subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env=env, check=True, capture_output=True)
    for number in range(40):
        name = f"{CANARY}-name-{number}"
        assert (tmp_path / "files" / name).read_bytes() == (data(made) / name).read_bytes()
    parts = sorted((tmp_path / "files" / "deep" / "big.holdfast-part").iterdir())
    assert b"".join(part.read_bytes() for part in parts) == (data(made) / "deep" / "big").read_bytes()


@pytest.mark.parametrize("victim", ["agent", "hub"])
def test_a_kill_in_the_middle_leaves_no_receipt_that_is_not_one_and_the_next_backup_goes_on(
    made: LabUnderTest, victim: str
) -> None:
    before = len(backups(made))
    (data(made) / "deep" / "more").write_bytes(os.urandom(60 * MIB))
    stored = len(list(store(made).rglob("packs/*")))
    made.run("backup", NAME).ok()
    wait_until(lambda: len(list(store(made).rglob("packs/*"))) > stored, "the first packs are stored")
    made.lab("kill", *(["w1", "--agent"] if victim == "agent" else ["hub"])).ok()
    assert complete(made), "a receipt comes last"
    made.lab("start", "w1" if victim == "agent" else "hub").ok()
    wait_until(lambda: made.run("node", "list").code == 0, "the hub answers")
    wait_until(lambda: len(backups(made)) > before or next_backup(made) == 43, "a backup is made")
    assert complete(made)
    made.run("backup", "verify", NAME).ok()
    (data(made) / "deep" / "more").unlink()


def test_commands_that_remedies_name_work_when_they_are_pasted(made: LabUnderTest, tmp_path: Path) -> None:
    def typed(line: str) -> Outcome:
        return made.run(*line.split()[1:])

    runs("holdfast backup list", (), typed)
    runs("holdfast backup list {}", (NAME,), typed)
    runs("holdfast backup {}", (NAME,), typed)
    runs("holdfast backup {} --wait", (NAME,), typed)
    runs("holdfast backup export {} FILE", (NAME,), typed, FILE=str(tmp_path / "notes.tar.zst"))


def test_a_backup_is_exported_as_one_plain_file_with_progress_and_over_nothing(
    made: LabUnderTest, tmp_path: Path
) -> None:
    id = back_up(made)["id"]
    file = tmp_path / "notes.tar.zst"
    done = made.run("backup", "export", NAME, str(file)).ok()
    assert f"Backup {id} of {NAME} is in" in done.out and "/s, " in done.err and "s left" in done.err, done
    assert file.stat().st_mode & 0o777 == 0o600
    subprocess.run(["tar", "--zstd", "-xf", str(file), "-C", str(tmp_path)], check=True)
    assert tree(tmp_path / "files") == tree(data(made))
    again = made.run("backup", "export", NAME, str(file), "--json")
    assert again.code == 5 and file.exists(), again
    other = tmp_path / "other.tar.zst"
    said = json.loads(made.run("backup", "export", NAME, str(other), "--backup", id[:8], "--json").ok().out)
    assert said["files"] == 42 and said["file_bytes"] == other.stat().st_size and said["id"] == id
    refused = made.run("backup", "export", NAME, str(tmp_path / "no"), "--identity", "/nonexistent")
    assert refused.code == 2 and not (tmp_path / "no").exists(), refused
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files", "notes.tar.zst", "other.tar.zst"]


def test_a_hub_that_lost_its_store_says_so_and_the_next_backup_is_whole(made: LabUnderTest) -> None:
    """N81: `status` went on with "made 3 s ago"."""
    back_up(made)
    shutil.rmtree(store(made))

    def missing() -> bool:
        done = made.run("status", "--check", "--json")
        return done.code == 1 and any(one["code"] == "backup_missing" for one in json.loads(done.out)["findings"])

    wait_until(missing, "the hub misses the backup")
    back_up(made)
    made.run("backup", "verify", NAME).ok()
    assert not missing()


def test_a_restore_shows_its_progress(made: LabUnderTest) -> None:
    long = data(made) / "deep" / "long"
    long.write_bytes(os.urandom(400 * MIB))  # it takes seconds
    try:
        back_up(made)
        done = made.run("restore", NAME, "--beside").ok()
    finally:
        long.unlink()
    assert "MiB of " in done.err and "/s, " in done.err, done


def test_a_service_with_the_standard_call_makes_its_files_ready_before_each_backup_m_50(made: LabUnderTest) -> None:
    text = SERVICE.format(image=f"{made.registry}/greeter:1").replace('"files"', '"book"')
    made.write("greeter", text.replace('name = "web"', 'name = "web"\nhealth = { type = "grpc", port = 8080 }') + GRPC)
    made.run("deploy", "greeter", "--yes").ok()
    book = Path(made.node(home_of(made, "greeter"))["dirs"]["data"]) / "greeter" / "book"
    assert json.loads(made.run("backup", "greeter", "--wait", "--json").ok().out)["files"] == 1
    kept = (book / "greetings.snapshot").read_text()
    (book / "greetings.snapshot").write_text("damaged")
    made.run("restore", "greeter", "--yes").ok()
    assert kept == (book / "greetings.snapshot").read_text() == (book / "loaded").read_text()


def test_data_of_a_dead_node_is_restored_on_another_one_byte_for_byte_m89(made: LabUnderTest) -> None:
    home, other = home_of(made), "w2"
    assert home == "w1"
    back_up(made)
    before = tree(data(made))
    made.lab("kill", "w1").ok()
    made.run("undeploy", NAME, "--yes", "--detach").ok()
    done = runs("holdfast restore {} --to NODE", (NAME,), lambda line: made.run(*line.split()[1:], "--yes"), NODE=other)
    assert "of checkpoint backup-" in done.out
    assert tree(data(made, other)) == before
    refused = made.run("restore", NAME, "--to", other, "--yes", "--identity", "/nonexistent")
    assert refused.code == 2, refused
