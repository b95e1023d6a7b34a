"""One process per state directory: a lock file that the kernel unlocks when the process ends."""

import fcntl
import os
from contextlib import suppress

from holdfast.errors import Conflict, Failed

PID_BYTES_MAX = 20


class DirectoryLock:
    """Held from construction until `release` or the end of the process."""

    def __init__(self, directory: str, who: str = "agent", name: str = "lock") -> None:
        """`who` and the holder's pid appear in the error message of the second process."""
        path = os.path.join(directory, name)
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as trouble:
            raise Failed(
                f"cannot create {path}: {trouble.strerror}",
                remedy=f"run this as the owner of {directory}, on a writable disk: ls -ld {directory}",
                code="disk_failed",
            ) from trouble
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(self._handle, PID_BYTES_MAX, 0).decode("ascii", "replace").strip()
            os.close(self._handle)
            raise Conflict(
                f"another {who} is running with {directory}" + (f" (pid {pid})" if pid.isdecimal() else ""),
                remedy="stop it first, or use another --state-dir",
                code="locked",
            ) from None
        with suppress(OSError):  # on a full disk the lock still works; only the pid is missing
            os.pwrite(self._handle, f"{os.getpid()}\n".encode().rjust(PID_BYTES_MAX), 0)  # overwrites the previous pid

    def release(self) -> None:
        os.close(self._handle)
