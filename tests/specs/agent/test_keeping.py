"""Loops of keepers go on after a mistake of ours, and parts of the agent wake each other."""

import asyncio
from itertools import pairwise

from holdfast.agent.findings import Findings
from holdfast.agent.keeping import AGAIN_S, CALM_S, Keeping
from holdfast.agent.wake import Wake
from tests.fleets.virtual import VirtualLoop, run


def test_a_loop_that_fails_is_run_again_more_and_more_rarely_and_reported() -> None:
    begun_s: list[float] = []
    said: list[tuple[str, dict[str, object]]] = []

    async def scene(loop: VirtualLoop) -> None:
        findings = Findings(lambda: 7.0)

        async def broken() -> None:
            begun_s.append(loop.time())
            if len(begun_s) == 10:
                await asyncio.sleep(CALM_S + 1)
            if len(begun_s) < 12:
                raise ZeroDivisionError("ours")

        await Keeping(findings, lambda event, fields: said.append((event, fields))).keep(broken, hostname="a.test")
        (found,) = findings.all()
        assert (found.code, found.message, found.since_s) == ("internal_error", "ZeroDivisionError: ours", 7.0)

    run(scene)
    pauses = [round(after - before, 3) for before, after in pairwise(begun_s)]
    assert pauses[:9] == [*AGAIN_S, AGAIN_S[-1], AGAIN_S[-1]]
    assert pauses[9:] == [CALM_S + 1 + AGAIN_S[0], AGAIN_S[1]], "a loop that ran for a while begins with short pauses"
    assert len(said) == 11 and all(event == "internal_error" for event, _ in said)
    assert said[0][1]["hostname"] == "a.test" and "test_keeping.py" in str(said[0][1]["where"])


def test_a_mistake_of_one_service_has_its_address_and_is_over_when_it_recovers() -> None:
    findings = Findings(lambda: 1.0)
    keeping = Keeping(findings, lambda event, fields: None)
    keeping.mistake(RuntimeError("x" * 2000), at="service.web", service="web")
    (found,) = findings.all()
    assert (
        found.address == "service.web"
        and found.message.startswith("service.web: RuntimeError")
        and len(found.message) <= 500
    )
    keeping.recovered("service.web")
    assert findings.all() == ()


def test_a_wake_calls_everything_connected_in_order_and_counts() -> None:
    wake, heard = Wake(), []
    wake()
    wake.connect(lambda: heard.append("a"), lambda: heard.append("b"))
    wake.connect(lambda: heard.append("c"))
    wake()
    assert heard == ["a", "b", "c"] and wake.count == 2
