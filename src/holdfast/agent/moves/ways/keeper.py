"""Take calls of the nodes that hand services over to this one, while they do; and delete what came directly, when the
move is over."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from holdfast.agent.keeper import Revision, Say
from holdfast.agent.moves.books import Books
from holdfast.agent.moves.declared import Declarations
from holdfast.agent.moves.ways.ways import Ways
from holdfast.errors import HoldfastError
from holdfast.model import ssh_key
from holdfast.ports.move_lines import MoveLines
from holdfast.reconcile import moves as rules

AGAIN_S = 5.0  # an overlay's address may come up after the agent
TICK_S = 60.0
LINGER_S = 30.0  # after the data has arrived: the source reads that it has


class MoveWays:
    name = "ways"

    def __init__(self, *, ways: Ways, lines: MoveLines, books: Books, say: Say) -> None:
        self._ways = ways
        self._lines = lines
        self._books = books
        self._say = say
        self._declared = Declarations(books.is_bare)
        self._address = ""
        self._callers: Mapping[str, Mapping[str, int]] = {}
        self._until_s: dict[tuple[str, int], float] = {}  # by service and epoch, by the clock of the event loop
        self._bell = asyncio.Event()
        self._door: tuple[str, asyncio.Task[None]] | None = None

    def follow(self, revision: Revision) -> None:
        declared, may_call = self._declared, revision.node.peer_calls == "declared"
        declared.follow(revision)
        self._address = revision.manifest.own.address if may_call else ""
        peers = {one.service: one.peer for one in declared.out.values() if one.peer is not None}
        self._ways.follow(
            {service: peer for service, peer in peers.items() if peer.address and may_call},
            [one.service for one in declared.into.values() if self._address and not one.move.backup],
        )
        self.wake()

    def wake(self) -> None:
        self._bell.set()

    async def run(self) -> None:
        try:
            while True:
                self._bell.clear()
                services = self._wanted()
                await self._open_or_close(bool(services))
                await self._lines.forget(services)
                await self._ways.tidy()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LINGER_S if services else TICK_S):
                        await self._bell.wait()
        finally:
            await self._open_or_close(False)

    def _wanted(self) -> set[str]:
        """The services that come here now; those that hand them over may call."""
        callers: dict[str, dict[str, int]] = {}
        now_s = asyncio.get_running_loop().time()
        for moving in self._declared.into.values():
            if moving.peer is None or moving.move.backup:
                continue
            service, epoch = moving.service, moving.epoch
            if rules.awaits(moving.entry, self._books.into(service)):
                self._until_s[service, epoch] = now_s + LINGER_S
            if now_s < self._until_s.get((service, epoch), 0.0):
                callers.setdefault(ssh_key.line(ssh_key.parse(moving.peer.key)), {})[service] = epoch
        self._callers = callers
        return {service for services in callers.values() for service in services}

    # ---- the door

    async def _open_or_close(self, is_wanted: bool) -> None:
        address = self._address if is_wanted else ""
        if self._door is not None and self._door[0] != address:
            (_, serving), self._door = self._door, None
            serving.cancel()
            await asyncio.wait([serving])
        if address and self._door is None:
            self._door = address, asyncio.ensure_future(self._serve(address))

    async def _serve(self, address: str) -> None:
        last = ""
        while True:
            try:
                self._ways.opened(True)
                await self._lines.serve(address, lambda key: self._callers.get(key, {}), self._ways.heard)
            except HoldfastError as trouble:
                if trouble.message != last:
                    self._say("move_door_failed", {"message": trouble.message, "remedy": trouble.remedy})
                last = trouble.message
            finally:
                self._ways.opened(False)
            await asyncio.sleep(AGAIN_S)
