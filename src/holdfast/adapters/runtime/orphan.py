"""Containers whose supervisor (conmon) is dead: podman takes them for running for ever and waits for a file that nobody
writes. Here somebody ends the process and writes it."""

import asyncio
import signal
import time

from holdfast.adapters.runtime import exit_code, process
from holdfast.adapters.runtime.libpod import Libpod
from holdfast.adapters.runtime.listing import Details, inspect
from holdfast.adapters.runtime.process import Process

LOOK_S = 0.02
KILL_S = 10.0
STUCK = ("running", "stopping")
DOWN = ("created", "configured", "initialized", "exited", "removing")
KILLED = 137


def is_orphan(details: Details) -> bool:
    """Podman counts on a supervisor that is not there."""
    return details.state.status in STUCK and process.known(details.state.conmon_pid) is None


def is_down(details: Details) -> bool:
    """And will not be up again by itself: `stopped` is podman's word for ended but not tidied up, and whoever tidies up
    starts what crashed once more. By then podman has forgotten who that is."""
    if details.state.status == "stopped":
        return not process.with_argument(details.id)
    return details.state.status in DOWN


async def end(details: Details, grace_s: float) -> bool:
    """Asked kindly, then killed; whether it is gone."""
    found = details.process
    if found is None or not process.send(found, _kindly(details.config.stop_signal)):
        return _gone(found)
    if await _ends(found, grace_s):
        return True
    process.send(found, signal.SIGKILL)
    return await _ends(found, KILL_S)


def _kindly(stop_signal: int | str) -> signal.Signals:
    try:
        return signal.Signals(stop_signal) if isinstance(stop_signal, int) else signal.Signals[stop_signal]
    except (KeyError, ValueError):  # a real-time signal
        return signal.SIGTERM


async def _ends(found: Process, patience_s: float) -> bool:
    give_up_s = time.monotonic() + patience_s
    while not _gone(found):
        if time.monotonic() > give_up_s:
            return False
        await asyncio.sleep(LOOK_S)
    return True


def _gone(found: Process | None) -> bool:
    return found is None or process.known(found.pid) != found


async def settle(libpod: Libpod, details: Details, folder: str | None) -> bool:
    """Say for the dead supervisor that its container ended; whether podman believes it now."""
    if folder is not None:
        exit_code.leave(folder, details.id, KILLED)
    now = await inspect(libpod, details.id)
    return now is None or now.state.status not in STUCK
