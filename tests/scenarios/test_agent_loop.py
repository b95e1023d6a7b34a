"""The agent's pace: two timers, two states, back-off, and a hub that may be gone for as long as it likes."""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast import __version__
from holdfast.agent.traffic.certificates.node import NodeCertificates
from holdfast.errors import Limited, Unauthenticated, Unreachable
from holdfast.model.cadence import Cadence
from holdfast.model.order import Delivered
from holdfast.model.report import Pulse, Report
from holdfast.planning import formats
from tests.fleets.agents import Lone, Machine, PaperHub, until
from tests.fleets.build import small_fleet
from tests.fleets.desks import OPERATOR, Rig
from tests.fleets.virtual import VirtualLoop, run
from tests.scenarios.test_agent_orders import CANDIDATES, id_of, order


def play(scene: Callable[[Rig], Coroutine[Any, Any, None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        await scene(Rig(loop))

    run(main)


def gaps(times: list[float]) -> list[float]:
    return [round(after - before, 3) for before, after in pairwise(times)]


def test_polls_are_held_ten_seconds_and_a_heartbeat_goes_every_thirty() -> None:
    """T-04, M-53, C-02: one held check-in after the other; every third is a heartbeat."""

    async def scene(rig: Rig) -> None:
        machine = Machine(rig, "w1")
        agent = machine.start()
        task = asyncio.ensure_future(agent.run())
        await until(rig, lambda: agent.accepting.seen == rig.head)
        await asyncio.sleep(1)  # what the revision brought is told
        machine.link.keep = True
        await asyncio.sleep(300)
        task.cancel()
        beats = [at for at, m in zip(machine.link.said_at_s, machine.link.said, strict=True) if m.heartbeat]
        assert set(gaps(beats)) == {30.0} and len(beats) == 10
        assert 9.5 <= max(gaps(machine.link.said_at_s)) <= 10.0
        assert all(m.pulse is not None for m in machine.link.said if m.heartbeat)
        assert [n.status for n in rig.desk.nodes().nodes if n.name == "w1"] == ["healthy"]

    play(scene)


def test_a_commit_and_an_order_wake_it_at_once() -> None:
    """V-37: head and orders come down when they come, not at the next poll; and the receipt goes up at once."""

    async def scene(rig: Rig) -> None:
        applied = rig.hub.applied()
        assert applied is not None
        node = str(applied.table.entries["service.web"].node)
        machine = Machine(rig, node)
        agent = machine.start()
        task = asyncio.ensure_future(agent.run())
        await until(rig, lambda: agent.accepting.seen == rig.head)
        await asyncio.sleep(33)
        head = rig.commit(small_fleet({"web": 2}, ("w1", "w2", "e1")))
        await until(rig, lambda: agent.accepting.seen == head, at_most_s=0.2)
        view = next(view for view in rig.desk.nodes().nodes if view.name == node)
        assert view.pulse is not None and msgspec.json.decode(view.pulse.pulse, type=Pulse).accepted == head
        await asyncio.sleep(2)
        await rig.desk.submit(OPERATOR, rig.order(node))
        await until(rig, lambda: "order_ended" in [name for name, _ in machine.said], at_most_s=0.3)
        task.cancel()

    play(scene)


def test_a_hub_that_is_gone_changes_nothing_and_is_asked_ever_more_rarely() -> None:
    """I-01, I-36, M-20, M-52, R07: 1, 2, 4 … 60 s, never busier; nothing here changes; back within 65 s."""

    async def scene(rig: Rig) -> None:
        machine = Machine(rig, "w1")
        agent = machine.start()
        task = asyncio.ensure_future(agent.run())
        await until(rig, lambda: agent.accepting.seen == rig.head)
        await asyncio.sleep(30)
        before = (
            machine.acceptance.newest(),
            machine.audit.head(),
            machine.journal.entries(),
            machine.storage.contents,
        )
        tried: list[float] = []

        def down() -> None:
            tried.append(rig.loop.time())
            raise Unreachable("gone", remedy="wait")

        machine.link._try = down
        await asyncio.sleep(3600)
        waits = gaps(tried)
        for number, wait_s in enumerate(waits):
            base_s = min(2.0**number, 60.0)
            assert base_s <= wait_s <= 60.0 and (wait_s <= base_s * 1.25)
        assert len(tried) < 70
        after = (machine.acceptance.newest(), machine.audit.head(), machine.journal.entries(), machine.storage.contents)
        assert after == before
        del machine.link._try
        back_s = rig.loop.time()
        await until(rig, lambda: (agent.check_ins.heard_s or 0) > back_s, at_most_s=61)
        task.cancel()

    play(scene)


def test_two_agents_do_not_come_back_in_step() -> None:
    async def scene(rig: Rig) -> None:
        tries: dict[str, list[float]] = {}
        tasks = []
        for name in ("w1", "w2"):
            machine = Machine(rig, name)
            tries[name] = []

            def down(name: str = name) -> None:
                tries[name].append(rig.loop.time())
                raise Unreachable("gone", remedy="wait")

            machine.link._try = down
            tasks.append(asyncio.ensure_future(machine.start().run()))
        await asyncio.sleep(600)
        for task in tasks:
            task.cancel()
        assert not set(tries["w1"][1:]) & set(tries["w2"][1:])

    play(scene)


def test_a_hub_that_counts_too_many_is_left_alone_as_long_as_it_says() -> None:
    """M-28, D-08: 429 with Retry-After; W3: but not for ever."""

    async def scene(rig: Rig) -> None:
        machine = Machine(rig, "w1")
        agent = machine.start()
        tried: list[float] = []
        asked = [20.0, 1e9]

        def limited() -> None:
            tried.append(rig.loop.time())
            if asked:
                raise Limited("too many", remedy="wait", retry_after_s=asked.pop(0))

        machine.link._try = limited
        task = asyncio.ensure_future(agent.run())
        await until(rig, lambda: agent.check_ins.heard_s is not None, at_most_s=150)
        task.cancel()
        first, second = gaps(tried)[:2]
        assert 20 <= first <= 25 and 48 <= second <= 60

    play(scene)


def test_a_429_is_in_the_signed_report_and_goes_when_there_was_none_for_a_while() -> None:
    """X16: people see that the hub put a node off, also when it is honest again."""

    async def scene(rig: Rig) -> None:
        machine = Machine(rig, "w1")
        agent = machine.start()
        asked = [5.0, 999_999.0]

        def limited() -> None:
            if asked:
                raise Limited("too many", remedy="wait", retry_after_s=asked.pop(0))

        task = asyncio.ensure_future(agent.run())
        await until(rig, lambda: agent.check_ins.heard_s is not None)
        machine.link._try = limited
        machine.link.keep = True
        await asyncio.sleep(120)
        (*_, reported) = [msgspec.json.decode(m.report, type=Report) for m in machine.link.said if m.report]
        (found,) = [one for one in reported.findings if one.code == "hub_limits"]
        assert "429" in found.message and "more than 60 s of silence" in found.message
        await asyncio.sleep(700)
        task.cancel()
        assert "hub_limits" not in {one.code for one in agent.findings.all()}

    play(scene)


@pytest.mark.parametrize("how", ["answer", "refusal"])
def test_a_hub_that_forgot_the_node_is_told_again_who_it_is(how: str) -> None:
    """D-04: registered = false, or a key it does not know: join again; nothing else changes."""

    async def scene(rig: Rig) -> None:
        machine = Machine(rig, "w1")
        agent = machine.start()
        task = asyncio.ensure_future(agent.run())
        await until(rig, lambda: agent.accepting.seen == rig.head)
        await asyncio.sleep(1)  # what the revision brought is told
        joins = len([e for e in rig.audited() if e.event.action == "join"])
        once: list[Any] = [True]

        def forgets(answer: Any) -> Any:
            if not once:
                return answer
            once.clear()
            if how == "refusal":
                raise Unauthenticated("who are you", remedy="join")
            return replace(answer, registered=False)

        machine.link.bend = forgets
        await asyncio.sleep(60)
        task.cancel()
        assert len([e for e in rig.audited() if e.event.action == "join"]) == joins + 1
        assert agent.accepting.seen == rig.head and agent.findings.all() == ()

    play(scene)


def test_a_hub_cannot_slow_an_agent_down_for_ever() -> None:
    """W3: cadence is a wish within bounds."""

    async def scene(loop: VirtualLoop) -> None:
        hub = PaperHub(*CANDIDATES)
        hub.bend = lambda answer: replace(answer, cadence=Cadence(1e6, 1e6, 1e6, 1e6))
        lone = Lone(loop, hub)
        agent = lone.start()
        task = asyncio.ensure_future(agent.run())
        await asyncio.sleep(3600)
        task.cancel()
        assert len([m for m in hub.said if m.heartbeat]) >= 55 and len(hub.said) >= 55, "X16: one a minute at least"
        hub.said.clear()
        hub.bend = lambda answer: replace(answer, cadence=Cadence(0.0, 0.0, 0.0, 0.0))
        task = asyncio.ensure_future(lone.start().run())
        await asyncio.sleep(60)
        task.cancel()
        assert len(hub.said) <= 70, "not busier than once a second either"

    run(scene)


class Slow(NodeCertificates):
    """A certificate that takes its time."""

    seconds = 0.0

    async def renew(self) -> str:
        await asyncio.sleep(self.seconds)
        return "done"


@pytest.mark.parametrize("seconds", [100.0, 400.0])
def test_busy_is_not_dead_and_five_minutes_are_the_most(seconds: float) -> None:
    """T-05, T-07, T-08, I-24, I-39: no polling while PROCESSING, heartbeats all the time, a report at the end, and a
    result when there is one."""

    async def scene(loop: VirtualLoop) -> None:
        hub = PaperHub(*CANDIDATES)
        lone = Lone(loop, hub)
        lone.certificates = Slow(lone.issuer, lone.clock)
        lone.certificates.seconds = seconds
        agent = lone.start()
        task = asyncio.ensure_future(agent.run())
        await asyncio.sleep(5)
        renew = order("renew-certificate", "node.w1")
        hub.orders.append(Delivered(1, renew))
        at_s: list[float] = []
        states: list[tuple[str, bool, float]] = []
        saying = hub.check_in

        async def noted(message: Any) -> Any:
            at_s.append(loop.time())
            states.append((agent.state, message.heartbeat, message.wait_s))
            return await saying(message)

        hub.check_in = noted  # type: ignore[method-assign]
        await asyncio.sleep(6)
        assert agent.state == "processing"
        began = loop.time()
        while agent.state == "processing":
            await asyncio.sleep(0.5)
        lasted = loop.time() - began
        assert lasted <= 301 and abs(lasted - min(seconds, 300)) < 12
        meanwhile = [(beat, wait_s) for state, beat, wait_s in states if state == "processing"]
        assert set(meanwhile) == {(True, 0.0)} and len(meanwhile) >= min(seconds, 300) // 30 - 1
        assert max(gaps(at_s)) <= 30.5
        await asyncio.sleep(0)
        await asyncio.sleep(max(seconds - 300, 0) + 25)
        task.cancel()
        assert [r.outcome for m in hub.said for r in m.results if r.id == id_of(renew)][:1] == ["done"]
        reports = [msgspec.json.decode(m.report, type=Report) for m in hub.said if m.report]
        assert reports[-1].operations == () and reports[-1].state == "idle"
        if seconds > 300:
            assert "processing_timeout" in {f.code for r in reports for f in r.findings}

    run(scene)


def test_an_agent_does_not_die_of_a_mistake_of_ours() -> None:
    async def scene(loop: VirtualLoop) -> None:
        hub = PaperHub(*CANDIDATES)
        lone = Lone(loop, hub)
        broken = [True]

        def bend(answer: Any) -> Any:
            if broken:
                raise ZeroDivisionError("ours")
            return answer

        hub.bend = bend
        agent = lone.start()
        task = asyncio.ensure_future(agent.run())
        await asyncio.sleep(20)
        assert ("internal_error" in [name for name, _ in lone.said]) and not task.done()
        broken.clear()
        await asyncio.sleep(70)
        assert agent.accepting.seen == hub.head
        task.cancel()

    run(scene)


def test_pulses_never_count_backwards_across_restarts() -> None:
    async def scene(loop: VirtualLoop) -> None:
        hub = PaperHub(*CANDIDATES)
        lone = Lone(loop, hub)
        for _ in range(5):
            task = asyncio.ensure_future(lone.start().run())
            await asyncio.sleep(100)
            task.cancel()
        numbers = [msgspec.json.decode(m.pulse.pulse, type=Pulse).sequence for m in hub.said if m.pulse]
        assert numbers == sorted(set(numbers)) and len(numbers) > 15

    run(scene)


def test_a_pulse_names_the_release_and_the_format_that_the_agent_reads_and_older_pulses_still_decode() -> None:
    async def scene(loop: VirtualLoop) -> None:
        hub = PaperHub(*CANDIDATES)
        await Lone(loop, hub).turned()
        signed = next(message.pulse for message in hub.said if message.pulse is not None)
        pulse = msgspec.json.decode(signed.pulse, type=Pulse)
        assert (pulse.release, pulse.format) == (__version__, formats.NEWEST)
        keys = list(msgspec.json.decode(signed.pulse))
        assert keys[keys.index("release") :] == ["release", "format", "life"]
        older = {key: value for key, value in msgspec.json.decode(signed.pulse).items() if key in keys[:-3]}
        decoded = msgspec.json.decode(msgspec.json.encode(older), type=Pulse)
        assert (decoded.release, decoded.format, decoded.accepted) == ("", 0, pulse.accepted)

    run(scene)
