"""Faults of real disks and processes while backups are made and pruned: no success that is none, nothing lost, the next
run goes on (R05, I-28, I-33, H-49)."""

import fcntl
import json
import os
import signal
import struct
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.adapters.archive.messages import UNDER_WAY_MAX
from holdfast.lab import node as lab_node
from holdfast.model.backup import Receipt, SignedReceipt
from tests.fleets.backup_targets import files_in, mounted, run
from tests.fleets.counts import SOAK
from tests.fleets.deploy_scene import Meddler
from tests.fleets.lab import LabUnderTest, lab
from tests.fleets.waiting import wait_until
from tests.lab.product import PYTHON
from tests.lab.test_backup_targets import broken_below, states, target
from tests.lab.test_backups import NAME, SERVICE, back_up, backups, data, tree

pytestmark = [pytest.mark.lab, pytest.mark.timeout(7200 if SOAK else 900)]

MIB = 1 << 20
SMALL = "224m"  # of a disk that is filled
TOLD_S_MAX = 30.0  # R05
STATE = "/var/lib/holdfast"  # as a node sees it


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With a disk that is mounted before the nodes exist: they see what was mounted then."""
    found = tmp_path_factory.mktemp("disks")
    with mounted(found / "disk", "512M", "ext4") as disk:
        (disk / ".holdfast-target").write_text("backup target of Holdfast\nid disk-1\nseparate yes\n")
        yield found


@pytest.fixture(scope="module")
def made(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabUnderTest]:
    with lab(tmp_path_factory.mktemp("faults"), nodes="hub1:hub,w1:worker") as found:
        found.lab("fast").ok()
        file = found.fleet / "fleet.toml"
        file.write_text(file.read_text() + "\n[backups]\nretain = 1\n")
        found.write(NAME, SERVICE.format(image=f"{found.registry}/hello:1"))
        found.run("apply", "--yes").ok()
        yield found


def change(made: LabUnderTest, mib: int) -> None:
    """The data has that much more that was in no backup yet."""
    (data(made) / "changed").write_bytes(os.urandom(mib * MIB))


def receipts_below(top: Path) -> dict[int, Receipt]:
    found = [msgspec.json.decode(path.read_bytes(), type=SignedReceipt) for path in top.rglob("receipts/*")]
    decoded = [msgspec.json.decode(one.receipt, type=Receipt) for one in found]
    return {one.sequence: one for one in decoded if one.service == NAME}


def findings(made: LabUnderTest) -> dict[str, str]:
    found = json.loads(made.run("status", "--json").out)["findings"]
    return {one["code"]: one["message"] for one in found}


def inside(made: LabUnderTest, node: str, path: str) -> Path:
    """A path as the node sees it."""
    return Path(f"/proc/{made.node(node)['pids']['node']}/root{path}")


def held(made: LabUnderTest) -> dict[str, int]:
    """Everything that the hub stores, with its size."""
    top = inside(made, "hub1", f"{STATE}/hub/backups")
    return {str(path.relative_to(top)): path.stat().st_size for path in top.rglob("*") if path.is_file()}


def next_backup(made: LabUnderTest) -> dict[str, Any] | None:
    """None: the order was signed before the hub heard that the agent has started again, or what it keeps."""
    done = made.run("backup", NAME, "--wait", "--json")
    if done.code and json.loads(done.err)["code"] in ("other_life", "not_backed_up"):
        return None
    found: dict[str, Any] = json.loads(done.ok().out)
    return found


def is_running(made: LabUnderTest) -> bool:
    found = json.loads(made.run("backup", "list", NAME, "--json").ok().out)
    return any(one.get("running") for one in found.get("services", ()))


def whole(made: LabUnderTest) -> bool:
    """Every receipt at the hub has all that it names there, and the newest one brings the data back."""
    before = tree(data(made))
    (data(made) / "changed").write_bytes(b"damaged")
    made.run("restore", NAME, "--yes").ok()
    return broken_below(inside(made, "hub1", f"{STATE}/hub/backups")) == set() and tree(data(made)) == before


# ---- a full disk


def on_small_disk(made: LabUnderTest, node: str, stop: tuple[str, ...], start: str) -> None:
    """The state of this node lies on a file system of its own from now on."""
    script = f"""
        mkdir -p /mnt/small && mount -t tmpfs -o size={SMALL},mode=0755 tmpfs /mnt/small
        cp -a {STATE}/. /mnt/small/ && mount --move /mnt/small {STATE}
    """
    made.lab("kill", *stop).ok()
    made.enter(node, "sh", "-euc", script).ok()
    made.lab("start", start).ok()
    wait_until(lambda: made.run("node", "list").code == 0, "the hub answers")


@contextmanager
def filled(made: LabUnderTest, node: str, left: str) -> Iterator[None]:
    """But for so many bytes."""
    script = f"dd if=/dev/zero of={STATE}/filler bs=64k 2>/dev/null; truncate -s -{left} {STATE}/filler"
    made.enter(node, "sh", "-c", script)
    try:
        yield
    finally:
        made.enter(node, "rm", "-f", f"{STATE}/filler").ok()


def refused(made: LabUnderTest, words: str) -> None:
    """A backup that is asked for now fails within half a minute, says why, and names the disk."""
    begun_s = time.monotonic()
    done = made.run("backup", NAME, "--wait", "--json")
    told = json.loads(done.err)
    assert done.code == 1 and words in told["message"] and told["remedy"], done
    assert time.monotonic() - begun_s < TOLD_S_MAX
    wait_until(lambda: words in findings(made).get("backup_failed", ""), lambda: str(findings(made)))


def test_nothing_is_pruned_or_lost_where_the_disk_of_the_node_is_full_r05(made: LabUnderTest) -> None:
    """Full but for what the journal needs; and to the last byte, where the agent begins nothing."""
    change(made, 24)
    back_up(made)
    on_small_disk(made, "w1", ("w1", "--agent"), "w1")
    wait_until(lambda: next_backup(made) is not None, "a backup is made")
    before = held(made)
    change(made, 24)
    with filled(made, "w1", "3M"):
        refused(made, f"No space left on device: {STATE}/agent/backups/{NAME}")
        free = os.statvfs(inside(made, "w1", STATE))
        assert free.f_bavail * free.f_frsize > 2 * MIB, "what was on its way takes no room"
        assert before.items() <= held(made).items()
    back_up(made)
    assert whole(made) and "backup_failed" not in findings(made)

    change(made, 24)
    count, before = len(backups(made)), held(made)
    with filled(made, "w1", "0"):
        begun_s = time.monotonic()
        done = made.run("backup", NAME, "--wait", "--json")
        assert time.monotonic() - begun_s < TOLD_S_MAX
        told = json.loads(done.err)
        assert done.code == 1 and told["code"] == "order_waits", done
        assert f"{STATE}/agent" in told["message"] and "free space" in told["remedy"]
        assert f"{STATE}/agent" in findings(made).get("order_waits", "")
        assert before.items() <= held(made).items() and len(backups(made)) == count
    wait_until(lambda: before.keys() != held(made).keys() and not is_running(made), "the same agent carries it out")
    assert "order_waits" not in findings(made)
    assert whole(made)


def test_nothing_is_pruned_or_lost_where_the_disk_of_the_hub_is_full_r05(made: LabUnderTest) -> None:
    """Full but for what the ledger keeps free; and to the last byte, where the hub takes no request."""
    change(made, 24)
    wait_until(lambda: next_backup(made) is not None, "a backup is made")
    on_small_disk(made, "hub1", ("hub",), "hub")
    back_up(made)
    before = held(made)
    change(made, 24)
    with filled(made, "hub1", "40M"):  # the packs would fit
        refused(made, "on the hub: the store of backups takes nothing more")
        assert held(made) == before, "and nothing more: the last room is the ledger's"
    back_up(made)
    assert whole(made) and "backup_failed" not in findings(made)

    change(made, 24)
    before = held(made)
    with filled(made, "hub1", "0"):
        done = made.run("backup", NAME, "--json")
        told = json.loads(done.err)
        assert done.code == 1 and told["code"] == "no_space" and STATE in told["message"], done
        assert before.items() <= held(made).items()
    back_up(made)
    assert whole(made)


# ---- an agent that is killed while it prunes


POSITIONS = range(40) if SOAK else (0, 1, 2)


@pytest.fixture
def disk(made: LabUnderTest, folder: Path) -> Iterator[Path]:
    """A directory as the primary target of the node: pruning deletes files there."""
    found, file = folder / "disk", made.fleet / "fleet.toml"
    text = target("disk", type="local-dir", durable_id="disk-1", location=str(found), nodes=["w1"], role="primary")
    before = file.read_text().replace('\nstate = "disconnected"', "")
    file.write_text(before if 'name = "disk"' in before else before + text)
    made.run("apply", "--yes").ok()
    wait_until(lambda: states(made).get("disk") == "attached", lambda: str(states(made)))
    yield found
    file.write_text(file.read_text().replace('name = "disk"', 'name = "disk"\nstate = "disconnected"'))
    made.run("apply", "--yes").ok()


def objects(disk: Path) -> set[str]:
    return {path.name for path in disk.rglob("*") if path.is_file() and path.parent.name in ("packs", "manifests")}


def surplus(disk: Path) -> set[str]:
    """What no receipt names."""
    named = {
        digest
        for one in receipts_below(disk).values()
        for digest in (one.manifest.digest, *(pack.digest for pack in one.packs))
    }
    return objects(disk) - named


def test_an_agent_killed_at_any_deletion_while_it_prunes_leaves_no_receipt_without_its_packs_i28(
    made: LabUnderTest, disk: Path
) -> None:
    """Before the first deletion and after the n-th, for growing n until a run is not hit: strace holds each deletion
    for a moment. What a drill has proven stays, and so does the newest one."""
    change(made, 2)
    wait_until(lambda: next_backup(made) is not None, "a backup is made")
    made.run("drill", NAME).ok()
    proven, hits = max(receipts_below(disk)), 0
    for _ in range(2):
        change(made, 2)
        second = max(receipts_below(disk))
        back_up(made)
    wait_until(lambda: is_pruned(disk, second), "one was read back, so that others may go")
    change(made, 2)
    back_up(made)
    for position in POSITIONS:
        before = max(receipts_below(disk))
        is_hit = pruned_until(made, disk, position)
        found = receipts_below(disk)
        assert broken_below(disk) == set(), "a receipt goes before what it names"
        assert {proven, max(found)} <= found.keys() and max(found) > before
        if not is_hit:
            break
        hits += 1
        made.lab("start", "w1").ok()
        wait_until(lambda: next_backup(made) is not None, "the next backup is made")
        wait_until(lambda: is_pruned(disk, before), lambda: f"{sorted(receipts_below(disk))} {surplus(disk)}")  # noqa: B023
        assert broken_below(disk) == set() and proven in receipts_below(disk)
    else:
        assert not SOAK, "there are more positions than were tried"
    print(f"killed at {hits} positions")
    assert hits >= 3


def pruned_until(made: LabUnderTest, disk: Path, position: int) -> bool:
    """Back up and prune; whether the agent was killed after so many deletions."""
    pid = int(made.node("w1")["pids"]["agent"])
    fault = "unlinkat:delay_exit=400000" if position else "unlinkat:signal=SIGKILL:when=1"
    there, before = files_in(disk).keys(), max(receipts_below(disk))
    change(made, 2)
    meddler = Meddler(pid, made.home / "strace.log", [fault])
    asked = made.begin("backup", NAME, "--wait")
    try:

        def is_over() -> bool:
            if position and len(there - files_in(disk).keys()) >= position:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return meddler.has_killed() or (asked.poll() == 0 and is_pruned(disk, before))

        wait_until(is_over, "it is pruned, or killed")
    finally:
        meddler.leave()
        asked.kill()
        asked.wait()
    return meddler.has_killed()


def is_pruned(disk: Path, before: int) -> bool:
    """This one is gone, with all that only it needed."""
    return before not in receipts_below(disk) and not surplus(disk)


# ---- an agent that is killed while it restores


FLUSHES = range(1, 60) if SOAK else (4,)


def test_an_agent_killed_at_any_flush_of_a_restore_leaves_the_old_or_the_restored_data_and_goes_on(
    made: LabUnderTest,
) -> None:
    """Each step of its journal is flushed before the next one begins. For growing n until a run is not hit."""
    change(made, 2)
    wait_until(lambda: next_backup(made) is not None, "a backup is made")
    stored, hits = tree(data(made)), 0
    for number in FLUSHES:
        (data(made) / "changed").write_bytes(b"since then, %d" % number)
        if not restored_until(made, stored, number):
            break
        hits += 1
    else:
        assert not SOAK, "there are more flushes than were tried"
    print(f"killed at {hits} flushes")
    assert hits


def restored_until(made: LabUnderTest, stored: dict[str, Any], number: int) -> bool:
    """Restore; whether the agent was killed at this flush of one of its threads. Then it is started again."""
    now = tree(data(made))
    meddler = Meddler(
        int(made.node("w1")["pids"]["agent"]),
        made.home / "strace.log",
        [f"fsync,fdatasync,syncfs:signal=SIGKILL:when={number}"],
    )
    waits = made.begin("restore", NAME, "--yes", "--json")
    try:
        wait_until(lambda: meddler.has_killed() or waits.poll() is not None, "it is restored, or killed")
    finally:
        is_hit = meddler.has_killed()
        meddler.leave()
    if is_hit:
        assert tree(data(made)) in (now, stored), "nothing between"
        made.lab("start", "w1").ok()
    out, said = waits.communicate(timeout=300)
    if waits.returncode:  # the order was not accepted before, and is for the life before
        assert is_hit and json.loads(said)["code"] == "other_life", (out, said)
        assert tree(data(made)) == now
        wait_until(lambda: made.run("restore", NAME, "--yes").code == 0, "the agent takes orders")
    assert tree(data(made)) == stored
    return is_hit


# ---- a disk that is pulled out during a write


EXT4_IOC_SHUTDOWN = 0x8004587D
NOTICED_S = 5.0 if SOAK else 20.0  # H-49 says 5 s, on a machine of its own; tests/scenarios has it in virtual time
STICK = "/run/holdfast/storage/stick"


class Stick:
    """A file as a disk: plugged in by a loop device, mounted by the unit of the node."""

    def __init__(self, made: LabUnderTest, image: Path) -> None:
        self.made, self.image, self.device = made, image, ""
        self._node = int(made.node("w1")["pids"]["node"])
        self.top = Path(f"/proc/{self._node}/root{STICK}")

    def plug(self) -> None:
        """The old one is written and gone first: two kernels' views of one disk would damage it."""
        wait_until(lambda: not subprocess.run(["losetup", "-j", self.image], capture_output=True).stdout, "it is free")
        done = subprocess.run(["losetup", "--find", "--show", self.image], capture_output=True, text=True, check=True)
        self.device = done.stdout.strip()
        wait_until(lambda: self._unit() and self.state == "attached", lambda: str(states(self.made)))

    def _unit(self) -> bool:
        """What holdfast-mounts.path does on a machine with systemd, once."""
        if Path(f"/proc/{self._node}/root{STATE}/agent/mounts/requests").exists():
            words = (f"{STATE}/agent/mounts", "/run/holdfast/storage")
            self.made.enter("w1", PYTHON, "-m", "holdfast.mounts", *words).ok()
        return True

    def pull(self, how: str) -> None:
        """At once: a backup is under way."""
        if how == "taken away":
            run(*lab_node.entering(self._node), "umount", "-l", STICK)
            return
        handle = os.open(self.top, os.O_RDONLY)
        fcntl.ioctl(handle, EXT4_IOC_SHUTDOWN, struct.pack("I", 2))
        os.close(handle)

    def unplug(self) -> None:
        self.made.enter("w1", "umount", "-l", STICK)
        if self.device:
            subprocess.run(["losetup", "--detach", self.device], capture_output=True)
            self.device = ""

    @property
    def state(self) -> str:
        return states(self.made).get("stick", "")


@pytest.fixture
def stick(made: LabUnderTest, tmp_path: Path) -> Iterator[Stick]:
    image, id = tmp_path / "stick.image", str(uuid.uuid4())
    run("truncate", "-s", "4G", image)
    run("mkfs.ext4", "-q", "-U", id, image)
    file = made.fleet / "fleet.toml"
    file.write_text(file.read_text() + target("stick", type="usb", durable_id=id, nodes=["w1"], role="primary"))
    made.run("apply", "--yes").ok()
    found = Stick(made, image)
    try:
        found.plug()
        yield found
    finally:
        found.unplug()


def test_a_disk_that_is_pulled_out_during_a_write_makes_no_success_and_the_next_run_goes_on(
    made: LabUnderTest, stick: Stick
) -> None:
    """It answers with errors from then on, or its mount is gone while handles are open."""
    for how in ("shut down", "taken away") * 5 if SOAK else ("shut down",):
        pulled_during_a_write(made, stick, how)


def pulled_during_a_write(made: LabUnderTest, stick: Stick, how: str) -> None:
    change(made, 8)
    wait_until(lambda: next_backup(made) is not None, "a backup is made")
    old, packs = receipts_below(stick.top), objects(stick.top)
    assert old
    change(made, 192)
    asked = made.begin("backup", NAME, "--wait", "--json")
    first = UNDER_WAY_MAX + 1  # one of them is known to be stored
    wait_until(lambda: len(objects(stick.top) - packs) >= first, "the first packs are stored")
    pulled_s, shipped = time.time(), objects(stick.top) - packs
    stick.pull(how)
    out, said = asked.communicate(timeout=300)
    assert asked.returncode != 0 and not out, (out, said)
    wait_until(lambda: stick.state not in ("attached", ""), lambda: str(states(made)))
    (told,) = [
        one for one in json.loads(made.run("backup", "list", "--json").ok().out)["targets"] if one["name"] == "stick"
    ]
    assert told["since_s"] - pulled_s <= NOTICED_S, told
    assert "target_gone" in findings(made)
    stick.unplug()
    stick.plug()
    wait_until(lambda: "target_gone" not in findings(made), lambda: str(findings(made)))
    assert old.keys() <= receipts_below(stick.top).keys() and broken_below(stick.top) == set(), "nothing is lost"
    stays = shipped & objects(stick.top)
    wait_until(lambda: next_backup(made) is not None, "a backup is made")
    found = receipts_below(stick.top)
    assert max(found) > max(old) and stays & {pack.digest for pack in found[max(found)].packs}, "it went on"
    assert broken_below(stick.top) == set()
