"""The file of a running hub: `holdfast hub backup` in a process of its own.

Not in the hub's process: closing a file of SQLite there would end the locks of the open ledger, and sealing would hold
the interpreter.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import file_digest
from typing import IO

import msgspec
from msgspec import Struct

from holdfast.adapters.hub_files import staging
from holdfast.adapters.process.kept import OURS
from holdfast.errors import Conflict, Corrupt, Failed, HoldfastError
from holdfast.model import hub_file
from holdfast.ports.hub_file_maker import FRESH_S, MadeHubFile

FOLDER = "outgoing"
COMMAND = (sys.executable, "-m", "holdfast")
NICE = 10
RESERVE_BYTES = 64 * 1024**2  # stays free for the ledger
AGAIN_S = 10.0  # after it failed
END_S = 5.0
_FAMILIES = {one.exit_code: one for one in (Failed, Conflict, Corrupt)}


class _Said(Struct, frozen=True):
    code: str
    message: str
    remedy: str


class CommandedHubFile:
    """`state_dir` is the hub's, where the file lies until the next one is made. `now_s` is a clock that is never
    set."""

    def __init__(self, state_dir: str, now_s: Callable[[], float], command: Sequence[str] = COMMAND) -> None:
        self._state_dir = state_dir
        self._folder = os.path.join(state_dir, FOLDER)
        self._now_s = now_s
        self._command = command
        self._turn = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._made: MadeHubFile | None = None
        self._trouble: HoldfastError | None = None
        self._ended_s = float("-inf")
        staging.clear(self._folder)

    def ask(self) -> MadeHubFile | None:
        with self._turn:
            if self._child is not None:
                if self._child.poll() is None:
                    return None
                self._take(self._child)
            age_s = self._now_s() - self._ended_s
            if self._trouble is not None and age_s < AGAIN_S:
                raise self._trouble
            if self._made is not None and age_s < FRESH_S:
                return self._made
            self._begin()
            return None

    def part(self, digest: str, first: int, at_most: int) -> bytes | None:
        with self._turn:
            if self._made is None or self._made.digest != digest:
                return None
            with open(self._path(), "rb") as file:
                file.seek(first)
                return file.read(at_most)

    def close(self) -> None:
        with self._turn:
            if self._child is not None:
                self._child.terminate()
                with suppress(subprocess.TimeoutExpired):
                    self._child.communicate(timeout=END_S)
            self._child = self._made = None
            staging.clear(self._folder)

    # ---- with the turn

    def _path(self) -> str:
        return os.path.join(self._folder, "hub.age")

    def _begin(self) -> None:
        """What the last one made goes first: there is room for one."""
        self._made = self._trouble = None
        staging.clear(self._folder)
        try:
            self._check_room()
            os.mkdir(self._folder, 0o700)
            words = ("hub", "backup", "--state-dir", self._state_dir, "--to", self._path(), "--json")
            self._child = subprocess.Popen(
                [*self._command, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={name: value for name, value in os.environ.items() if name not in OURS},
            )
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self._child.pid, NICE)
        except OSError as trouble:
            raise Failed(
                f"the hub cannot make its file: {trouble.strerror or trouble}",
                remedy="look at the disk of the hub (`df -h` shows its room)",
                code="hub_file_failed",
            ) from trouble

    def _check_room(self) -> None:
        """For a copy of the ledger, and what is packed of it."""
        sizes = [os.path.join(self._state_dir, name) for name in (hub_file.LEDGER, "audit.jsonl")]
        needed = 2 * sum(os.stat(path).st_size for path in sizes if os.path.exists(path)) + RESERVE_BYTES
        about = os.statvfs(self._state_dir)
        if about.f_bavail * about.f_frsize < needed:
            raise Failed(
                f"the hub makes no file of itself: its disk has no room for {needed:,} bytes",
                remedy="free space on the disk of the hub (`df -h` shows it)",
                code="no_space",
            )

    def _take(self, child: "subprocess.Popen[bytes]") -> None:
        _, said = child.communicate()
        self._child, self._ended_s = None, self._now_s()
        if child.returncode:
            self._trouble = _trouble(child.returncode, said)
            return
        with open(self._path(), "rb") as file:
            self._made = MadeHubFile(_digest(file), file.tell())


def _digest(file: IO[bytes]) -> str:
    return file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def _trouble(code: int, said: bytes) -> HoldfastError:
    try:
        found = msgspec.json.decode(said.strip().splitlines()[-1], type=_Said)
    except (msgspec.DecodeError, IndexError, UnicodeDecodeError):
        found = _Said("hub_file_failed", f"`holdfast hub backup` ended with {code}", "look at the log of the hub")
    return _FAMILIES.get(code, Failed)(f"the hub made no file: {found.message}", remedy=found.remedy, code=found.code)
