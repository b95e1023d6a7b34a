"""The archiver process: one job, then it ends, and with its agent. It yields to everything else on the machine, unless
a service waits for it.

`python -m holdfast.adapters.archive.child`: a job on stdin, events on stdout (messages.py).
"""

import ctypes
import errno
import os
import signal
import sys
from contextlib import suppress
from typing import Any

import msgspec

from holdfast.adapters.archive import unpacking
from holdfast.adapters.archive.base import DRAFT, MANIFEST, set_aside
from holdfast.adapters.archive.contents import Contents
from holdfast.adapters.archive.export import export
from holdfast.adapters.archive.messages import Channel, Finished, Work, trouble
from holdfast.adapters.archive.packing import Packing
from holdfast.adapters.archive.updating import update
from holdfast.errors import Failed, HoldfastError
from holdfast.model.archive import FORMAT, line
from holdfast.ports.archive import UnpackJob

RESULT = "result"
NICE = 10
_PDEATHSIG = 1
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
_BEST_EFFORT_LAST = 2 << 13 | 7


def main() -> None:
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    channel = Channel(sys.stdin.buffer, sys.stdout.buffer)
    work = channel.work()
    if not any(job.urgent for job in (work.pack, work.unpack) if job is not None):
        _yield()
    try:
        home, result = _done(work, channel)
        with open(os.path.join(home, RESULT), "wb", opener=_private) as file:
            file.write(msgspec.json.encode(result))
        channel.say(Finished())
    except HoldfastError as error:
        channel.say(trouble(error))
    except OSError as error:
        channel.say(trouble(_failed(error, work)))
    os._exit(0)  # threads may still wait for answers


def _done(work: Work, channel: Channel) -> tuple[str, Any]:
    if work.pack is not None:
        return work.pack.home, Packing(work.pack, channel).run()
    assert work.unpack is not None
    job = work.unpack
    if work.verb == "export":
        return job.home, export(job, work.path, channel)
    if work.verb == "update":
        return job.home, update(job, channel)
    if work.verb == "verify":
        return job.home, unpacking.verify(job, channel)
    if work.verb == "recall":
        _recall(job, channel)
        return job.home, None
    return job.home, unpacking.unpack(job, channel)


def _recall(job: UnpackJob, channel: Channel) -> None:
    """The node's copy of a manifest again. Nothing in it has `seen`: every file is read once."""
    opened = unpacking.Opened(job, channel, Contents)
    set_aside(job.home)
    path = os.path.join(job.home, DRAFT)
    with open(path, "wb", opener=_private) as file:
        file.write(line(msgspec.structs.replace(opened.header, format=FORMAT, pages=())))
        opened.contents.copy(file)
    opened.close()
    os.rename(path, os.path.join(job.home, MANIFEST))


def _yield() -> None:
    """Where the machine does not permit it (the agent's unit may filter these calls), the work is done all the same."""
    with suppress(OSError):
        os.nice(NICE)
    if (number := _IOPRIO_SET.get(os.uname().machine)) is not None:
        ctypes.CDLL(None).syscall(number, 1, 0, _BEST_EFFORT_LAST)


def _failed(error: OSError, work: Work) -> Failed:
    """An error of a write has no name of a file: the disk is that of the archiver's own directory, or of what is
    unpacked or exported."""
    places = [work.pack.home] if work.pack is not None else []
    places += [place for place in (work.unpack.home, work.unpack.top, work.path) if place] if work.unpack else []
    where = error.filename or " or ".join(places)
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return Failed(
        f"the archiver cannot work: {error.strerror or error}: {where}",
        remedy="free some space on this disk: `df -h` shows it"
        if is_full
        else "look at the disk of this node: `dmesg`",
        code="no_space" if is_full else "archiver_failed",
    )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


if __name__ == "__main__":
    main()
