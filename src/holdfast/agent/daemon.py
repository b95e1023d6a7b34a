"""The agent as a process: it runs until a signal, notifies the service manager, and ends within five seconds."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from holdfast.agent.agent import Agent
from holdfast.agent.keeper import Say
from holdfast.errors import HoldfastError

CLOSE_S = 1.0
CANCELS_MAX, AGAIN_S = 5, 0.2
QUIET_S = 2.5  # for work under way; it is journaled, so the next start goes on with it

Notify = Callable[[str], None]
Close = Callable[[], Awaitable[None]]


async def live(agent: Agent, closing: tuple[Close, ...], notify: Notify, watchdog_s: float | None, say: Say) -> bool:
    """True if nothing was under way when it ended. `closing` are called at the end: the hub's line, the runtime."""
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    tasks = [asyncio.ensure_future(agent.run())]
    if watchdog_s:
        tasks.append(asyncio.ensure_future(_bark(notify, watchdog_s / 3)))
    stop: asyncio.Task[bool] = asyncio.ensure_future(told.wait())
    notify("READY=1")
    say("started", {"node": agent.me.node, "accepted": agent.accepting.seen.number})
    try:
        await asyncio.wait([stop, *tasks], return_when=asyncio.FIRST_COMPLETED)
        notify("STOPPING=1")
        for task in tasks:
            if task.done():
                task.result()  # they end by an error only: it is the error of the process
        return await agent.lanes.quiet(QUIET_S)
    finally:
        stop.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.wait([stop, *tasks], timeout=1.0)
        for close in closing:
            with suppress(HoldfastError, OSError, TimeoutError):  # containers run on without the agent
                async with asyncio.timeout(CLOSE_S):
                    await close()
        say("stopped", {})


def run(runner: asyncio.Runner, living: Coroutine[Any, Any, bool]) -> bool:
    """True if nothing was under way and no task is left. After an error, too, tasks are cancelled until they end: the
    error of a process that does not end is not seen."""
    try:
        quiet = runner.run(living)
    except BaseException:
        runner.run(cancel_rest())
        raise
    return quiet and runner.run(cancel_rest())


async def cancel_rest() -> bool:
    """Every other task of this loop; True if all have ended. A task may lose a cancellation that comes with the event
    it waits for, or start another task at its end: they are cancelled again, because the end of the process would wait
    for them for ever."""
    for _ in range(CANCELS_MAX):
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if not left:
            return True
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=AGAIN_S)
    return not asyncio.all_tasks() - {asyncio.current_task()}


async def _bark(notify: Notify, every_s: float) -> None:
    while True:
        notify("WATCHDOG=1")
        await asyncio.sleep(every_s)
