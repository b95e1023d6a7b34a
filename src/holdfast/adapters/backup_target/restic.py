"""A restic repository as a carrier of our objects (sftp, REST, a path): each object is a snapshot of one file.

restic's own encryption comes on top of ours. Location and password reach it through files in memory, never through
arguments or the environment. Space of deleted objects is freed by `tidy` (`restic prune`).
"""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from holdfast.adapters.backup_target import ssh_login, troubles
from holdfast.errors import HoldfastError, Invalid
from holdfast.model import backup_key
from holdfast.model.backup_key import OBJECT_BYTES_MAX
from holdfast.ports.backup_target import StoredObject, TargetState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from holdfast.adapters.backup_target.ssh_login import SshLogin
    from holdfast.ports.backup_target import Prunable

LOOK_S = 4.5
OBJECT_S = 480.0
GET_S = 120.0  # of a repository that lost data, restic reads again and again
PRUNE_S = 3600.0
SAID_BYTES = 64 * 1024
LISTED_BYTES_MAX = 512 * 1024 * 1024  # a million snapshots
TAG, HOST = "holdfast", "holdfast"
REPOSITORY_ID = re.compile(r"[0-9a-f]{64}")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# What restic says, and what it means. The first that fits counts.
_SAID: tuple[tuple[str, str], ...] = (
    (r"no space left|quota exceeded|\b507\b", "full"),
    ("read-only file system", "read_only"),
    (r"wrong password or no key found|permission denied|host key verification failed|\b40[13]\b", "refused"),
    ("input/output error", "failing"),
)


class Snapshot(Struct, frozen=True):
    id: str
    paths: list[str]
    tags: list[str] = []

    @property
    def key(self) -> str:
        """A name without slashes: restic reads no folders from its input. "" if it is not one of ours."""
        text = self.paths[0].removeprefix("/").replace("_", "/") if self.paths else ""
        return text if backup_key.is_key(text) else ""

    @property
    def size_bytes(self) -> int:
        sizes = [tag.removeprefix("size-") for tag in self.tags if tag.startswith("size-")]
        return int(sizes[0]) if sizes and sizes[0].isdecimal() else 0


class Config(Struct, frozen=True):
    id: str


class Restic(Struct, frozen=True):
    """A repository and its password; `login` is for one on an SFTP server."""

    repository: str
    password: bytes
    login: SshLogin | None = None

    async def run(
        self, *words: str, given: bytes = b"", limit_s: float = OBJECT_S, at_most: int = LISTED_BYTES_MAX
    ) -> bytes:
        """What it printed, as far as `at_most`. A lock that a killed process left is removed, and the command run
        again."""
        code, out, err = await self._run(words, given, limit_s, at_most)
        if code != 0 and "already locked" in err:
            await self._run(("unlock",), b"", limit_s, at_most)
            code, out, err = await self._run(words, given, limit_s, at_most)
        if code != 0:
            raise self._trouble(err)
        return out

    async def create(self) -> str:
        """A new repository; its id."""
        await self.run("init")
        return await self.id(OBJECT_S)

    async def id(self, limit_s: float) -> str:
        found = await self.run("cat", "config", "--no-lock", limit_s=limit_s)
        return msgspec.json.decode(found, type=Config).id

    async def _run(self, words: tuple[str, ...], given: bytes, limit_s: float, at_most: int) -> tuple[int, bytes, str]:
        """What it said before a time limit counts: on a full disk it tries again for a quarter of an hour."""
        with (
            _in_memory(self.repository.encode()) as where,
            _in_memory(self.password) as password,
            _in_memory(b"") as said,
            self._ssh() as ssh,
        ):
            files = [
                *ssh,
                "--repository-file",
                f"/proc/self/fd/{where}",
                "--password-file",
                f"/proc/self/fd/{password}",
            ]
            process = await asyncio.create_subprocess_exec(
                *("restic", "--no-cache", *files, *words),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=said,
                pass_fds=(where, password),
                env={"PATH": _PATH, "HOME": "/nonexistent"},
            )
            try:
                async with asyncio.timeout(limit_s):
                    out = await _answer(process, given, at_most)
            except TimeoutError:
                complaint = _text(said)
                raise self._trouble(complaint) if complaint else troubles.silent(self._where, limit_s) from None
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            return 0 if len(out) == at_most else process.returncode or 0, out, _text(said)

    @contextmanager
    def _ssh(self) -> Iterator[list[str]]:
        """ssh closes what it inherits, so that it opens the files of this process."""
        if self.login is None:
            yield []
            return
        with _in_memory(self.login.private) as private, _in_memory(self.login.known_hosts) as known:
            paths = [f"/proc/{os.getpid()}/fd/{handle}" for handle in (private, known)]
            yield ["-o", f"sftp.command={ssh_login.command(self.repository, *paths)}"]

    def _trouble(self, said: str) -> HoldfastError:
        words = next((line for line in said.splitlines() if line.strip()), "it failed without a word")[:300]
        words = re.sub(r"//[^/@\s]*@", "//", words.replace(self.repository, "the repository"))
        means = next((means for form, means in _SAID if re.search(form, said, re.IGNORECASE)), "missing")
        if means == "full":
            return troubles.full(self._where, words)
        if means == "read_only":
            return troubles.read_only(self._where)
        made = {"refused": troubles.refused, "failing": troubles.failing, "missing": troubles.missing}[means]
        return made(self._where, words)

    @property
    def _where(self) -> str:
        """Without the password that the address of a REST server may have."""
        return re.sub(r"//[^/@]*@", "//", self.repository)


class ResticTarget:
    """`durable_id` is the id of the repository."""

    def __init__(self, restic: Restic, durable_id: str) -> None:
        if REPOSITORY_ID.fullmatch(durable_id) is None:
            raise Invalid(
                f"{durable_id[:70]!r} is not the id of a restic repository",
                remedy="`restic cat config` prints it: 64 hexadecimal digits",
            )
        self._restic = restic
        self._durable_id = durable_id
        self._writing = asyncio.Lock()
        self._is_unpruned = False
        self._is_ours = False  # as far as the last look tells

    async def put(self, key: str, content: bytes) -> None:
        parsed = backup_key.parse(key)
        await asyncio.to_thread(backup_key.check_content, parsed, content)
        async with self._writing:
            await self._check()
            if await self._snapshots(key):
                if await self.get(key) != content:
                    raise troubles.damaged("in restic", key)
                return
            tags = ("--tag", TAG, "--tag", f"size-{len(content)}", "--host", HOST)
            words = ("backup", "--stdin", "--stdin-filename", _name(key), *tags)
            await self._restic.run(*words, given=content, limit_s=OBJECT_S)

    async def get(self, key: str) -> bytes | None:
        found = await self._snapshots(backup_key.parse(key).text)
        if not found:
            return None
        words = ("dump", "--no-lock", found[0].id, f"/{_name(key)}")
        content = await self._restic.run(*words, limit_s=GET_S, at_most=OBJECT_BYTES_MAX + 1)
        if len(content) > OBJECT_BYTES_MAX:
            raise troubles.damaged("in restic", key)
        return content

    async def has(self, keys: Collection[str]) -> set[str]:
        wanted = {backup_key.parse(key).text for key in keys}
        return wanted & {one.key for one in await self._snapshots()} if wanted else set()

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        backup_key.check_prefix(prefix)
        found = {one.key: one.size_bytes for one in await self._snapshots() if one.key.startswith(prefix)}
        return [StoredObject(key, found[key]) for key in sorted(found)]

    async def delete(self, key: str, proof: Prunable) -> None:
        if proof.key != key:
            raise troubles.not_this_one(key, proof)
        async with self._writing:
            await self._check()
            if ids := [one.id for one in await self._snapshots(backup_key.parse(key).text)]:
                await self._restic.run("forget", *ids)
                self._is_unpruned = True

    async def look(self) -> TargetState:
        try:
            found = await self._restic.id(LOOK_S)
        except HoldfastError as trouble:
            return TargetState(troubles.condition(trouble), trouble.message)
        self._is_ours = found == self._durable_id
        if not self._is_ours:
            return TargetState("missing", f"another repository is there ({found})", durable_id=found)
        return TargetState("attached", "", None, found)

    async def tidy(self) -> None:
        async with self._writing:
            if self._is_unpruned:
                await self._restic.run("prune", limit_s=PRUNE_S)
                self._is_unpruned = False

    async def close(self) -> None:
        await self.tidy()

    async def _check(self) -> None:
        if not self._is_ours:
            found = await self._restic.id(OBJECT_S)
            if found != self._durable_id:
                raise troubles.missing("in restic", f"another repository is there ({found})")
            self._is_ours = True

    async def _snapshots(self, key: str = "") -> Sequence[Snapshot]:
        path = ("--path", f"/{_name(key)}") if key else ()
        said = await self._restic.run("snapshots", "--json", "--no-lock", "--tag", TAG, *path)
        if len(said) >= LISTED_BYTES_MAX:
            raise troubles.failing("in restic", f"its list of snapshots has more than {LISTED_BYTES_MAX:,} bytes")
        return [one for one in msgspec.json.decode(said or b"[]", type=tuple[Snapshot, ...] | None) or () if one.key]


async def _answer(process: asyncio.subprocess.Process, given: bytes, at_most: int) -> bytes:
    """Of what it prints, so much: then it is ended. What is in a repository may come from another program."""
    assert process.stdin is not None and process.stdout is not None
    feeding, out = asyncio.ensure_future(_fed(process.stdin, given)), bytearray()
    try:
        while len(out) < at_most and (more := await process.stdout.read(min(1 << 20, at_most - len(out)))):
            out += more
        if len(out) == at_most:
            with suppress(ProcessLookupError):
                process.kill()
            while await process.stdout.read(1 << 20):
                pass  # what was on its way
        await feeding
        await process.wait()
    finally:
        feeding.cancel()
    return bytes(out)


async def _fed(sink: asyncio.StreamWriter, given: bytes) -> None:
    with suppress(ConnectionError):  # it ended before: its code tells
        sink.write(given)
        await sink.drain()
    sink.close()


def _name(key: str) -> str:
    return key.replace("/", "_")


def _text(handle: int) -> str:
    return os.pread(handle, SAID_BYTES, 0).decode("utf-8", "replace")


@contextmanager
def _in_memory(content: bytes) -> Iterator[int]:
    handle = os.memfd_create("holdfast", os.MFD_CLOEXEC)
    try:
        os.fchmod(handle, 0o600)  # ssh uses no key that others may read
        os.write(handle, content)
        os.lseek(handle, 0, os.SEEK_SET)
        yield handle
    finally:
        os.close(handle)
