"""A disk as a target, mounted by its UUID through the unit holdfast-mounts: this process has no right to mount.

Two directories are shared with that unit (holdfast/mounts): requests and results. What it mounted is used as a
directory, if the table of mounts shows a file system of its own there.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from holdfast.adapters.backup_target import troubles
from holdfast.adapters.backup_target.local_dir import LocalDir
from holdfast.ports.backup_target import TargetState

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from holdfast.ports.backup_target import Mountable, Prunable, StoredObject

UNMOUNT_S = 5.0
FILE_BYTES_MAX = 64 * 1024
MOUNTS = "/proc/self/mountinfo"


class Answer(Struct, frozen=True):
    state: str = ""
    uuid: str = ""
    reason: str = ""


class MountDesk:
    """`base` has the list, `requests/` and `results/`; `storage` is where disks are mounted."""

    def __init__(self, base: str, storage: str) -> None:
        self._base = base
        self._storage = storage
        self._allowed: dict[str, str] = {}

    def path(self, name: str) -> str:
        return os.path.join(self._storage, name)

    def allow(self, proof: Mountable) -> None:
        self._allowed[proof.name] = proof.uuid
        self._write_list()

    def forget(self, name: str) -> None:
        self._allowed.pop(name, None)
        self._write_list()

    def ask(self, verb: str, proof: Mountable) -> None:
        """One request at a time: while one lies there, the unit has not answered."""
        content = msgspec.json.encode({"verb": verb, "uuid": proof.uuid})
        self._replace(os.path.join("requests", f"{proof.name}.json"), content)

    def is_waiting(self, name: str) -> bool:
        return os.path.exists(os.path.join(self._base, "requests", f"{name}.json"))

    def answer(self, name: str) -> Answer:
        try:
            with open(os.path.join(self._base, "results", f"{name}.json"), "rb") as file:
                return msgspec.json.decode(file.read(FILE_BYTES_MAX), type=Answer)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return Answer()

    def _write_list(self) -> None:
        self._replace("allowed.json", msgspec.json.encode({"targets": self._allowed}))

    def _replace(self, name: str, content: bytes) -> None:
        """The new name comes from outside of `requests`, so that the unit meets whole files only."""
        os.makedirs(os.path.join(self._base, "requests"), 0o700, exist_ok=True)
        draft = os.path.join(self._base, f".{os.path.basename(name)}.new")
        with open(draft, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, os.path.join(self._base, name))


def belongs(root: int, path: str) -> str:
    """Why the directory is not a mounted disk; "" if it is. The unit mounts nothing else below that directory."""
    with open(MOUNTS) as lines:
        return "" if any(line.split(" ")[4] == path for line in lines) else "no disk is mounted there"


class UsbDisk:
    """`proof`: the accepted revision attaches the file system with this UUID under this name."""

    def __init__(self, desk: MountDesk, proof: Mountable) -> None:
        self._desk = desk
        self._proof = proof
        path = desk.path(proof.name)
        self._inner = LocalDir(path, proof.uuid, partial(belongs, path=path))
        desk.allow(proof)

    async def put(self, key: str, content: bytes) -> None:
        await self._inner.put(key, content)

    async def get(self, key: str) -> bytes | None:
        return await self._inner.get(key)

    async def has(self, keys: Collection[str]) -> set[str]:
        return await self._inner.has(keys)

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        return await self._inner.list(prefix)

    async def delete(self, key: str, proof: Prunable) -> None:
        if proof.key != key:
            raise troubles.not_this_one(key, proof)
        await self._inner.delete(key, proof)

    async def look(self) -> TargetState:
        """A disk that is not there is asked for, and used when a later look finds it."""
        found = await self._inner.look()
        if found.state in ("attached", "full", "read_only", "refused"):
            return found
        name = self._proof.name
        if self._desk.is_waiting(name):
            return TargetState("missing", "the unit holdfast-mounts does not answer: is holdfast-mounts.path enabled?")
        answer = self._desk.answer(name)
        with suppress(OSError):  # the next look asks again
            self._desk.ask("mount", self._proof)
        known = answer.uuid == self._proof.uuid and answer.state in ("missing", "refused", "failed")
        return TargetState(found.state, answer.reason if known else found.reason, durable_id=found.durable_id)

    async def close(self) -> None:
        """It is not a target any more: it is unmounted, so that it can be taken away."""
        with suppress(OSError):
            self._desk.ask("unmount", self._proof)
            with suppress(TimeoutError):
                async with asyncio.timeout(UNMOUNT_S):
                    while self._desk.is_waiting(self._proof.name):
                        await asyncio.sleep(0.1)
            self._desk.forget(self._proof.name)
