"""One process per state directory: a lock that the kernel takes back whenever and however the process ends."""

import fcntl
import os

from holdfast.errors import Conflict


class DirectoryLock:
    """Held from the moment it is made until `release`, or until the process is gone."""

    def __init__(self, directory: str) -> None:
        path = os.path.join(directory, "lock")
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._handle)
            raise Conflict(
                f"another agent is running with {directory}",
                remedy="stop it first, or give this one a --state-dir of its own",
                code="locked",
            ) from None

    def release(self) -> None:
        os.close(self._handle)
