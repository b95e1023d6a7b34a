"""Streams that operators ordered: relayed by the hub, encrypted against it, bounded in number. One task each.

An order opens a stream once; it runs as long as the caller listens. Its content is not written down, and a stream that
a crash cuts is not resumed: the caller learns that it was cut and asks again.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from typing import Any

from holdfast.agent.orders.log_feed import LogFeed
from holdfast.errors import Conflict, HoldfastError, Limited
from holdfast.model.certificate import Issued
from holdfast.model.order import VerifiedOrder
from holdfast.model.stream import ALIVE_S, SILENT_S, Alive, Ended, Frame
from holdfast.ports.clock import Clock
from holdfast.ports.runtime import Runtime
from holdfast.ports.stream_link import Channel, NodeStreams, StreamCut
from holdfast.wire import stream as wire

STREAMS_MAX = 8
FRAMES_WAITING = 64
BATCH_CHARS = 32 * 1024  # lines that wait for the same moment go together

Say = Callable[[str, dict[str, object]], None]


class Streams:
    """`shown` gives the certificate that this node's listener shows, or would show if it had one."""

    def __init__(
        self, link: NodeStreams, runtime: Runtime, shown: Callable[[], Issued], clock: Clock, say: Say
    ) -> None:
        self._link = link
        self._runtime = runtime
        self._shown = shown
        self._clock = clock
        self._say = say
        self._open: set[asyncio.Task[None]] = set()
        self._kinds: Mapping[str, Callable[[VerifiedOrder], Awaitable[str]]] = {"logs": self._logs}

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(self._kinds)

    @property
    def open(self) -> int:
        return len(self._open)

    async def start(self, proof: VerifiedOrder) -> str:
        """Answers at once, in a sentence; the stream goes on in its own task. Raises HoldfastError if it will not."""
        if len(self._open) >= STREAMS_MAX:
            raise Limited(
                f"{STREAMS_MAX} streams are open on {proof.order.node} already",
                remedy="end one of them (Ctrl-C where it runs), then repeat the command",
            )
        return await self._kinds[proof.order.action](proof)

    async def close(self) -> None:
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    # ---- logs

    async def _logs(self, proof: VerifiedOrder) -> str:
        order = proof.order
        service = order.target.removeprefix("service.")
        wanted = wire.logs_wanted(proof.arguments)
        feed = LogFeed(self._runtime, order.fleet, service, wanted, self._clock.now_s())
        first = await feed.containers()
        if not first:
            named = f"{service}/{wanted.component}" if wanted.component else service
            raise Conflict(
                f"no container of {named} is on {order.node}",
                remedy=f"`holdfast ps` shows what runs where; `holdfast deploy {service}` starts it",
                code="not_running",
            )
        shown = self._shown()
        self._spawn(self._live(order.id, shown, wanted.caller, lambda: feed.frames(first)))
        return f"the logs of {len(first)} container{'s' * (len(first) != 1)} follow"

    # ---- one stream

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _live(
        self, order: str, shown: Issued, caller: bytes, frames: Callable[[], AsyncGenerator[Frame, None]]
    ) -> None:
        try:
            channel = await self._link.answer(order, shown, caller)
        except HoldfastError as trouble:
            self._say("stream_failed", {"order": order, "code": trouble.code, "message": trouble.message})
            return
        try:
            await converse(channel, frames())
        except HoldfastError as trouble:
            self._say("stream_ended", {"order": order, "code": trouble.code, "message": trouble.message})
        finally:
            with suppress(HoldfastError):
                await channel.close()


async def converse(channel: Channel, frames: AsyncGenerator[Frame, None]) -> None:
    """Send all frames to the caller, until there are no more or the caller leaves."""
    telling = asyncio.ensure_future(_tell(channel, frames))
    hearing = asyncio.ensure_future(_hear(channel))
    try:
        await asyncio.wait({telling, hearing}, return_when=asyncio.FIRST_COMPLETED)
        if telling.done():
            telling.result()
        else:
            hearing.result()
    finally:
        for task in (telling, hearing):
            task.cancel()
        await asyncio.gather(telling, hearing, return_exceptions=True)


async def _tell(channel: Channel, frames: AsyncGenerator[Frame, None]) -> None:
    """A slow reader makes `write` wait, then the queue, then the source of the frames: nothing grows."""
    waiting: asyncio.Queue[Frame] = asyncio.Queue(FRAMES_WAITING)
    filling = asyncio.ensure_future(_fill(waiting, frames))
    try:
        while True:
            batch = await _batch(waiting)
            await channel.write(wire.written(batch))
            if isinstance(batch[-1], Ended):
                return
    finally:
        filling.cancel()
        await asyncio.gather(filling, return_exceptions=True)


async def _fill(waiting: "asyncio.Queue[Frame]", frames: AsyncGenerator[Frame, None]) -> None:
    last = Ended()
    try:
        async with aclosing(frames) as told:
            async for frame in told:
                await waiting.put(frame)
    except HoldfastError as trouble:
        last = Ended(trouble.code, trouble.message, trouble.remedy)
    except Exception as trouble:  # a mistake of ours: the caller would wait for ever
        last = Ended(
            "internal_error", f"{type(trouble).__name__}: {trouble}"[:500], "report this, with the agent's log"
        )
    await waiting.put(last)


async def _batch(waiting: "asyncio.Queue[Frame]") -> list[Frame]:
    """What is there goes together; nothing is waited for that is not there."""
    try:
        async with asyncio.timeout(ALIVE_S):
            batch = [await waiting.get()]
    except TimeoutError:
        return [Alive()]
    size_chars = 0
    while size_chars < BATCH_CHARS and not waiting.empty():
        batch.append(waiting.get_nowait())
        size_chars += len(getattr(batch[-1], "text", ""))
    return batch


async def _hear(channel: Channel) -> None:
    """Until the caller leaves. It only sends keep-alives; without one for SILENT_S it is gone."""
    frames = wire.Frames()
    while True:
        try:
            async with asyncio.timeout(SILENT_S):
                said = await channel.read()
        except TimeoutError:
            raise StreamCut(f"the caller sent nothing for {SILENT_S:.0f} s", remedy="repeat the command") from None
        if not said:
            return
        frames.feed(said)
