"""Data that services left behind on this node: found by the stones of revisions, measured, told; never taken away."""

import asyncio
from collections.abc import Callable

from holdfast.agent.acceptance.accept import Accepting
from holdfast.agent.world import World
from holdfast.model.report import RetiredData

LOOK_S = 600.0  # so often sizes are looked up


class Retired:
    """`due`: to be looked at now, whenever it was last."""

    def __init__(self, world: World, accepting: Accepting, changed: Callable[[], None]) -> None:
        self._world = world
        self._accepting = accepting
        self._changed = changed
        self._next_s = 0.0
        self.due = True
        self.found: tuple[RetiredData, ...] = ()

    async def look(self) -> None:
        now_s = self._world.clock.monotonic_s()
        if now_s < self._next_s and not self.due:
            return
        self._next_s, self.due = now_s + LOOK_S, False
        found = await asyncio.get_running_loop().run_in_executor(None, self._left_behind)
        if found != self.found:
            self.found = found
            self._changed()

    def purged(self, name: str) -> None:
        """Told with the result of the order: whoever reads that asks next what is left."""
        self.found = tuple(one for one in self.found if one.name != name)
        self._changed()

    def _left_behind(self) -> tuple[RetiredData, ...]:
        manifest = self._accepting.in_force
        if manifest is None:
            return ()
        stones = {**(self._accepting.newest.stones if self._accepting.newest else {}), **manifest.retired}
        known = {(one.name, one.removed_in) for one in self.found}
        found = []
        for counted in self._world.storage.directories():
            address = f"service.{counted.name}"
            if address not in manifest.services and address in stones:
                removed_in = stones[address].removed_in
                is_new = (counted.name, removed_in) not in known  # figures of when it ran are not those of what is left
                one = (self._world.storage.directory(counted.name) if is_new else None) or counted
                found.append(RetiredData(one.name, one.path, one.size_bytes, one.files, removed_in))
        return tuple(found)
