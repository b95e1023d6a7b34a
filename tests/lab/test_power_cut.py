"""R04: the power fails at random moments of a series of applies; no apply that exited 0 is missing afterwards.

Fleet directory, ledger, HOME and state lie on an ext4 of their own. A cut is EXT4_IOC_SHUTDOWN without a log flush:
what was not flushed is gone. The control run has every flush swallowed by libeatmydata and must lose something.
"""

from __future__ import annotations

import fcntl
import os
import random
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

import pytest

from tests.fleets.counts import SOAK
from tests.fleets.waiting import wait_until
from tests.lab.product import Outcome, Place, Warm, new_place, warm

pytestmark = pytest.mark.lab

CUTS = 100 if SOAK else 10
CONTROL_CUTS_MAX = 10
FIRST_CUT_AFTER_S, LAST_CUT_AFTER_S = 0.05, 0.7
EXT4_IOC_SHUTDOWN = 0x8004587D
WITHOUT_LOG_FLUSH = struct.pack("I", 2)
EAT_MY_DATA = {"LD_PRELOAD": "libeatmydata.so"}


@dataclass
class Disk:
    """An ext4 in a file, mounted through a loop device which the kernel frees with the mount."""

    image: Path
    mount: Path
    _mounted: bool = field(default=False)
    _used: bool = field(default=False)

    def make(self) -> None:
        with self.image.open("wb") as file:
            file.truncate(96 * 1024 * 1024)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(self.image)], check=True)
        self.mount.mkdir()

    def attach(self) -> None:
        """A copy of what the disk held: a mount namespace made meanwhile by another test keeps the dead file system
        alive, and mounting the same file again would give that one back."""
        if self._used:
            again = self.image.with_name(f"{self.image.stem}x.img")
            subprocess.run(["cp", "--sparse=always", str(self.image), str(again)], check=True)
            self.image.unlink()
            self.image = again
        self._used = True
        subprocess.run(["mount", "-o", "loop", str(self.image), str(self.mount)], check=True)
        self._mounted = True

    def cut(self) -> None:
        handle = os.open(self.mount, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(handle, EXT4_IOC_SHUTDOWN, WITHOUT_LOG_FLUSH)
        finally:
            os.close(handle)

    def detach(self) -> None:
        """A process that was killed a moment ago may still hold the mount."""
        for _ in range(100):
            if not self._mounted:
                return
            self._mounted = subprocess.run(["umount", str(self.mount)], stderr=subprocess.DEVNULL).returncode != 0
            if self._mounted:
                time.sleep(0.05)
        subprocess.run(["umount", "--lazy", str(self.mount)], check=True)


@contextmanager
def disk_with_fleet(folder: Path) -> Iterator[tuple[Disk, Place]]:
    disk = Disk(folder / "disk.img", folder / "disk")
    try:
        disk.make()
        disk.attach()
        place = new_place(disk.mount / "p")
        place.run("apply", "--yes").ok()
        os.sync()
        yield disk, place
    finally:
        disk.detach()


class Series(Thread):
    """Apply after apply, each with another port; keeps those that exited 0, outside the disk that is going to die."""

    def __init__(self, place: Place, interpreter: Warm, start_at: int) -> None:
        super().__init__()
        self._place, self._interpreter, self._at = place, interpreter, start_at
        self.acknowledged: dict[int, str] = {}
        self.last: Outcome | None = None

    def run(self) -> None:
        with suppress(OSError):  # the disk is gone
            while self.last is None or self.last.code == 0:
                self._at += 1
                write_durably(self._place.fleet / "services" / "hello.toml", service(self._at))
                self.last = self._interpreter.run(self._place, "apply", "--yes", "--json")
                if self.last.code == 0:
                    applied = self.last.json["applied"]
                    self.acknowledged[applied["number"]] = applied["digest"]


def service(number: int) -> str:
    image = "docker.io/library/busybox@sha256:" + "7" * 64
    return f'tier = "worker"\n[[components]]\nname = "web"\nimage = "{image}"\nenv = {{ N = "{number}" }}\n'


def write_durably(path: Path, text: str) -> None:
    """The directory is the operator's, who has saved it: its own loss is not what is tested."""
    draft = path.with_name(".draft")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)


def cut_once(disk: Disk, place: Place, after_s: float, interpreter: Warm, acknowledged: int) -> Series:
    """Power off in the middle of a series of applies, and on again. The series ends with the disk.

    The cut comes so long after so many applies were acknowledged: a busy machine needs more time for them.
    """
    series = Series(place, interpreter, start_at=int(after_s * 1e9))
    series.start()
    wait_until(lambda: len(series.acknowledged) >= acknowledged, "an apply is acknowledged")
    time.sleep(after_s)
    disk.cut()
    series.join()
    disk.detach()
    disk.attach()
    return series


def lost(place: Place, series: Series, interpreter: Warm) -> list[str]:
    """Everything that is not as promised after the power came back."""
    check = interpreter.run(place, "hub", "check", "--state-dir", ".ledger")
    history = interpreter.run(place, "history", "--limit", "1000", "--json")
    if check.code != 0 or history.code != 0:
        return [f"{check} {history}"]
    present = {revision["number"]: revision["digest"] for revision in history.json["revisions"]}
    return [f"revision {number}" for number, digest in series.acknowledged.items() if present.get(number) != digest]


def test_no_acknowledged_apply_is_lost_when_the_power_fails(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """R04, I-08: 10 cuts (soak: 100)."""
    random_times = random.Random(4)
    acknowledged = 0
    with warm() as interpreter, disk_with_fleet(tmp_path) as (disk, place):
        for cut in range(CUTS):
            after_s = random_times.uniform(FIRST_CUT_AFTER_S, LAST_CUT_AFTER_S)
            series = cut_once(disk, place, after_s, interpreter, acknowledged=cut % 4)
            acknowledged += len(series.acknowledged)
            assert lost(place, series, interpreter) == [], f"cut {cut} after {after_s:.3f}s"
            assert series.last is None or "Traceback" not in series.last.err, series.last.err
            (place.fleet / "services" / "hello.toml").write_text(service(cut))
            interpreter.run(place, "plan").ok()
            interpreter.run(place, "apply", "--yes").ok()
    record_property("acknowledged", acknowledged)
    assert acknowledged >= CUTS, "hardly an apply was acknowledged before a cut"


def test_without_flushes_the_same_cuts_do_lose_applies(tmp_path: Path) -> None:
    """R04, the control run: proof that the cut is real and that a missing flush would be noticed."""
    random_times = random.Random(4)
    with warm(env=EAT_MY_DATA) as careless, warm() as interpreter:
        for cut in range(CONTROL_CUTS_MAX):
            folder = tmp_path / str(cut)
            folder.mkdir()
            with disk_with_fleet(folder) as (disk, place):
                after_s = random_times.uniform(FIRST_CUT_AFTER_S, LAST_CUT_AFTER_S)
                series = cut_once(disk, place, after_s, careless, acknowledged=1)
                if series.acknowledged and lost(place, series, interpreter):
                    return
    pytest.fail("nothing was lost although nothing was flushed: these cuts prove nothing")
