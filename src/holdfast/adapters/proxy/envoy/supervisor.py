"""Keep one Envoy running in a directory, independent of the agent. A process that needs only the standard library.

`python supervisor.py DIRECTORY`. DIRECTORY/run.json names the command; SIGTERM ends Envoy and the supervisor. One per
directory: a second supervisor finds the lock held and exits. An Envoy of an earlier supervisor is adopted, not started
a second time; if its files were deleted, it is recognised by its arguments.
"""

import fcntl
import json
import os
import resource
import select
import shutil
import signal
import socket
import struct
import sys
import time
from contextlib import suppress

LOCK, RUN, CHILD, BEFORE = "supervisor.lock", "run.json", "envoy.pid", "before"
WATCHED = ("clusters", "listeners", "requests", "openers", "secrets")  # folders in which Envoy notices changed files
BOOTSTRAP = "bootstrap.json"
COMMAND = "holdfast-proxy"  # the name of its installed command
ACCESS_LOG, LOG = "access.log", "envoy.log"
LOG_BYTES_MAX = 10_000_000
LOGS_KEPT = 3
LOCK_BYTES = 40
LOCK_TRIES, LOCK_PAUSE_S = 20, 0.1  # another process may hold the lock briefly to test it
TICK_S = 0.5
PAUSE_FIRST_S, PAUSE_LONGEST_S = 0.05, 5.0
SETTLED_S = 10.0  # an Envoy that ran this long did not fail at its start
END_S = 3.0
GET_VERSION = 0x80087601  # FS_IOC_GETVERSION of ext4, xfs and btrfs


def started(pid: int) -> int:
    """Start time of a running process in clock ticks since boot: pid and start time identify a process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if len(fields) < 20 or fields[0] in (b"Z", b"X") else int(fields[19])


def note(path: str, pid: int) -> None:
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(f"{pid} {started(pid)}\n")
    os.rename(path + ".new", path)


def noted(path: str) -> int:
    """The process of that file if it still lives, else 0. The file survives a boot: another program may have the same
    pid and start time then."""
    try:
        with open(path, "rb") as file:
            pid, then = map(int, file.read().split())
    except (OSError, ValueError):
        return 0
    return pid if then and started(pid) == then and _is_of(pid, os.path.dirname(path)) else 0


def identities(directory: str) -> list[list[int]]:
    """Which folders these are: a folder that is made again, or restored, has the same name only. Its inode may be the
    same one, too, so the generation of the inode is added where the file system has it."""
    return [_identity(os.path.join(directory, name)) for name in WATCHED]


def _identity(path: str) -> list[int]:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        found = os.fstat(handle)
        with suppress(OSError):
            return [found.st_dev, found.st_ino, *struct.unpack("q", fcntl.ioctl(handle, GET_VERSION, bytes(8)))]
        return [found.st_dev, found.st_ino]
    finally:
        os.close(handle)


def watched_file(socket: str) -> str:
    """Beside Envoy's socket: the directory of its files may be replaced while it runs (X08)."""
    return socket.removesuffix(".sock") + ".watched"


def watched(socket: str, pid: int, started: int) -> list[list[int]] | None:
    """The folders that this Envoy found at its start; None if that was not noted."""
    with suppress(OSError, ValueError, KeyError, TypeError), open(watched_file(socket), encoding="utf-8") as file:
        found = json.load(file)
        if (found["pid"], found["started"]) == (pid, started):
            return list(found["folders"])
    return None


def _is_of(pid: int, directory: str) -> bool:
    """An argument is this directory or inside it: of Envoy, of a supervisor, of a child that is about to be Envoy."""
    inside = os.fsencode(os.path.join(directory, ""))
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return any((word + b"/").startswith(inside) for word in file.read().split(b"\0"))
    return False


def running(directory: str) -> int:
    """A running Envoy of this directory, found without its pid file."""
    return _with_arguments(os.path.join(directory, BOOTSTRAP), "--config-path")


def watching(directory: str) -> int:
    """The supervisor of this directory: from its lock file or, if that was deleted, by its arguments, as an agent of
    this or another release or a systemd unit starts it."""
    by_lock = noted(os.path.join(directory, LOCK))
    by_script = by_lock or _with_arguments("-I", "-S", os.path.basename(__file__), directory)
    return by_script or _with_arguments(COMMAND, directory)


def _with_arguments(*wanted: str) -> int:
    """Matches whole arguments or the last part of a path. Only in this process's pid namespace: another one may have a
    directory of the same name."""
    words, ours = {os.fsencode(word) for word in wanted}, os.readlink("/proc/self/ns/pid")
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            with suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as file:
                said = file.read().split(b"\0")
                found = words <= {*said, *map(os.path.basename, said)} and started(int(name))
                if found and os.readlink(f"/proc/{name}/ns/pid") == ours:
                    return int(name)
    return 0


def spawn(command: list[str], log: int) -> int:
    """Start it as an orphan: Envoy asks the kernel to be killed with its parent, but must outlive us."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    between = os.fork()
    if between == 0:
        try:
            here = os.getpid()
            pid = os.fork()
            if pid:
                os.write(writing, str(pid).encode())
            else:
                _become(command, log, here)
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(between, 0)
    with os.fdopen(reading, "rb") as answer:
        return int(answer.read(20) or b"0")


def _become(command: list[str], log: int, parent: int) -> None:
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for number, handle in enumerate((nothing, log, log)):
            os.dup2(handle, number)
        while os.getppid() == parent:  # wait until the parent is gone
            time.sleep(0.001)
        os.execv(command[0], command)  # noqa: S606 (an argument list, never a shell)
    except OSError as trouble:
        os.write(2, f"{command[0]}: {trouble.strerror}\n".encode())


def lock(directory: str) -> bool:
    """Held until this process ends; children do not inherit it."""
    handle = os.open(os.path.join(directory, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOCK_PAUSE_S)
        else:
            if not _same_file(handle, os.path.join(directory, LOCK)):
                return False  # the directory was removed while we waited
            os.pwrite(handle, f"{os.getpid()} {started(os.getpid())}\n".encode().ljust(LOCK_BYTES), 0)
            return True
    return False


def _same_file(handle: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        return False


class Supervisor:
    def __init__(self, directory: str, wake: int) -> None:
        self._directory = directory
        self._wake = wake  # readable after a signal
        self._command: list[str] = []
        self._sockets: list[str] = []
        self.ending = False

    def run(self) -> None:
        pause_s = PAUSE_FIRST_S
        while not self.ending:
            began_s = time.monotonic()
            self._read_order()
            pid = self._living() or self._start()
            if pid:
                self._watch(pid)
            elif not self._command and not os.path.exists(self._path(LOCK)):
                return  # it got the lock while an agent ended its predecessor and removed the directory
            pause_s = PAUSE_FIRST_S if time.monotonic() - began_s > SETTLED_S else min(pause_s * 2, PAUSE_LONGEST_S)
            if not self.ending:
                select.select([self._wake], [], [], pause_s)
        self._end()

    def _read_order(self) -> None:
        """If it is missing or incomplete, the last one stays: only a signal ends Envoy, never a missing file."""
        with suppress(OSError, ValueError, KeyError, TypeError), open(self._path(RUN), encoding="utf-8") as file:
            found = json.load(file)
            self._command, self._sockets = list(found["command"]), list(found["sockets"])

    def _living(self) -> int:
        return noted(self._path(CHILD)) or running(self._directory)

    def _start(self) -> int:
        if not self._command:
            return 0
        self._undo()
        try:
            for path in self._sockets:  # below /run, which is empty after a boot
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            folders = identities(self._directory)
            with open(self._path(LOG), "ab") as log:
                pid = spawn(self._command, log.fileno())
        except OSError:
            return 0
        with suppress(OSError):  # on a full disk it is recognised by its arguments
            note(self._path(CHILD), pid)
        self._note_watched(pid, folders)
        return pid

    def _note_watched(self, pid: int, folders: list[list[int]]) -> None:
        for path in map(watched_file, self._sockets):
            with suppress(OSError):
                with open(path + ".new", "w", encoding="utf-8") as file:
                    json.dump({"pid": pid, "started": started(pid), "folders": folders}, file)
                os.rename(path + ".new", path)

    def _undo(self) -> None:
        """An unacknowledged set may have caused the crash: start with the previous files."""
        before = self._path(BEFORE)
        for folder, _, names in os.walk(before):
            for name in names:
                kept = os.path.join(folder, name)
                with suppress(OSError):
                    os.rename(kept, self._path(os.path.relpath(kept, before)))

    def _watch(self, pid: int) -> None:
        """Until it ends, or the supervisor must end."""
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return
        try:
            while not self.ending:
                ready, _, _ = select.select([handle, self._wake], [], [], TICK_S)
                if handle in ready:
                    return
                if self._wake in ready:
                    os.read(self._wake, 64)
                self._tend_logs()
        finally:
            os.close(handle)

    def _end(self) -> None:
        pid = self._living()
        if pid:
            handle = os.pidfd_open(pid)
            for number in (signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, number)
                if select.select([handle], [], [], END_S)[0]:
                    break
            os.close(handle)
        for path in (self._path(CHILD), *self._sockets, *map(watched_file, self._sockets)):
            with suppress(OSError):
                os.unlink(path)

    def _tend_logs(self) -> None:
        with suppress(OSError):
            if os.path.getsize(self._path(ACCESS_LOG)) > LOG_BYTES_MAX:
                self._shift(ACCESS_LOG)
                self._ask_to_reopen()
        with suppress(OSError):
            if os.path.getsize(self._path(LOG)) > LOG_BYTES_MAX:  # Envoy keeps it open, so its content is copied away
                self._shift(LOG, copied=True)

    def _shift(self, name: str, copied: bool = False) -> None:
        path = self._path(name)
        for number in range(LOGS_KEPT - 1, 0, -1):
            with suppress(FileNotFoundError):
                os.rename(f"{path}.{number}", f"{path}.{number + 1}")
        if copied:
            shutil.copy(path, f"{path}.1")
            os.truncate(path, 0)
        else:
            os.rename(path, f"{path}.1")

    def _ask_to_reopen(self) -> None:
        for path in self._sockets:
            with suppress(OSError), socket.socket(socket.AF_UNIX) as line:
                line.settimeout(1.0)
                line.connect(path)
                line.sendall(
                    b"POST /reopen_logs HTTP/1.1\r\nHost: envoy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                )
                line.recv(64)

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)


def main(directory: str) -> int:
    os.umask(0o077)
    if not lock(directory):
        return 0
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # every connection needs two files in Envoy
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    kept = Supervisor(directory, reading)

    def end(*_: object) -> None:
        kept.ending = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    kept.run()
    return 0


def command() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write(f"usage: {COMMAND} DIRECTORY\n")
        return 2
    return main(os.path.abspath(sys.argv[1]))


if __name__ == "__main__":
    sys.exit(command())
