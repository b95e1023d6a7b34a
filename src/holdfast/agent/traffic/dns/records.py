"""Keep the records of this node's DNS server as the signed manifest says (stage 5 of T-06, at its own pace).

A server that hangs or died is started again; records that differ are put right. Both are findings.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress

from holdfast.agent.findings import Findings
from holdfast.agent.keeper import Say
from holdfast.errors import HoldfastError, TryLater
from holdfast.model.report import NamesState
from holdfast.ports.clock import Clock
from holdfast.ports.name_server import NameServer, Serving
from holdfast.reconcile import dns_records

LOOK_S = 3.0  # a frozen server is known after this and the two seconds in which it did not answer
AGAIN_S = 1.0  # after trouble that may pass
IDLE_S = 60.0  # where no server is wanted
DOWN, DIFFERS = "dns_down", "dns_differs"
NAMED = 5  # in a message
MOVING_S = 0.2  # between two looks while a service is on its way to another node

Answers = Callable[[str, str], Awaitable[bool]]  # name, address


class DnsRecords:
    """`changed` is called when `state` changes."""

    def __init__(
        self,
        server: NameServer,
        findings: Findings,
        clock: Clock,
        say: Say,
        changed: Callable[[], None],
        answers: Answers | None = None,
    ) -> None:
        """`answers`: whether a name is served at an address; without it a moved name is taken over at once."""
        self._server = server
        self._findings = findings
        self._clock = clock
        self._say = say
        self._changed = changed
        self._serving: Serving | None = None
        self._wanted: dict[str, str] = {}
        self._observes = False
        self._is_told = False  # whether there is a server here at all; before that nothing is touched
        self._followed: Serving | None = None
        self._written: dict[str, str] | None = None  # None: since this process began, nothing was looked at
        self._lingering: dict[str, dns_records.Lingering] = {}
        self._answers = answers
        # Names on their way, and to where → from when on it counts that the old place is silent, too.
        self._moving: dict[tuple[str, str], float] = {}
        self._state: NamesState | None = None
        self._rest_s = LOOK_S
        self._bell = asyncio.Event()
        self._turn = asyncio.Lock()

    # ---- what others say

    def follow(self, serving: Serving | None, wanted: Mapping[str, str], observes: bool = False) -> None:
        """A revision was accepted, or the agent started with one. `serving` None: no DNS server on this node. In
        observe mode differences are reported and not corrected; the server itself still runs."""
        before = (self._is_told, self._serving, self._wanted, self._observes)
        self._is_told = True
        self._serving, self._wanted, self._observes = serving, dict(wanted) if serving else {}, observes
        if before != (True, self._serving, self._wanted, self._observes):
            self._reckon()
            self.wake()

    def withdraw(self, gone: Collection[str]) -> None:
        """These names left the manifest, and no edge leads to them any more: they need not wait any longer.
        Names that are wanted, now or again, stay."""
        now_s = self._clock.monotonic_s()
        if dns_records.staying(self._lingering, now_s).keys() & set(gone):  # the hub repeats this hint
            self._lingering = dns_records.withdrawn(self._lingering, gone, now_s)
            self.wake()

    def wake(self) -> None:
        self._bell.set()

    def state(self) -> NamesState | None:
        return self._state

    # ---- the loop

    async def run(self) -> None:
        """Until cancelled. Trouble is a finding, and tried again."""
        while True:
            self._bell.clear()
            await self.look()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._rest_s):
                    await self._bell.wait()

    async def look(self) -> bool:
        """One pass: True if the server has what it must have."""
        async with self._turn:
            self._rest_s = LOOK_S if self._serving is not None else IDLE_S
            try:
                await self._keep()
            except HoldfastError as trouble:
                self._tell_down(trouble)
                if isinstance(trouble, TryLater):
                    self._rest_s = AGAIN_S
                return False
            self._findings.clear(DOWN)
            return True

    async def _keep(self) -> None:
        if not self._is_told:
            return
        serving = self._serving
        if serving is None:
            await self._end()
            return
        served = await self._served(serving)
        if self._written is None:
            # Of a former life of this agent, which let go of nothing too early either.
            self._written = dict(served)
            self._reckon()
        await self._put_right(served)

    async def _end(self) -> None:
        await self._server.follow(None)
        self._followed, self._written, self._lingering = None, {}, {}
        self._findings.clear(DIFFERS)
        self._show(None)

    async def _served(self, serving: Serving) -> Mapping[str, str]:
        """Asked before anything is repaired, so that a difference is reported and not only repaired."""
        if self._followed == serving:
            try:
                served = await self._server.names()
                await self._server.follow(serving)  # its files may be gone though it still answers
                return served
            except TryLater as trouble:
                self._tell_down(trouble)
        self._followed = None
        await self._server.follow(serving)
        self._followed = serving
        return await self._server.names()

    async def _put_right(self, served: Mapping[str, str]) -> None:
        """A pass works on what was wanted when it began; a later change starts another pass."""
        assert self._written is not None
        written = self._written
        wanted, now_s = await self._arrived(self._wanted, written), self._clock.monotonic_s()
        change = dns_records.changes(wanted, served, written, dns_records.staying(self._lingering, now_s))
        self._tell_differing(served, written, change)
        if change and not self._observes:
            await self._server.apply(change.records)
            self._say("dns_applied", {"put": len(change.put), "deleted": len(change.deleted)})
            self._written = dict(change.records)
            self._lingering = {name: one for name, one in self._lingering.items() if name in self._written}
            self._reckon()
            served = change.records
        # Names that only linger are counted and not compared: whatever waits for applied names ignores them.
        applied = {name: address for name, address in served.items() if name not in self._lingering}
        self._show(NamesState(dns_records.digest(applied), len(served), await self._server.version()))

    async def _arrived(self, wanted: Mapping[str, str], written: Mapping[str, str]) -> Mapping[str, str]:
        """A name that moves points to its old node until the new one answers: a deployment takes time and may fail. If
        neither answers for long, the revision decides."""
        moved = dns_records.moved(wanted, written)
        now_s = self._clock.monotonic_s()
        ways = [(name, wanted[name]) for name in moved]
        self._moving = {way: self._moving.get(way, now_s + dns_records.LINGER_S) for way in ways}
        if self._answers is None or not moved or self._observes:
            return wanted
        found = await asyncio.gather(*(self._answers(name, wanted[name]) for name in sorted(moved)))
        waiting = [name for name, here in zip(sorted(moved), found, strict=True) if not here]
        late = [name for name in waiting if now_s >= self._moving[name, wanted[name]]]
        still = await asyncio.gather(*(self._answers(name, moved[name]) for name in late))
        given_up = {name for name, there in zip(late, still, strict=True) if not there}
        held = {name: moved[name] for name in waiting if name not in given_up}
        if held:
            self._rest_s = min(self._rest_s, MOVING_S)
        return {**wanted, **held}

    def _reckon(self) -> None:
        now_s = self._clock.monotonic_s()
        self._lingering = dns_records.lingering(self._written or {}, self._wanted, self._lingering, now_s)

    # ---- telling

    def _tell_down(self, trouble: HoldfastError) -> None:
        if self._findings.add_trouble(DOWN, trouble):
            self._say(DOWN, {"message": trouble.message, "remedy": trouble.remedy})
        self._show(NamesState(trouble=trouble.message))

    def _tell_differing(
        self, served: Mapping[str, str], written: Mapping[str, str], change: dns_records.Changes
    ) -> None:
        """Records that are not yet those of the newest revision are not a difference; records that differ from what was
        written are. In observe mode both are. The finding stays until a pass finds no difference."""
        expected = change.records if self._observes else written
        names_differ = sorted(
            name for name in served.keys() | expected.keys() if served.get(name) != expected.get(name)
        )
        if not names_differ:
            self._findings.clear(DIFFERS)
            return
        said = ", ".join(names_differ[:NAMED]) + (" and more" if len(names_differ) > NAMED else "")
        if self._observes:
            remedy = 'set reconcile = "converge" for this node in fleet.toml and apply'
        else:
            remedy = "the agent corrected it; find out what changes the files or processes of this node's DNS server"
        message = f"{len(names_differ)} internal names were not answered as signed: {said}"
        if self._findings.add(DIFFERS, message, remedy):
            self._say(DIFFERS, {"message": message})
            self._changed()

    def _show(self, state: NamesState | None) -> None:
        if state != self._state:
            self._state = state
            self._changed()
