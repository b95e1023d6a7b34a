"""The hub's store as a target of a node: signed requests on a connection of their own, so that no check-in waits."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from holdfast.adapters.backup_target import pages, troubles
from holdfast.adapters.fleet_link.signed_requests import MESSAGE_BYTES_MAX
from holdfast.errors import Corrupt, HoldfastError, Limited
from holdfast.model import backup_key
from holdfast.ports.backup_target import TargetState
from holdfast.wire import backup_messages as messages
from holdfast.wire import codec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from holdfast.adapters.fleet_link.signed_requests import SignedRequests
    from holdfast.ports.backup_target import Prunable, StoredObject

T = TypeVar("T")

AT = "/v1/backup-objects"
LOOK_S = 3.0
QUESTION_S = 60.0
PUT_S = 480.0  # as long as the hub lets a body take, and the places before it
BUSY_S_MAX = 120.0  # how long a hub may say that it is busy
AT_ONCE = 2  # objects on their way; the hub takes no more of one node
BYTES = "application/octet-stream"


class HubTarget:
    """`hub_id` is the fingerprint of the hub's key, `at` the path of the store. Closing closes the requests."""

    def __init__(self, requests: SignedRequests, hub_id: str, at: str = AT) -> None:
        self._requests = requests
        self._hub_id = hub_id
        self._at = at
        self._places = asyncio.Semaphore(AT_ONCE)

    async def put(self, key: str, content: bytes) -> None:
        parsed = backup_key.parse(key)
        await asyncio.to_thread(backup_key.check_content, parsed, content)
        async with self._places:
            await self._patiently(partial(self._put, parsed.text, content))

    async def get(self, key: str) -> bytes | None:
        """Part by part; a part that is cut is asked for again."""
        name, found = backup_key.parse(key).text, bytearray()
        async with self._places:
            while True:
                part = await self._patiently(partial(self._part, name, len(found)))
                if part is None:
                    return None
                found += part
                if len(part) < messages.PART_BYTES:
                    return bytes(found)
                if len(found) > backup_key.OBJECT_BYTES_MAX:
                    raise Corrupt(
                        f"the hub gives more bytes for {name} than an object has",
                        remedy="look at the disk of the hub",
                        code="object_damaged",
                    )

    async def has(self, keys: Collection[str]) -> set[str]:
        wanted = sorted({backup_key.parse(key).text for key in keys})
        found: set[str] = set()
        for first in range(0, len(wanted), messages.KEYS_MAX):
            asked = messages.PresentRequest(tuple(wanted[first : first + messages.KEYS_MAX]))
            found |= set(await self._patiently(partial(self._present, asked)))
        return found & set(wanted)

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        async def page(after: str) -> pages.Page:
            found = await self._patiently(partial(self._page, prefix, after))
            return found.objects, found.more

        return await pages.listed(prefix, page)

    async def delete(self, key: str, proof: Prunable) -> None:
        if proof.key != key:
            raise troubles.not_this_one(key, proof)
        target = f"{self._at}?key={backup_key.parse(key).text}"
        await self._patiently(partial(self._asked, "DELETE", target, messages.ObjectDeleted))

    async def look(self) -> TargetState:
        try:
            async with asyncio.timeout(LOOK_S):
                found = await self._asked("GET", f"{self._at}/room", TargetState)
        except TimeoutError:
            return TargetState("missing", troubles.silent("at the hub", LOOK_S).message)
        except HoldfastError as trouble:
            return TargetState(troubles.condition(trouble), trouble.message)
        return TargetState(found.state, found.reason, found.free_bytes, self._hub_id)

    async def close(self) -> None:
        await self._requests.close()

    # ---- requests

    async def _put(self, key: str, content: bytes) -> None:
        answered = await self._requests.ask("PUT", f"{self._at}?key={key}", content, MESSAGE_BYTES_MAX, PUT_S, BYTES)
        self._requests.message(answered, messages.ObjectTaken)

    async def _part(self, key: str, first: int) -> bytes | None:
        target = f"{self._at}?key={key}&first={first}"
        answered = await self._requests.ask("GET", target, None, messages.PART_BYTES, QUESTION_S)
        return None if answered.status == 404 else self._requests.checked(answered).body

    async def _present(self, asked: messages.PresentRequest) -> tuple[str, ...]:
        answered = await self._requests.ask(
            "POST", f"{self._at}/present", codec.write(asked), MESSAGE_BYTES_MAX, QUESTION_S
        )
        return self._requests.message(answered, messages.PresentAnswer).keys

    async def _page(self, prefix: str, after: str) -> messages.ObjectsPage:
        more = f"&after={after}" if after else ""
        return await self._asked("GET", f"{self._at}/list?prefix={prefix}{more}", messages.ObjectsPage)

    async def _asked(self, method: str, target: str, kind: type[T]) -> T:
        return self._requests.message(
            await self._requests.ask(method, target, None, MESSAGE_BYTES_MAX, QUESTION_S), kind
        )

    async def _patiently(self, request: Callable[[], Awaitable[T]]) -> T:
        """A hub that is busy says when to come back; nothing was changed then."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + BUSY_S_MAX
        while True:
            try:
                return await request()
            except Limited as busy:
                if loop.time() + busy.retry_after_s > until_s:
                    raise
                await asyncio.sleep(busy.retry_after_s)
