"""The lab's record on disk: blueprint, phase, cuts and pace. Replaced atomically."""

import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal

import msgspec
from msgspec import Struct

from holdfast.errors import Conflict, Corrupt
from holdfast.lab.blueprint import Blueprint
from holdfast.lab.place import Place
from holdfast.lab.processes import Known

LOCK_S_MAX = 10.0
ADDRESSES = "\0holdfast-lab-addresses"  # an abstract socket: it vanishes with its holder and is no file


class Record(Struct, frozen=True):
    blueprint: Blueprint
    phase: Literal["making", "up"] = "making"
    cuts: tuple[tuple[str, str], ...] = ()
    pace: Literal["normal", "fast"] = "normal"
    bare: bool = False  # only machines, no fleet


def read(place: Place) -> Record | None:
    try:
        with open(place.record, "rb") as file:
            return msgspec.json.decode(file.read(), type=Record)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, NotADirectoryError) as trouble:
        raise Corrupt(
            f"{place.record} is not a valid lab record: {trouble}",
            remedy="give the right directory with --dir; if this is the one, move that file away and end the lab's "
            "processes",
        ) from trouble


def write(place: Place, record: Record) -> None:
    replace(place.record, msgspec.json.format(msgspec.json.encode(record)) + b"\n")


def replace(path: str, content: bytes, mode: int = 0o600) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    draft = f"{path}.{os.getpid()}"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(content)
    os.replace(draft, path)


def note_part(place: Place, part: str, process: Known) -> None:
    replace(place.part(part), f"{process.pid} {process.started}\n".encode())


def part(place: Place, name: str) -> Known | None:
    with suppress(OSError, ValueError), open(place.part(name), encoding="ascii") as file:
        pid, started = file.read().split()
        return Known(int(pid), int(started))
    return None


@contextmanager
def locked(place: Place) -> Iterator[None]:
    """One command at a time changes a lab. The kernel releases the lock when the process ends."""
    held: list[int] = []
    try:
        _until(lambda: _lock(place, held), _busy(place))
        yield
    finally:
        for handle in held:
            os.close(handle)


def _lock(place: Place, held: list[int]) -> bool:
    """`down` deletes the lock file while others wait: only a lock on the current file counts."""
    os.makedirs(place.root, exist_ok=True)
    handle = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), os.stat(place.lock)):
            held.append(handle)
            return True
    except (BlockingIOError, FileNotFoundError):
        os.close(handle)
        return False
    os.close(handle)
    return False


def _busy(place: Place) -> Conflict:
    return Conflict(
        f"another lab command is running in {place.root}",
        remedy="wait until it has finished, or end it, then repeat this one",
        code="lab_busy",
    )


@contextmanager
def addresses_claimed() -> Iterator[None]:
    """Held while a lab chooses its addresses and sets them on its bridge, so that two labs choose different ones."""
    claim = socket.socket(socket.AF_UNIX)
    with claim:
        _until(
            lambda: _bind(claim),
            Conflict("another lab is choosing its addresses", remedy="repeat the command", code="lab_busy"),
        )
        yield


def _bind(claim: socket.socket) -> bool:
    try:
        claim.bind(ADDRESSES)
    except OSError:
        return False
    return True


def _until(true: Callable[[], bool], trouble: Conflict) -> None:
    give_up_s = time.monotonic() + LOCK_S_MAX
    while not true():
        if time.monotonic() > give_up_s:
            raise trouble
        time.sleep(0.02)
