"""A line to a hub in the same process: no bytes, no sockets. The caller has already proved who it is."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from holdfast.model.checkin import CheckIn, CheckInAnswer, JoinAnswer, JoinRequest
from holdfast.model.record import Link
from holdfast.model.salvage import SalvageAnswer, SalvagePart


class Counter(Protocol):
    """The hub as one node meets it, after authentication."""

    async def join(self, request: JoinRequest) -> JoinAnswer: ...
    async def check_in(self, message: CheckIn) -> CheckInAnswer: ...
    async def salvage(self, part: SalvagePart) -> SalvageAnswer: ...
    def links(self, first: int, last: int) -> Sequence[Link]: ...
    def blob(self, digest: str) -> bytes | None: ...


class MemoryFleetLink:
    """`counter` is called for every request, as a hub that restarted is another object."""

    def __init__(self, counter: Callable[[], Awaitable[Counter]], is_there: Callable[[], bool] = lambda: True) -> None:
        self._counter = counter
        self._is_there = is_there

    async def join(self, request: JoinRequest) -> JoinAnswer:
        return await (await self._counter()).join(request)

    async def check_in(self, message: CheckIn) -> CheckInAnswer:
        return await (await self._counter()).check_in(message)

    async def salvage(self, part: SalvagePart) -> SalvageAnswer:
        return await (await self._counter()).salvage(part)

    async def links(self, first: int, last: int) -> list[Link]:
        return list((await self._counter()).links(first, last))

    async def blob(self, digest: str) -> bytes | None:
        return (await self._counter()).blob(digest)

    async def is_there(self) -> bool:
        return self._is_there()

    async def close(self) -> None:
        """Nothing was opened."""
