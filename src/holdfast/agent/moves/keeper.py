"""Keep the moves of this node going: those away from it, those to it, and those that begin with a backup."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from holdfast.agent.keeper import Revision
from holdfast.agent.keeping import Keeping
from holdfast.agent.moves.declared import Moving
from holdfast.agent.moves.progress import MoveProgress
from holdfast.agent.moves.section import MovesReport, Section
from holdfast.agent.moves.works import Key, Work, Works
from holdfast.errors import Failed, HoldfastError

AGAIN_S, AGAIN_S_MAX = 1.0, 10.0  # after trouble
TICK_S = 60.0
TROUBLE, BARE = "move_waits", "no_data_yet"


class Moves:
    """`report` is called when its section changed."""

    name = "moves"

    def __init__(
        self,
        *,
        works: Works,
        section: Section,
        progress: MoveProgress,
        keeping: Keeping,
        report: Callable[[], None],
        node: str,
    ) -> None:
        self._works = works
        self._state = section
        self._progress = progress
        self._keeping = keeping
        self._report = report
        self._node = node
        self._bell = asyncio.Event()
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._section = MovesReport()

    def follow(self, revision: Revision) -> None:
        """Before the keeper of the services."""
        self._works.follow(revision)
        self._bell.set()

    def is_sure(self) -> bool:
        """Whether this node knows what it handed over: only then services with data start after a boot."""
        return self._works.is_sure()

    def section(self) -> MovesReport:
        return self._section

    def show(self) -> None:
        """Something that is reported may have changed."""
        section = self._state.now()
        if section != self._section:
            self._tell_bare(self._section.bare, section.bare)
            self._section = section
            self._report()

    def _tell_bare(self, before: Collection[str], now: Collection[str]) -> None:
        for service in set(before) - set(now):
            self._keeping.findings.clear(BARE, f"service.{service}")
        for service in now:
            self._keeping.findings.add(
                BARE,
                f"this machine took the place of another one and has no data of {service}, so {service} is not started",
                f"holdfast migrate --all --from {self._node} --to {self._node}",
                f"service.{service}",
            )

    async def run(self) -> None:
        try:
            while True:
                self._bell.clear()
                self._turn()
                self.show()
                with suppress(TimeoutError):
                    async with asyncio.timeout(TICK_S):
                        await self._bell.wait()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _turn(self) -> None:
        """One task for each thing to do; what another revision ended is over before something else of its service
        begins."""
        wanted = self._works.wanted()
        ending: dict[str, list[asyncio.Task[None]]] = {}
        for key in self._tasks.keys() - wanted.keys():
            ended = self._tasks.pop(key)
            ended.cancel()
            ending.setdefault(key[0], []).append(ended)
        self._works.release()
        for name in set(self._works.services()) - {key[0] for key in wanted}:
            self._keeping.findings.clear(TROUBLE, f"service.{name}")
        for key, (moving, work) in wanted.items():
            if key not in self._tasks:
                after = ending.get(key[0], [])
                self._tasks[key] = asyncio.ensure_future(self._keep_on(key[0], moving, work, after))

    async def _keep_on(
        self, service: str, moving: Moving | None, work: Work, after: Sequence[asyncio.Task[None]]
    ) -> None:
        pause_s, address = AGAIN_S, f"service.{service}"
        if after:
            await asyncio.wait(after)
        while True:
            try:
                await work()
                break
            except HoldfastError as trouble:
                self._met(moving, trouble, address)
            except OSError as trouble:
                again = "wait: it is tried again; if it stays, look at the disk of this node (`df -h` shows its room)"
                self._met(moving, Failed(f"{address}: {trouble}", remedy=again, code="move"), address)
            except Exception as mistake:
                self._keeping.mistake(mistake, at=address)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, AGAIN_S_MAX)
        self._keeping.findings.clear(TROUBLE, address)
        self._keeping.recovered(address)
        self._bell.set()

    def _met(self, moving: Moving | None, trouble: HoldfastError, address: str) -> None:
        if moving is not None:
            self._progress.met(moving, trouble)
        self._keeping.findings.add_trouble(TROUBLE, trouble, address)
