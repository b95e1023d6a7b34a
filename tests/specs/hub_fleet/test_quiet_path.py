"""A check-in with nothing to say touches no ledger, and costs little: 24 virtual hours of 50 agents need 432,000."""

import asyncio
import time
from typing import Any

import pytest

from holdfast.model.checkin import CheckIn
from tests.fleets.desks import Rig
from tests.fleets.virtual import VirtualLoop, run


def test_a_quiet_check_in_reads_and_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        await w1.follows()
        asked: list[str] = []

        def watched(name: str) -> Any:
            def call(*args: Any, **kwargs: Any) -> Any:
                asked.append(name)
                raise AssertionError(name)

            return call

        for name in ("get", "scan", "blob", "reading", "submit", "commit", "read_blobs", "has_blobs"):
            monkeypatch.setattr(rig.store, name, watched(name))
        monkeypatch.setattr(rig.audit, "append", watched("append"))
        for _ in range(10):
            await w1.says(wait_s=10.0, clock_s=rig.clock.now_s())
        for _ in range(10):
            await w1.beat()
            await asyncio.sleep(30)
        assert asked == []

    run(main)


def test_a_quiet_check_in_costs_well_under_a_tenth_of_a_millisecond() -> None:
    """Measured with the virtual loop's own cost; 20 µs here. The bound is generous, as tests share two cores."""

    async def main(loop: VirtualLoop) -> float:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        await w1.follows()
        message, principal = CheckIn("w1", w1.seen, wait_s=10.0), w1.principal
        began_s = time.process_time()
        for _ in range(3_000):
            await rig.desk.check_in(principal, message, "x")
        return (time.process_time() - began_s) / 3_000

    assert run(main) < 100e-6
