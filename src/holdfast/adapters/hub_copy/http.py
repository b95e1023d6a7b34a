"""The file of the hub over HTTP, piece by piece, into a directory of the agent."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, TypeVar

from holdfast.adapters.fleet_link.signed_requests import MESSAGE_BYTES_MAX
from holdfast.adapters.walking import private
from holdfast.errors import Corrupt, Failed, Limited
from holdfast.wire.backup_messages import PART_BYTES
from holdfast.wire.hub_file_messages import HubFileAnswer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.adapters.fleet_link.signed_requests import SignedRequests

T = TypeVar("T")

AT = "/v1/hub-file"
NAME = "hub.tar.zst.age"
BYTES_MAX = 1 << 30  # the owner of the hub chooses these bytes
FETCH_S, LOOK_S = 900.0, 1.0  # other backups of this node wait for that long at most
QUESTION_S = 60.0
FREE_BYTES_MIN = 256 * 1024**2  # stays free


class HttpHubCopy:
    """`copies` is a directory that nothing else uses."""

    def __init__(self, requests: SignedRequests, copies: str, bytes_max: int = BYTES_MAX) -> None:
        self._requests = requests
        self._copies = copies
        self._bytes_max = bytes_max

    async def fetch(self) -> str:
        await asyncio.to_thread(self.clear)
        try:
            async with asyncio.timeout(FETCH_S):
                await self._fetched(await self._made())
        except TimeoutError:
            raise self._requests.unreachable(f"its file did not come within {FETCH_S:.0f} s") from None
        finally:
            await self._requests.close()
        return self._copies

    def clear(self) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(self._copies)

    async def _fetched(self, made: HubFileAnswer) -> None:
        await asyncio.to_thread(self._check_room, made.size_bytes)
        digest, size = sha256(), 0
        with open(os.path.join(self._copies, NAME), "xb", opener=_private) as file:
            while size < made.size_bytes:
                part = await self._patiently(partial(self._part, made.digest, size))
                size += len(part)
                if not part or size > made.size_bytes:
                    raise _other(made)
                await asyncio.to_thread(file.write, part)
                await asyncio.to_thread(digest.update, part)
        if digest.hexdigest() != made.digest:
            raise _other(made)

    async def _made(self) -> HubFileAnswer:
        while not (found := await self._patiently(self._asked)).digest:
            await asyncio.sleep(LOOK_S)
        return found

    async def _asked(self) -> HubFileAnswer:
        answered = await self._requests.ask("GET", AT, None, MESSAGE_BYTES_MAX, QUESTION_S)
        return self._requests.message(answered, HubFileAnswer)

    async def _part(self, digest: str, first: int) -> bytes:
        answered = await self._requests.ask("GET", f"{AT}/{digest}?first={first}", None, PART_BYTES, QUESTION_S)
        return self._requests.checked(answered).body

    async def _patiently(self, request: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await request()
            except Limited as busy:
                await asyncio.sleep(busy.retry_after_s)

    def _check_room(self, size_bytes: int) -> None:
        """The archive that is made of it lies beside it for a moment."""
        private.make(self._copies)
        if not 0 < size_bytes <= self._bytes_max:
            raise Failed(
                f"the file of the hub has {size_bytes:,} bytes, and a node keeps {self._bytes_max:,} at most",
                remedy="keep it by hand: holdfast hub backup --to DIR",
                code="hub_file_too_long",
            )
        if shutil.disk_usage(self._copies).free < size_bytes + FREE_BYTES_MIN:
            raise Failed(
                f"this node has no room for the file of the hub, {size_bytes:,} bytes",
                remedy="free space on the disk of the agent's state directory: `df -h` shows it",
                code="no_space",
            )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _other(made: HubFileAnswer) -> Corrupt:
    return Corrupt(
        f"the hub gave other bytes than those of its file {made.digest[:16]}",
        remedy="look at the disk of the hub; the backup is tried again",
        code="hub_file_damaged",
    )
