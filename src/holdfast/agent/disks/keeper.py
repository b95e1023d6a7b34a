"""Look at the disks of this node every few seconds, and report those that fill up. Deletes nothing."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from holdfast.agent.findings import Findings
from holdfast.errors import HoldfastError
from holdfast.model.disk_room import DiskRoom
from holdfast.ports.journal import Facts
from holdfast.status import disks

LOOK_S = 10.0
FILLING = "disk_filling"
FACT = "disks/filling"

_names = msgspec.json.Decoder(frozenset[str]).decode


class Disks:
    """`look` may block; `report` is called when a finding began or ended."""

    name = "disks"

    def __init__(
        self,
        *,
        look: Callable[[], Sequence[DiskRoom]],
        facts: Facts,
        findings: Findings,
        report: Callable[[], None],
        node: str,
    ) -> None:
        self._look = look
        self._facts = facts
        self._findings = findings
        self._report = report
        self._node = node
        self._filling = _names(facts.fact(FACT) or b"[]")  # a restart forgets none that has not got enough room yet

    async def run(self) -> None:
        while True:
            rooms = await asyncio.get_running_loop().run_in_executor(None, self._look)
            self._judge(rooms)
            await asyncio.sleep(LOOK_S)

    def _judge(self, rooms: Sequence[DiskRoom]) -> None:
        found = {one.name: one for one in disks.filling(rooms, self._filling)}
        for one in found.values():
            remedy = disks.remedy(one.path, self._node)
            if self._findings.add(FILLING, one.message, remedy, self._address(one.name)):
                self._report()
        unseen = self._filling - {room.name for room in rooms}  # a disk that does not answer has not got room by that
        for name in self._filling - found.keys() - unseen:
            self._findings.clear(FILLING, self._address(name))
            self._report()
        now = unseen | found.keys()
        if now != self._filling:
            self._filling = now
            with suppress(HoldfastError):  # a disk that cannot be written is what this is about
                self._facts.set_aside(FACT, msgspec.json.encode(sorted(now)))

    def _address(self, name: str) -> str:
        return f"disk.{self._node}.{name}"
