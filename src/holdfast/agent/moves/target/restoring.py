"""Start a service that moved here with a backup: the node that had its data is dead."""

import asyncio

from holdfast.agent.backups.fetching import Fetching
from holdfast.agent.backups.restores.way_back import WayBack
from holdfast.agent.moves.declared import Moving
from holdfast.agent.moves.progress import MoveProgress
from holdfast.agent.moves.target.arriving import Arriving
from holdfast.agent.moves.target.readiness import Readiness
from holdfast.agent.moves.target.receiving import Receiving
from holdfast.agent.services.rollout.containers import Containers
from holdfast.ports.storage import Receivable

STOPS_S = 0.2


class Restored:
    def __init__(
        self,
        *,
        fetching: Fetching,
        ways: WayBack,
        arriving: Arriving,
        readiness: Readiness,
        receiving: Receiving,
        progress: MoveProgress,
        containers: Containers,
    ) -> None:
        self._fetching = fetching
        self._ways = ways
        self._arriving = arriving
        self._readiness = readiness
        self._receiving = receiving
        self._progress = progress
        self._containers = containers

    async def run(self, moving: Moving) -> None:
        """Until the data is here. Raises what keeps it from that; the same call again begins again."""
        proof = self._arriving.landing.may_receive(moving)
        await self._receiving.begin(moving)
        await self._stopped(moving.service)
        drop = () if self._arriving.landing.book(moving).placing else await self._fetched(moving, proof)
        await self._receiving.forget(moving.service)
        self._progress.step(moving, "take in", "the data takes its place")
        await self._arriving.take_in(moving, proof, None, drop)
        self._progress.end(moving)

    async def _stopped(self, service: str) -> None:
        """A service that is restored where it ran is stopped, as it is not wanted before its data is here."""
        await self._containers.look()
        while any(one.running for one in self._containers.of(service)):
            await asyncio.sleep(STOPS_S)
            await self._containers.look()

    async def _fetched(self, moving: Moving, proof: Receivable) -> tuple[str, ...]:
        """The names in it that are no data."""
        service, digest = moving.service, moving.move.backup
        self._progress.step(moving, "restore", f"backup {digest[:16]} is fetched")
        found = await self._fetching.named(service, digest)
        await self._ways.clear(service)
        place = await asyncio.to_thread(self._arriving.landing.place, proof, False)
        tell = self._progress.telling(moving)
        unpacked = await self._fetching.unpack(found, moving.move.key.hex(), place.path, tell, place="move-in")
        await self._readiness.prepare(moving)
        return await self._ways.load(proof, place.path, unpacked.header)
