"""The agent's connection to its hub: join, check in, fetch contents. Every call has a time limit; the agent dials."""

from typing import Protocol

from holdfast.model.checkin import CheckIn, CheckInAnswer, JoinAnswer, JoinRequest
from holdfast.model.record import Link
from holdfast.model.salvage import SalvageAnswer, SalvagePart


class FleetLink(Protocol):
    async def join(self, request: JoinRequest) -> JoinAnswer: ...

    async def check_in(self, message: CheckIn) -> CheckInAnswer:
        """The hub holds the request for at most `message.wait_s`. Raises Limited when the hub has too many of them."""
        ...

    async def links(self, first: int, last: int) -> list[Link]: ...

    async def blob(self, digest: str) -> bytes | None: ...

    async def salvage(self, part: SalvagePart) -> SalvageAnswer:
        """Send a part to a hub that lost its ledger and asked for what this node holds."""
        ...

    async def is_there(self) -> bool:
        """Does anything take a connection where the hub should be? Sends nothing, and proves nothing."""
        ...

    async def close(self) -> None: ...
