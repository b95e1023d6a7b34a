"""Containers that mount the data of a service. An order that moves the data works alone."""

from collections.abc import Sequence

from holdfast.agent.lanes import Lanes
from holdfast.errors import Conflict
from holdfast.gate.containers import MADE
from holdfast.ports.journal import Journal
from holdfast.ports.runtime import Runtime
from holdfast.ports.storage import Storage


class DataUsers:
    def __init__(self, storage: Storage, runtime: Runtime, journal: Journal, lanes: Lanes) -> None:
        self._storage = storage
        self._lanes = lanes
        self._runtime = runtime
        self._journal = journal

    async def refuse(self, name: str, done: str) -> None:
        """Also foreign containers count: what they write into deleted files would be lost."""
        self._raise(name, done, await self._of(name))

    async def refuse_foreign(self, name: str, done: str) -> None:
        """Those of this agent are stopped by the caller."""
        found = [one for one in await self._of(name) if self._journal.made_by(MADE + one) is None]
        self._raise(name, done, found)

    async def _of(self, name: str) -> Sequence[str]:
        await self._lanes.alone(name)
        found = self._storage.directory(name)
        return await self._runtime.users(found.path) if found is not None else ()

    def _raise(self, name: str, done: str, users: Sequence[str]) -> None:
        if users:
            raise Conflict(
                f"data.{name} is not {done}: these containers mount it: {', '.join(users[:5])}",
                remedy=f"remove them on the node, then order it again: `podman rm --force {users[0]}`",
                code="in_use",
            )
