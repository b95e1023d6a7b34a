"""Consistent copies of SQLite databases that programs write to meanwhile: one process for each (vacuum.py)."""

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from holdfast.adapters.archive import vacuum
from holdfast.errors import Failed, HoldfastError, TryLater

WITHIN_S = 4 * 3600
SPARE_BYTES = 64 << 20


class Databases:
    """`folder` is the archiver's own; copies are in it for as long as they are read."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        if os.path.isdir(folder):  # a run was killed
            self._leave()

    @contextmanager
    def copied(self, here: int, name: str, about: os.stat_result, path: str) -> Iterator[int]:
        """A handle of the copy. `here` and `name`: where the database is; `path`: how it is called in messages."""
        os.mkdir(self._folder, 0o700)
        try:
            if os.geteuid() == 0:
                os.chown(self._folder, about.st_uid, about.st_gid)
            out = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                answer = _asked(here, out, self._ask(here, name, about))
                if answer.kind != "copied":
                    raise _error(answer, path)
                copy = os.open(vacuum.COPY, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=out)
            finally:
                os.close(out)
            try:
                yield copy
            finally:
                os.close(copy)
        finally:
            self._leave()

    def _leave(self) -> None:
        """Copies are files; there is no directory in it."""
        for name in os.listdir(self._folder):
            os.unlink(os.path.join(self._folder, name))
        os.rmdir(self._folder)

    def _ask(self, here: int, name: str, about: os.stat_result) -> vacuum.Ask:
        try:
            wal_bytes = os.stat(f"{name}-wal", dir_fd=here, follow_symlinks=False).st_size
        except FileNotFoundError:
            wal_bytes = -1
        most = about.st_size + max(wal_bytes, 0) + SPARE_BYTES
        disk = os.statvfs(self._folder)
        if disk.f_bavail * disk.f_frsize < most - SPARE_BYTES:
            raise OSError(28, f"no space left for a copy of {about.st_size:,} bytes", self._folder)
        text = base64.b64encode(os.fsencode(name)).decode()
        return vacuum.Ask(text, about.st_uid, about.st_gid, most, wal_bytes >= 0)


def _asked(here: int, out: int, ask: vacuum.Ask) -> vacuum.Answer:
    source = os.dup(here)
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _START, str(source), str(out)],
            input=msgspec.json.encode(ask) + b"\n", capture_output=True, pass_fds=(source, out), timeout=WITHIN_S,
            check=False,
        )  # fmt: skip
    finally:
        os.close(source)
    try:
        return msgspec.json.decode(done.stdout, type=vacuum.Answer)
    except msgspec.DecodeError:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        return vacuum.Answer("failed", f"its process ended with {done.returncode} {' '.join(said)[:200]}".strip())


_START = "import sys; from holdfast.adapters.archive import vacuum; vacuum.main(int(sys.argv[1]), int(sys.argv[2]))"


def _error(answer: vacuum.Answer, path: str) -> HoldfastError:
    if answer.kind == "damaged":
        return Failed(
            f"the database {path} is damaged, so there is no backup of it: {answer.why}",
            remedy="restore it from an older backup; or leave it out: add it to exclude of [snapshot]",
            code="database_damaged",
        )
    if answer.kind == "busy":
        return TryLater(
            f"the database {path} was locked by its program for {vacuum.BUSY_MS // 1000} s",
            remedy="the next backup tries again",
            code="database_busy",
        )
    return Failed(
        f"the database {path} cannot be copied: {answer.why}",
        remedy="look at the disk of this node: `df -h`; or leave the file out: add it to exclude of [snapshot]",
        code="database_failed",
    )
