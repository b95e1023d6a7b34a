"""An agent's client of its hub over HTTPS: one connection, every request signed, only to the pinned hub key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.adapters.fleet_link.signed_requests import ANSWER_S, MESSAGE_BYTES_MAX, SignedRequests
from holdfast.errors import Corrupt
from holdfast.model import canonical
from holdfast.model.checkin import CheckIn, CheckInAnswer, JoinAnswer, JoinRequest
from holdfast.model.salvage import SalvageAnswer, SalvagePart
from holdfast.wire import messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.model.record import Link
    from holdfast.ports.clock import Clock
    from holdfast.ports.identity_key import IdentityKey
    from holdfast.ports.random_source import RandomSource

BLOB_BYTES_MAX = 64 * 1024 * 1024


class HttpFleetLink:
    """`fleet` is called for every request: it gives "" until the first revision was accepted."""

    def __init__(
        self, url: str, hub_key: str, key: IdentityKey, fleet: Callable[[], str], clock: Clock, random: RandomSource
    ) -> None:
        self._requests = SignedRequests(url, hub_key, key, fleet, clock, random)

    async def join(self, request: JoinRequest) -> JoinAnswer:
        return await self._requests.post("/v1/join", request, JoinAnswer, ANSWER_S)

    async def check_in(self, message: CheckIn) -> CheckInAnswer:
        return await self._requests.post("/v1/check-in", message, CheckInAnswer, message.wait_s + ANSWER_S)

    async def salvage(self, part: SalvagePart) -> SalvageAnswer:
        return await self._requests.post("/v1/salvage", part, SalvageAnswer, ANSWER_S)

    async def links(self, first: int, last: int) -> list[Link]:
        first = max(first, 1)
        found: list[Link] = []
        while (at := first + len(found)) <= last:
            target = f"/v1/links?first={at}&last={min(last, at + messages.PAGE_LINKS - 1)}"
            page = self._requests.message(
                await self._requests.ask("GET", target, None, MESSAGE_BYTES_MAX), messages.LinksPage
            ).links
            if not page:
                raise self._requests.unreachable(f"it sends no revision {at}, without a reason")
            found += page
        return found[: max(last - first + 1, 0)]

    async def blob(self, digest: str) -> bytes | None:
        answered = await self._requests.ask("GET", f"/v1/node/blobs/{digest}", None, BLOB_BYTES_MAX)
        if answered.status == 404:
            return None
        content = self._requests.checked(answered).body
        if canonical.digest(content) != digest:
            raise Corrupt(
                f"the hub sent other bytes than those with the digest {digest[:12]}…",
                remedy="look at the hub's ledger: holdfast hub check",
                code="blob_digest",
            )
        return content

    async def is_there(self) -> bool:
        return await self._requests.is_there()

    async def close(self) -> None:
        await self._requests.close()
