"""End containers whose supervisor (conmon) died.

Podman reports them as running forever, because it waits for an exit code file that only the supervisor writes. This
module ends the process and writes that file.
"""

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
    """Podman relies on a supervisor that is dead."""
    return details.state.status in STUCK and process.known(details.state.conmon_pid) is None


def is_down(details: Details) -> bool:
    """And stays down: `stopped` means ended but not cleaned up, and the clean-up restarts a crashed container; podman
    does not record the pid of the clean-up process."""
    if details.state.status == "stopped":
        return not process.with_argument(details.id)
    return details.state.status in DOWN


async def end(details: Details, grace_s: float) -> bool:
    """Send the stop signal, then SIGKILL; returns whether it is gone."""
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
    """Write the exit code in place of the dead supervisor; returns whether podman now reports it as ended."""
    if folder is not None:
        exit_code.leave(folder, details.id, KILLED)
    now = await inspect(libpod, details.id)
    return now is None or now.state.status not in STUCK
