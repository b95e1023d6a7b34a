"""Mount one file system by UUID below the storage directory, and unmount it. Needs CAP_SYS_ADMIN.

A disk of this machine that is in use (mounted elsewhere, swap) is not mounted: that would give the agent a writable way
around its own restrictions. No symbolic link is followed on the way to the mount point.
"""

import ctypes
import errno
import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from msgspec import Struct

from holdfast.model.storage_target import UUID_FORM
from holdfast.mounts.requests import Order, Result

_FAT = "umask=077"
KINDS = {"ext4": "", "ext3": "", "ext2": "", "xfs": "", "btrfs": "", "f2fs": "", "vfat": _FAT, "exfat": _FAT}
PROBE_S = 20.0
_NOSUID, _NODEV, _NOEXEC, _NOATIME = 2, 4, 8, 1024
_DETACH, _NOFOLLOW = 2, 8
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
BLKID = "/sbin/blkid"


class Refused(Exception):
    """Words for people."""


class Missing(Exception):
    """No such disk is plugged in."""


def perform(order: Order, storage_dir: str) -> Result:
    path = os.path.join(storage_dir, order.name)
    try:
        if order.verb == "mount":
            _mount(order, storage_dir, path)
            return Result(order.name, "mounted", order.uuid, path)
        _unmount(storage_dir, order.name)
        return Result(order.name, "unmounted", order.uuid)
    except Refused as trouble:
        return Result(order.name, "refused", order.uuid, reason=str(trouble))
    except Missing as trouble:
        return Result(order.name, "missing", order.uuid, reason=str(trouble))
    except (OSError, subprocess.SubprocessError) as trouble:
        return Result(order.name, "failed", order.uuid, reason=str(trouble)[:300])


def _mount(order: Order, storage_dir: str, path: str) -> None:
    device = _device(order.uuid)
    here = _at(path)
    if here is not None and not here.is_of(device):
        if here.is_plugged_in():
            raise Refused(f"another file system is mounted at {path}")
        _unmount(storage_dir, order.name)  # a disk that was pulled out
    elif here is not None:
        return
    elsewhere = next((one.point for one in _mounts() if one.is_of(device)), "")
    if elsewhere or _is_swap(device):
        raise Refused(f"{device} is in use: it is {f'mounted at {elsewhere}' if elsewhere else 'swap'}")
    kind = _kind(device, order.uuid)
    with _folder(storage_dir) as folder:
        with suppress(FileExistsError):
            os.mkdir(order.name, 0o700, dir_fd=folder)
        point = os.open(order.name, _DIRECTORY, dir_fd=folder)
        try:
            flags = _NOSUID | _NODEV | _NOEXEC | _NOATIME
            target = f"/proc/self/fd/{point}".encode()
            _call("mount", device.encode(), target, kind.encode(), flags, KINDS[kind].encode())
        finally:
            os.close(point)


def _unmount(storage_dir: str, name: str) -> None:
    """One that was pulled out is detached; one that is in use stays, and is said to be."""
    here = _at(os.path.join(storage_dir, name))
    if here is None:
        return
    with _folder(storage_dir) as folder:
        detach = 0 if here.is_plugged_in() else _DETACH
        _call("umount2", f"/proc/self/fd/{folder}/{name}".encode(), _NOFOLLOW | detach)


# ---- the disk


def _device(uuid: str) -> str:
    assert UUID_FORM.fullmatch(uuid), "judged before"
    words = [BLKID, "-c", "/dev/null", "-o", "device", "-t", f"UUID={uuid}"]  # looks at every disk, not into its notes
    done = subprocess.run(words, capture_output=True, text=True, timeout=PROBE_S)
    found = [one for one in done.stdout.split() if one.startswith("/dev/") and stat.S_ISBLK(os.stat(one).st_mode)]
    if not found:
        raise Missing(f"no disk with a file system {uuid} is plugged in")
    if len(found) > 1:
        raise Refused(f"several disks have the file system {uuid}: {', '.join(found)}")
    return found[0]


def _kind(device: str, uuid: str) -> str:
    """Read from the disk itself: a name in /dev may be of yesterday."""
    done = subprocess.run([BLKID, "-p", "-o", "export", device], capture_output=True, text=True, timeout=PROBE_S)
    found = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    if found.get("UUID") != uuid:
        raise Missing(f"no disk with a file system {uuid} is plugged in")
    if found.get("TYPE") not in KINDS:
        raise Refused(f"the file system is {found.get('TYPE', 'unknown')}; these are mounted: {', '.join(KINDS)}")
    return found["TYPE"]


def _is_swap(device: str) -> bool:
    with open("/proc/swaps") as lines:
        return any(line.split()[0] == device for line in lines)


# ---- the mount point


class Mounted(Struct, frozen=True):
    """A line of /proc/self/mountinfo. btrfs has a number of its own, and the disk as its source."""

    number: str
    point: str
    source: str

    def is_of(self, device: str) -> bool:
        number = os.stat(device).st_rdev
        return self.number == f"{os.major(number)}:{os.minor(number)}" or self.source == device

    def is_plugged_in(self) -> bool:
        return os.path.exists(f"/sys/dev/block/{self.number}") or (
            self.number.startswith("0:") and (not self.source.startswith("/dev/") or os.path.exists(self.source))
        )


def _mounts() -> list[Mounted]:
    with open("/proc/self/mountinfo") as lines:
        found = [line.rstrip("\n").split(" ") for line in lines]
    return [Mounted(fields[2], fields[4], fields[fields.index("-") + 2]) for fields in found]


def _at(path: str) -> Mounted | None:
    """The uppermost one there."""
    return next((one for one in reversed(_mounts()) if one.point == path), None)


@contextmanager
def _folder(storage_dir: str) -> Iterator[int]:
    handle = os.open(storage_dir, _DIRECTORY)
    try:
        yield handle
    finally:
        os.close(handle)


def _call(name: str, *arguments: object) -> None:
    done = getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments)
    if done != 0:
        number = ctypes.get_errno()
        words = "it is in use" if number == errno.EBUSY else os.strerror(number)
        raise OSError(number, f"{name}: {words}")
