"""One process per state directory: a lock that the kernel takes back whenever and however the process ends."""

import fcntl
import os
from contextlib import suppress

from holdfast.errors import Conflict, Failed

PID_BYTES_MAX = 20


class DirectoryLock:
    """Held from the moment it is made until `release`, or until the process is gone."""

    def __init__(self, directory: str, who: str = "agent", name: str = "lock") -> None:
        """`who` is told to whoever comes second, with the process that holds it."""
        path = os.path.join(directory, name)
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as trouble:
            raise Failed(
                f"{path} cannot be made: {trouble.strerror}",
                remedy=f"run this as the owner of {directory}, on a disk that can be written: ls -ld {directory}",
                code="disk_failed",
            ) from trouble
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(self._handle, PID_BYTES_MAX, 0).decode("ascii", "replace").strip()
            os.close(self._handle)
            raise Conflict(
                f"another {who} is running with {directory}" + (f" (pid {pid})" if pid.isdecimal() else ""),
                remedy="stop it first, or give this one a --state-dir of its own",
                code="locked",
            ) from None
        with suppress(OSError):  # a full disk: the lock holds all the same, only its holder is not named
            os.pwrite(self._handle, f"{os.getpid()}\n".encode().rjust(PID_BYTES_MAX), 0)  # covers whoever was before

    def release(self) -> None:
        os.close(self._handle)
