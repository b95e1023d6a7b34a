"""End containers whose supervisor (conmon) died.

Podman reports them as running forever, because it waits for an exit code file that only the supervisor writes. This
module ends the process and writes that file.
"""

import signal

from holdfast.adapters.process import kept, process
from holdfast.adapters.runtime.podman import exit_code
from holdfast.adapters.runtime.podman.libpod import Libpod
from holdfast.adapters.runtime.podman.listing import Details, inspect

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
    return found is None or await kept.end(found, grace_s, _kindly(details.config.stop_signal))


def _kindly(stop_signal: int | str) -> signal.Signals:
    try:
        return signal.Signals(stop_signal) if isinstance(stop_signal, int) else signal.Signals[stop_signal]
    except (KeyError, ValueError):  # a real-time signal
        return signal.SIGTERM


async def settle(libpod: Libpod, details: Details, folder: str | None) -> bool:
    """Write the exit code in place of the dead supervisor; returns whether podman now reports it as ended."""
    if folder is not None:
        exit_code.leave(folder, details.id, KILLED)
    now = await inspect(libpod, details.id)
    return now is None or now.state.status not in STUCK
