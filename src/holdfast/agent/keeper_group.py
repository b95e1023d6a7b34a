"""All keepers of this node together: they run, follow a revision, and settle. Each on its own: trouble of one with its
part of a revision keeps no other from following it, nor the agent from checking in."""

import asyncio
from collections.abc import Callable

from holdfast.agent.acceptance.accept import Accepting
from holdfast.agent.keeper import Follower, Keeper, Revision, Settler
from holdfast.agent.keeping import Keeping
from holdfast.errors import HoldfastError


class KeeperGroup:
    def __init__(
        self,
        *,
        every: tuple[Keeper, ...],
        followers: tuple[Follower, ...],
        settlers: tuple[Settler, ...],
        accepting: Accepting,
        effective: Callable[[Revision], Revision],
        keeping: Keeping,
    ) -> None:
        """`effective` answers what of a revision can be followed now."""
        self.every = every
        self.is_behind = False  # a keeper could not follow the revision in force
        self._followers = followers
        self._settlers = settlers
        self._accepting = accepting
        self._effective = effective
        self._keeping = keeping

    async def run(self) -> None:
        """Until cancelled."""
        kept = [asyncio.ensure_future(self._keeping.keep(keeper.run)) for keeper in self.every]
        try:
            await asyncio.Event().wait()
        finally:
            for task in kept:
                task.cancel()
            await asyncio.wait(kept)

    def follow(self) -> None:
        """After trouble of one, all follow again at the next turn, as a keeper may use what another made."""
        troubles = []
        for keeper in self._followers:
            try:
                if (revision := self._accepting.revision()) is not None:
                    keeper.follow(self._effective(revision))
            except HoldfastError as trouble:
                troubles.append(trouble)
        self.is_behind = bool(troubles)
        if troubles:
            self._keeping.findings.add_trouble("certificates", troubles[0])
        else:
            self._keeping.findings.clear("certificates")

    async def settled(self) -> None:
        for keeper in self._settlers:
            await keeper.settled()
