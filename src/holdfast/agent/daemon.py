"""The agent as a process: runs until told to stop, says that it lives, and leaves within five seconds."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

from holdfast.agent.agent import Agent
from holdfast.errors import HoldfastError

RUNTIME_S = 1.0
QUIET_S = 2.5  # for what is under way; it is journaled, so whoever starts next goes on with it

Notify = Callable[[str], None]


async def live(
    agent: Agent, others: Callable[[], list[Awaitable[None]]], notify: Notify, watchdog_s: float | None
) -> bool:
    """True if nothing was under way when it ended. `others` run beside the agent: its listener, if it has one."""
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    tasks = [asyncio.ensure_future(agent.run()), *(asyncio.ensure_future(other) for other in others())]
    if watchdog_s:
        tasks.append(asyncio.ensure_future(_bark(notify, watchdog_s / 3)))
    stop: asyncio.Task[bool] = asyncio.ensure_future(told.wait())
    notify("READY=1")
    agent.world.say("started", {"node": agent.me.node, "accepted": agent.accepting.seen.number})
    try:
        await asyncio.wait([stop, *tasks], return_when=asyncio.FIRST_COMPLETED)
        notify("STOPPING=1")
        for task in tasks:
            if task.done():
                task.result()  # nobody of them ends by itself, but by an error: it is the process's error
        return await agent.lanes.quiet(QUIET_S)
    finally:
        stop.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.wait([stop, *tasks], timeout=1.0)
        await agent.world.link.close()
        with suppress(HoldfastError, OSError, TimeoutError):  # containers have keepers of their own, and run on
            async with asyncio.timeout(RUNTIME_S):
                await agent.world.runtime.close()
        agent.world.say("stopped", {})


async def _bark(notify: Notify, every_s: float) -> None:
    while True:
        notify("WATCHDOG=1")
        await asyncio.sleep(every_s)
