"""The log lines of one service: first those that are there, in order of time, then new ones as they are written.

A replaced container is followed by its successor; one that was started again goes on where it was. No line is sent
twice: where the two readings of a log meet, lines are counted, because many carry the same time (podman writes it in
whole seconds).
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, suppress
from heapq import heappop, heappush
from math import floor

from holdfast.errors import Failed, HoldfastError, TryLater
from holdfast.model.container import LABEL_FLEET, LABEL_INFRASTRUCTURE, Container
from holdfast.model.stream import CaughtUp, Frame, LogsWanted, StreamedLine
from holdfast.ports.runtime import LogLine, Runtime
from holdfast.wire.stream import clipped

WAITING_LINES = 256  # read and not sent yet, of all containers together
# A container that comes is read from its beginning, so that looking late delays and loses nothing. `changed` is not
# used: each event of the runtime is delivered once, and the keeper of the services needs it.
LOOK_S = 1.0
PAUSE_S = 0.1  # between two looks, however much ends
RECOUNTED_MAX = 10_000  # lines of one second; each is held, clipped, while they are compared


class Mark:
    """How far a container's log was sent: up to this time, and the number of lines of exactly that time."""

    def __init__(self, at_s: float, is_cut: bool = False) -> None:
        self.at_s = at_s
        self.lines = 0
        self.is_cut = is_cut  # by a tail: of that time perhaps only the last lines were sent
        self._texts: list[str] = []

    def note(self, line: LogLine) -> None:
        if line.at_s < self.at_s:
            return
        if line.at_s > self.at_s:
            self.is_cut = self.is_cut and self.lines == 0
            self.at_s, self.lines, self._texts = line.at_s, 0, []
        self.lines += 1
        if self.is_cut and len(self._texts) < RECOUNTED_MAX:
            self._texts.append(clipped(line.text))

    def recount(self, texts: Sequence[str]) -> None:
        """All lines of that time: those before the sent ones count as sent too."""
        size = len(self._texts)
        ends = [end for end in range(len(texts), size - 1, -1) if list(texts[end - size : end]) == self._texts]
        self.lines = ends[0] if ends else self.lines
        self.is_cut, self._texts = False, []


class Reading:
    """One container under observation: which run of it is being read, by which task."""

    def __init__(self, container: Container, mark: Mark) -> None:
        self.container = container
        self.mark = mark
        self.run_s = -1.0  # `started_s` of the run that was read last
        self.task: asyncio.Task[None] | None = None

    def is_due(self) -> bool:
        """No task reads it, and it runs or has written lines since."""
        is_idle = self.task is None or self.task.done()
        return is_idle and (self.container.running or self.container.started_s != self.run_s)


class LogFeed:
    def __init__(self, runtime: Runtime, fleet: str, service: str, wanted: LogsWanted, now_s: float) -> None:
        self._runtime = runtime
        self._fleet = fleet
        self._service = service
        self._wanted = wanted
        self._since_s = max(wanted.since_s, now_s - wanted.ago_s if wanted.ago_s else 0.0)
        self._readings: dict[str, Reading] = {}
        self._lines: asyncio.Queue[StreamedLine] = asyncio.Queue(WAITING_LINES)
        self._ended = asyncio.Event()  # a container ended: look at once for its successor

    async def containers(self) -> list[Container]:
        found = [each for each in await self._runtime.containers() if self._is_wanted(each)]
        return sorted(found, key=lambda each: (each.component, each.replica, each.created_s, each.id))

    def _is_wanted(self, container: Container) -> bool:
        labels = container.labels
        here = labels.get(LABEL_FLEET) == self._fleet and container.service == self._service
        return here and not labels.get(LABEL_INFRASTRUCTURE) and self._wanted.component in ("", container.component)

    async def frames(self, first: Sequence[Container]) -> AsyncGenerator[Frame, None]:
        """`first` are the present containers. Without `follow` it ends when all past lines were sent."""
        for container in first:
            mark = Mark(floor(self._since_s), is_cut=self._wanted.tail is not None)
            self._readings[container.id] = Reading(container, mark)
        async with aclosing(self._backlog(first)) as told:
            async for said in told:
                yield said
        yield CaughtUp()
        if self._wanted.follow:
            async with aclosing(self._live()) as told:
                async for said in told:
                    yield said

    # ---- past lines

    async def _backlog(self, first: Sequence[Container]) -> AsyncGenerator[StreamedLine, None]:
        sources = [self._told(each) for each in first]
        async with aclosing(merged(sources)) as told:
            async for index, line in told:
                if line.at_s < self._since_s:  # a runtime may count in whole seconds
                    continue
                reading = self._readings[first[index].id]
                reading.mark.note(line)
                if self._wanted.tail != 0:
                    yield _said(reading.container, line)
        if self._wanted.follow:
            for reading in list(self._readings.values()):
                await self._recount(reading.mark, reading.container)

    async def _recount(self, mark: Mark, container: Container) -> None:
        if mark.is_cut and mark.lines:
            with suppress(Failed):
                texts = await self._texts_at(container.id, mark.at_s)
                if len(texts) < RECOUNTED_MAX:  # else a few are sent twice
                    mark.recount(texts)

    async def _texts_at(self, id: str, at_s: float) -> list[str]:
        """Lines of one time; a container may write more in it than this agent can hold."""
        texts: list[str] = []
        async with aclosing(self._runtime.logs(id, None, at_s, False)) as lines:  # type: ignore[type-var]
            async for line in lines:
                if line.at_s > at_s or len(texts) >= RECOUNTED_MAX:
                    break
                if line.at_s == at_s:
                    texts.append(clipped(line.text))
        return texts

    async def _told(self, container: Container) -> AsyncGenerator[LogLine, None]:
        with suppress(Failed):  # it was removed meanwhile: the others are still read
            tail = self._wanted.tail if self._wanted.tail != 0 else 1  # not sent, but marked: following begins after it
            async for line in self._runtime.logs(container.id, tail, self._since_s, False):
                yield line

    # ---- new lines

    async def _live(self) -> AsyncGenerator[StreamedLine, None]:
        looking = asyncio.ensure_future(self._keep_looking())
        try:
            while True:
                taking = asyncio.ensure_future(self._lines.get())
                try:
                    await asyncio.wait({taking, looking}, return_when=asyncio.FIRST_COMPLETED)
                    if not taking.done():
                        looking.result()  # it only ends by failing
                    said = taking.result()
                finally:
                    taking.cancel()
                yield said
        finally:
            tasks = [looking, *(each.task for each in self._readings.values() if each.task is not None)]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_looking(self) -> None:
        while True:
            self._ended.clear()
            with suppress(TryLater):  # the runtime is away; the keeper of the services reports it
                self._look(await self.containers())
            await asyncio.sleep(PAUSE_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._ended.wait()

    def _look(self, here: Iterable[Container]) -> None:
        seen = set()
        for container in here:
            seen.add(container.id)
            reading = self._readings.setdefault(container.id, Reading(container, Mark(0.0)))
            reading.container = container
            if reading.is_due():
                reading.run_s = container.started_s
                reading.task = asyncio.ensure_future(self._read(reading))
        for gone in self._readings.keys() - seen:
            task = self._readings[gone].task
            if task is None or task.done():  # else it is first sent to its end
                del self._readings[gone]

    async def _read(self, reading: Reading) -> None:
        """From its mark on, until this run of it ends. The next look meets an error again and reports it."""
        mark = reading.mark
        from_s, again = mark.at_s, mark.lines
        try:
            async for line in self._runtime.logs(reading.container.id, None, from_s, True):
                if line.at_s < from_s:
                    continue
                if line.at_s == from_s and again > 0:
                    again -= 1
                    continue
                await self._lines.put(_said(reading.container, line))
                mark.note(line)
            self._ended.set()
        except HoldfastError:
            reading.run_s = -1.0


def _said(container: Container, line: LogLine) -> StreamedLine:
    return StreamedLine(container.id, container.component, container.replica, line.at_s, line.error, clipped(line.text))


async def merged(sources: Sequence[AsyncGenerator[LogLine, None]]) -> AsyncGenerator[tuple[int, LogLine], None]:
    """All of them in order of time, each line with the number of its source; holds one line of each."""
    heads: list[tuple[float, int, LogLine]] = []

    async def more(index: int) -> None:
        line = await anext(sources[index], None)
        if line is not None:
            heappush(heads, (line.at_s, index, line))

    try:
        for index in range(len(sources)):
            await more(index)
        while heads:
            _, index, line = heappop(heads)
            yield index, line
            await more(index)
    finally:
        for source in sources:  # a connection each
            await source.aclose()
