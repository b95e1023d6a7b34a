"""Copies of a node's own files, which have private keys, are gone when its backup is over, however it ends (M-34)."""

import asyncio
import threading
from typing import Any, cast

import pytest

from holdfast.agent.backups.declared import Wanted
from holdfast.agent.backups.dumps.methods import Methods
from holdfast.model.fleet import Snapshot


class SlowFiles:
    """Copying takes until `may` is set."""

    def __init__(self) -> None:
        self.begun, self.may = threading.Event(), threading.Event()
        self.copies: list[str] = []

    def has_any(self) -> bool:
        return True

    def gather(self) -> str:
        self.begun.set()
        self.may.wait(10)
        self.copies.append("routes/shop")
        return "/copies"

    def clear(self) -> None:
        self.copies.clear()


def methods(own: SlowFiles) -> Methods:
    none = cast(Any, None)
    return Methods(
        door=none, containers=none, prober=none, storage=none, home="/h", own=own, hub=none, timeout_s=lambda: 1.0
    )


@pytest.mark.parametrize("when", ["while they are copied", "while they are archived", "never"])
def test_copies_are_gone_when_the_backup_is_over(when: str) -> None:
    async def story() -> None:
        own, archiving = SlowFiles(), asyncio.Event()

        async def backup() -> None:
            async with methods(own).taken(Wanted("node.w1", 0, (), Snapshot())) as taken:
                assert (taken.top, own.copies) == ("/copies", ["routes/shop"])
                archiving.set()
                await asyncio.sleep(10 if when != "never" else 0)

        work = asyncio.ensure_future(backup())
        await asyncio.to_thread(own.begun.wait, 10)
        if when == "while they are copied":
            work.cancel()
            await asyncio.sleep(0.01)
        own.may.set()
        if when == "while they are archived":
            await archiving.wait()
            work.cancel()
        await asyncio.wait({work})
        assert work.cancelled() is (when != "never") and own.copies == []
        await asyncio.sleep(0.05)
        assert own.copies == []

    asyncio.run(story())
