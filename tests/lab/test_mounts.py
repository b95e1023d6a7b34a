"""The mounting unit's program: two verbs, file systems of the list, real loop devices (H-48; design.md §9)."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from holdfast.mounts import mounting
from holdfast.mounts.requests import Order, Result, judge
from tests.fleets.backup_targets import run
from tests.fleets.waiting import wait_until

pytestmark = pytest.mark.lab

UUID = "0b1c2d3e-0000-4000-8000-00000000000a"  # of no disk


class Plug:
    """Disks that can be plugged in, and the two directories of the program."""

    def __init__(self, place: Path) -> None:
        self.place, self.base, self.storage = place, place / "mounts", place / "storage"
        (self.base / "requests").mkdir(parents=True)
        self.storage.mkdir()
        self.loops: dict[str, str] = {}
        # A lab that starts meanwhile copies the mounts of this machine, and keeps a disk of an earlier test attached.
        self.uuid, self.other = str(uuid4()), str(uuid4())
        self.allow(usb=self.uuid)

    def allow(self, **targets: str) -> None:
        (self.base / "allowed.json").write_text(json.dumps({"targets": targets}))

    def disk(self, uuid: str = "", name: str = "image", make: str = "mkfs.ext4") -> str:
        """Plug a disk in; it is made at the first time."""
        image = self.place / name
        if not image.exists():
            run("truncate", "-s", "16M", image)
            run(make, "-q", "-U", uuid or self.uuid, image)
        found = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True, check=True)
        self.loops[name] = found.stdout.strip()
        return self.loops[name]

    def ask(self, verb: str = "mount", uuid: str = "", name: str = "usb") -> Any:
        (self.base / "requests" / f"{name}.json").write_text(json.dumps({"verb": verb, "uuid": uuid or self.uuid}))
        return self.answer(name)

    def answer(self, name: str = "usb") -> Any:
        words = [sys.executable, "-m", "holdfast.mounts", str(self.base), str(self.storage)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert list((self.base / "requests").iterdir()) == []
        return json.loads((self.base / "results" / f"{name}.json").read_text())

    def mounts(self) -> dict[str, list[str]]:
        """Path → its options."""
        lines = [line.split(" ") for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        return {fields[4]: fields[5].split(",") for fields in lines if str(self.place) in fields[4]}


@pytest.fixture
def plug(tmp_path: Path) -> Iterator[Plug]:
    found = Plug(tmp_path)
    try:
        yield found
    finally:
        for path in sorted(found.mounts(), reverse=True):
            subprocess.run(["umount", "-l", path], capture_output=True, timeout=60)
        for loop in found.loops.values():
            subprocess.run(["losetup", "-d", loop], capture_output=True, timeout=60)


def test_a_listed_disk_is_mounted_without_programs_devices_and_rights(plug: Plug) -> None:
    plug.disk()
    for _ in range(2):
        assert plug.ask() == {"name": "usb", "state": "mounted", "uuid": plug.uuid, "path": str(plug.storage / "usb")}
    (options,) = plug.mounts().values()
    assert {"nosuid", "nodev", "noexec", "rw"} <= set(options)
    (plug.storage / "usb" / "file").write_text("kept")
    for _ in range(2):
        assert plug.ask("unmount") == {"name": "usb", "state": "unmounted", "uuid": plug.uuid}
    assert plug.mounts() == {} and list((plug.storage / "usb").iterdir()) == []
    assert plug.ask()["state"] == "mounted"
    assert (plug.storage / "usb" / "file").read_text() == "kept"


def test_a_disk_that_is_not_plugged_in_is_missing_and_mounted_when_it_is(plug: Plug) -> None:
    assert plug.ask()["state"] == "missing"
    plug.disk()
    assert plug.ask()["state"] == "mounted"


def test_a_disk_that_is_not_on_the_list_is_refused(plug: Plug) -> None:
    plug.disk(plug.other, "other")
    assert plug.ask(uuid=plug.other)["state"] == "refused"
    assert plug.ask(uuid=plug.other, name="more")["state"] == "refused"
    plug.allow(usb=plug.uuid, more=plug.other)
    assert plug.ask(uuid=plug.other)["state"] == "refused", "that UUID has another name"
    assert plug.ask(uuid=plug.other, name="more")["state"] == "mounted"
    (plug.base / "allowed.json").write_text("{")
    plug.disk()
    assert plug.ask()["state"] == "refused"
    (plug.base / "allowed.json").unlink()
    assert plug.ask()["state"] == "refused"
    assert list(plug.mounts()) == [str(plug.storage / "more")]


def test_a_disk_that_is_mounted_elsewhere_is_refused(plug: Plug) -> None:
    """The system disk is: mounting it again would give the agent a way around its restrictions."""
    loop = plug.disk()
    system = plug.place / "system"
    system.mkdir()
    run("mount", loop, system)
    answer = plug.ask()
    assert answer["state"] == "refused" and str(system) in answer["reason"]
    assert list(plug.mounts()) == [str(system)]


def test_another_file_system_under_the_name_is_left_alone(plug: Plug) -> None:
    plug.disk()
    (plug.storage / "usb").mkdir()
    run("mount", "-t", "tmpfs", "tmpfs", plug.storage / "usb")
    answer = plug.ask()
    assert answer["state"] == "refused" and "another file system" in answer["reason"]


def test_two_disks_with_one_uuid_are_refused(plug: Plug) -> None:
    """A copy of the disk, or one that another person made to be taken for it."""
    plug.disk()
    run("cp", plug.place / "image", plug.place / "copy")
    plug.disk(name="copy")
    answer = plug.ask()
    assert answer["state"] == "refused" and "several" in answer["reason"] and plug.mounts() == {}


@pytest.mark.parametrize("what", ["storage", "name"])
def test_no_link_leads_to_another_mount_point(plug: Plug, what: str) -> None:
    plug.disk()
    elsewhere = plug.place / "elsewhere"
    (elsewhere / "usb").mkdir(parents=True)
    if what == "storage":
        plug.storage.rmdir()
        plug.storage.symlink_to(elsewhere)
    else:
        (plug.storage / "usb").symlink_to(elsewhere / "usb")
    assert plug.ask()["state"] == "failed"
    assert plug.mounts() == {}


def test_a_disk_in_use_is_not_unmounted(plug: Plug) -> None:
    plug.disk()
    plug.ask()
    handle = os.open(plug.storage / "usb", os.O_RDONLY)
    answer = plug.ask("unmount")
    assert answer["state"] == "failed" and "in use" in answer["reason"] and plug.mounts()
    os.close(handle)
    assert plug.ask("unmount")["state"] == "unmounted"


def test_other_kinds_of_file_systems_are_refused(plug: Plug) -> None:
    """Swap, a partition table, an encrypted disk: whatever has the UUID."""
    image = plug.place / "image"
    run("truncate", "-s", "16M", image)
    run("mkswap", "-q", "-U", plug.uuid, image)
    plug.disk()
    assert plug.ask()["state"] in ("missing", "refused")
    assert plug.mounts() == {}


def test_a_disk_that_was_pulled_out_is_replaced_when_it_is_back(plug: Plug, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dead mount is detached first. A loop device cannot be pulled out: the look at /sys is told so."""
    plug.disk()
    plug.ask()
    (plug.storage / "usb" / "file").write_text("kept")
    handle = os.open(plug.storage / "usb", os.O_RDONLY)  # a program that uses it
    run("umount", "-l", plug.storage / "usb")
    os.close(handle)
    run("mount", "-t", "tmpfs", "tmpfs", plug.storage / "usb")  # stands for the dead one
    monkeypatch.setattr(mounting.Mounted, "is_plugged_in", lambda self: False)
    result = mounting.perform(Order("usb", "mount", plug.uuid), str(plug.storage))
    assert result.state == "mounted"
    assert (plug.storage / "usb" / "file").read_text() == "kept"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("usb.json", b""),
        ("usb.json", b"{"),
        ("usb.json", b"\xff"),
        ("usb.json", b"[" * 100_000),
        ("usb.json", b'{"verb":"mount"}'),
        ("usb.json", b'{"verb":"format","uuid":"%s"}' % UUID.encode()),
        ("usb.json", b'{"verb":"mount","uuid":"%s","options":"suid"}' % UUID.encode()),
        ("usb.json", b'{"verb":"mount","uuid":"/dev/sda1"}'),
        ("usb.json", b'{"verb":"mount","uuid":"../../sda1"}'),
        ("usb.json", b'{"verb":"mount","uuid":"-t"}'),
        ("usb.json", b'{"verb":"mount","uuid":"%s\\n"}' % UUID.encode()),
        ("usb.json", b'{"verb":"mount","uuid":"%s"}' % UUID.upper().encode()),
        ("usb", b'{"verb":"mount","uuid":"%s"}' % UUID.encode()),
        ("..json", b'{"verb":"mount","uuid":"%s"}' % UUID.encode()),
        (".json", b'{"verb":"mount","uuid":"%s"}' % UUID.encode()),
        ("usb.json.json", b'{"verb":"mount","uuid":"%s"}' % UUID.encode()),
        ("a/b.json", b'{"verb":"mount","uuid":"%s"}' % UUID.encode()),
        ("Usb.json", b'{"verb":"mount","uuid":"%s"}' % UUID.encode()),
    ],
)
def test_what_is_no_request_is_refused(name: str, content: bytes) -> None:
    listed = json.dumps({"targets": {"usb": UUID, "": UUID, "..": UUID, "Usb": UUID, "/dev/sda1": "/dev/sda1"}})
    judged = judge(name, content, listed.encode())
    assert isinstance(judged, Result) and judged.state == "refused" and judged.reason
    good = judge("usb.json", b'{"verb":"unmount","uuid":"%s"}' % UUID.encode(), listed.encode())
    assert good == Order("usb", "unmount", UUID)


@pytest.mark.parametrize("uuid", ["", "/dev/sda1", "-t", "../x", UUID.upper(), f"{UUID} ", "1234-abcd", "x" * 36])
def test_a_list_does_not_make_a_uuid_of_what_is_none(uuid: str) -> None:
    asked, listed = json.dumps({"verb": "mount", "uuid": uuid}), json.dumps({"targets": {"usb": uuid}})
    judged = judge("usb.json", asked.encode(), listed.encode())
    assert isinstance(judged, Result) and judged.state == "refused"


def test_odd_files_among_the_requests_stop_nothing(plug: Plug) -> None:
    plug.disk()
    requests = plug.base / "requests"
    (requests / "a.json").symlink_to("/etc/passwd")
    (requests / "b.json").mkdir()
    os.mkfifo(requests / "c.json")
    (requests / "d.json").write_bytes(b"x" * 100_000)
    (requests / "..odd").write_bytes(b"x")
    assert plug.ask()["state"] == "mounted"
    for name in "abcd":
        assert json.loads((plug.base / "results" / f"{name}.json").read_text())["state"] == "refused"


def test_requests_of_another_user_are_not_read(plug: Plug) -> None:
    plug.disk()
    os.chown(plug.base, 12345, 12345)
    (plug.base / "requests" / "usb.json").write_text(json.dumps({"verb": "mount", "uuid": plug.uuid}))
    words = [sys.executable, "-m", "holdfast.mounts", str(plug.base), str(plug.storage)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "another user" in done.stderr and plug.mounts() == {}
    wait_until(lambda: plug.mounts() == {}, "nothing is mounted")
