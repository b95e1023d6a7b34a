"""The agent as a service of the machine: started at boot, brought back, watched, bounded (H-16)."""

import asyncio
import configparser
import time
from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.agent import daemon
from holdfast.agent.agent import Agent
from holdfast.errors import Failed
from tests.fleets.agents import Lone, PaperHub
from tests.fleets.virtual import VirtualLoop
from tests.scenarios.test_agent_orders import CANDIDATES

UNIT = Path(__file__).parents[3] / "deploy" / "systemd" / "holdfast-agent.service"


def unit() -> configparser.RawConfigParser:
    found = configparser.RawConfigParser(strict=False)  # a unit may repeat a key
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string(UNIT.read_text())
    return found


def test_systemd_starts_restarts_watches_and_bounds_it() -> None:
    """H-16: at boot, `Restart=always`, killed and restarted when it hangs, logs to the journal, limited."""
    found = unit()
    service = dict(found["Service"])
    assert found["Install"]["WantedBy"] == "multi-user.target"
    assert service["Restart"] == "always" and service["Type"] == "notify"
    assert int(service["WatchdogSec"]) <= 60
    assert "MemoryMax" in service
    assert not {"StandardOutput", "StandardError", "WatchdogSignal"} & set(service), "the journal, and a kill"
    assert " agent run " in service["ExecStart"]


def test_the_unit_leaves_containers_alone_and_sees_whether_they_live() -> None:
    """I-01, H-12: its end is not theirs; podman runs outside of it, and no process is hidden from it."""
    found = unit()
    service = dict(found["Service"])
    assert service["KillMode"] == "process" and service["RuntimeDirectoryPreserve"] == "yes", "secrets stay mounted"
    assert "--podman-socket /run/podman/podman.sock" in service["ExecStart"]
    assert {"podman.socket"} <= {*found["Unit"]["Wants"].split()} & {*found["Unit"]["After"].split()}
    assert service["ProtectProc"] == "default"
    assert {"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_KILL"} <= {*service["CapabilityBoundingSet"].split()}
    assert service["SystemCallFilter"] == "@chown @setuid", "after all groups that are taken away"


def test_a_live_agent_says_so_three_times_in_each_watchdog_period() -> None:
    """H-16: the watchdog has something to hear; an agent that hangs falls silent, for it is the same loop."""
    heard: list[tuple[float, str]] = []
    loop = VirtualLoop()
    loop.add_signal_handler = lambda *_: None  # type: ignore[method-assign]

    async def main() -> None:
        agent: Agent = Lone(loop, PaperHub(*CANDIDATES)).start()
        living = asyncio.ensure_future(
            daemon.live(agent, (), lambda word: heard.append((loop.time(), word)), 60.0, lambda event, fields: None)
        )
        await asyncio.sleep(600)
        living.cancel()
        await asyncio.wait([living])

    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
    assert heard[0] == (0.0, "READY=1")
    barks = [at_s for at_s, word in heard if word == "WATCHDOG=1"]
    assert len(barks) >= 30 and max(b - a for a, b in pairwise(barks)) <= 20.0


@pytest.mark.parametrize(("losses", "ends"), [(3, True), (daemon.CANCELS_MAX + 1, False)])
def test_a_task_that_loses_a_cancellation_does_not_keep_the_process(losses: int, ends: bool) -> None:
    lost: list[int] = []

    async def stubborn() -> None:
        while len(lost) < losses:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                lost.append(1)

    async def main() -> None:
        task = asyncio.ensure_future(stubborn())
        await asyncio.sleep(0)
        assert await daemon.cancel_rest() == task.done() == ends
        while not task.done():
            task.cancel()
            await asyncio.sleep(0)

    asyncio.run(main())
    assert len(lost) == losses


def test_a_task_that_begins_while_others_are_cancelled_does_not_keep_the_process() -> None:
    late: list[asyncio.Task[None]] = []

    async def leaves_another() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            late.append(asyncio.ensure_future(asyncio.sleep(3600)))

    async def main() -> bool:
        left = asyncio.ensure_future(leaves_another())
        await asyncio.sleep(0)
        return await daemon.cancel_rest() and left.done() and late[0].done()

    assert asyncio.run(main())


def test_an_agent_that_ends_by_an_error_is_not_kept_by_a_task_that_loses_a_cancellation() -> None:
    began_s = time.monotonic()
    lost: list[int] = []

    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(20)
                return
            except asyncio.CancelledError:
                if lost:
                    raise
                lost.append(1)

    async def living() -> bool:
        kept = asyncio.ensure_future(stubborn())
        await asyncio.sleep(0)
        assert not kept.done()
        raise Failed("the journal is full", remedy="free space")

    with pytest.raises(Failed), asyncio.Runner() as runner:
        daemon.run(runner, living())
    assert lost and time.monotonic() - began_s < 15
