"""The DNS server of a node is kept as the signed manifest says, whatever happens to it (T-06 stage 5, T-11, I-19)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.adapters.clock.loop import LoopClock
from holdfast.adapters.name_server.memory import MemoryNameServer
from holdfast.agent.findings import Findings
from holdfast.agent.keeping import Keeping
from holdfast.agent.traffic.dns.records import DIFFERS, DOWN, LOOK_S, DnsRecords
from holdfast.errors import Failed
from holdfast.ports.name_server import Serving
from holdfast.reconcile import dns_records as records
from holdfast.reconcile.dns_records import LINGER_S
from tests.fleets import virtual

T = TypeVar("T")
SERVING = Serving("100.64.0.1", "holdfast.internal")
WEB, API = "web.shop.holdfast.internal", "api.shop.holdfast.internal"
ONE, TWO = "100.64.0.1", "100.64.0.2"


class Node:
    """One node's keeper of names, running, with a server in memory and everything it told."""

    def __init__(self, server: MemoryNameServer, clock: LoopClock) -> None:
        self.server = server
        self.findings = Findings(clock.now_s)
        self.said: list[str] = []
        self.changes = 0
        self.names = DnsRecords(server, self.findings, clock, self._say, self._changed)
        self.keeping = Keeping(self.findings, self._say)

    def _say(self, what: str, more: dict[str, object]) -> None:
        self.said.append(what)

    def _changed(self) -> None:
        self.changes += 1

    @property
    def codes(self) -> list[str]:
        return [one.code for one in self.findings.all()]


def with_node(story: Callable[[Node], Awaitable[T]], server: MemoryNameServer | None = None) -> T:
    async def main(loop: virtual.VirtualLoop) -> T:
        node = Node(server or MemoryNameServer(), LoopClock(loop, 1_800_000_000.0))
        running = asyncio.ensure_future(node.keeping.keep(node.names.run))
        try:
            return await story(node)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    return virtual.run(main)


async def moment() -> None:
    await asyncio.sleep(0.01)


def test_a_revision_is_served_at_once_and_a_second_look_changes_nothing() -> None:
    """I-23, T-11."""

    async def story(node: Node) -> None:
        node.names.follow(SERVING, {WEB: ONE})
        await moment()
        assert node.server.answer(WEB) == ONE
        state = node.names.state()
        assert state is not None
        assert (state.served, state.records, state.server) == (records.digest({WEB: ONE}), 1, "memory 1")
        told = node.changes
        await asyncio.sleep(10 * LOOK_S)
        assert len(node.server.applied) == 1 and node.changes == told and node.codes == []

    with_node(story)


def test_a_node_without_dns_starts_no_server_and_one_that_loses_it_ends_it() -> None:
    async def story(node: Node) -> None:
        node.names.follow(None, {})
        await moment()
        assert node.server.starts == 0 and node.names.state() is None
        node.names.follow(SERVING, {WEB: ONE})
        await moment()
        assert node.server.starts == 1
        node.names.follow(None, {})
        await moment()
        assert node.server.serving is None and node.names.state() is None and node.codes == []

    with_node(story)


def test_a_name_that_moved_leads_to_its_new_node_at_once_and_stays() -> None:
    """C-20, D-06."""

    async def story(node: Node) -> None:
        node.names.follow(SERVING, {WEB: ONE})
        await moment()
        node.names.follow(SERVING, {WEB: TWO})
        node.names.withdraw([WEB])
        await moment()
        assert node.server.answer(WEB) == TWO
        await asyncio.sleep(2 * LINGER_S)
        assert node.server.answer(WEB) == TWO

    with_node(story)


def test_a_record_goes_when_the_edge_let_go_and_not_before() -> None:
    """I-19, M-85."""

    async def story(node: Node) -> None:
        node.names.follow(SERVING, {WEB: ONE, API: TWO})
        await moment()
        node.names.follow(SERVING, {API: TWO})
        await asyncio.sleep(LINGER_S / 2)
        assert node.server.answer(WEB) == ONE
        node.names.withdraw([WEB, API])
        await moment()
        assert node.server.answer(WEB) == "" and node.server.answer(API) == TWO

    with_node(story)


def test_what_is_withdrawn_again_and_again_makes_no_work() -> None:
    async def story(node: Node) -> None:
        node.names.follow(SERVING, {WEB: ONE, API: ONE})
        await moment()
        node.names.follow(SERVING, {API: ONE})
        looks = 0

        async def version() -> str:
            nonlocal looks
            looks += 1
            return "memory 1"

        node.server.version = version  # type: ignore[method-assign]
        for _ in range(100):
            node.names.withdraw([WEB, API])
            await moment()
        assert node.server.answer(WEB) == "" and looks <= 3

    with_node(story)


def test_a_record_that_nobody_withdraws_goes_after_its_time() -> None:
    async def story(node: Node) -> None:
        node.names.follow(SERVING, {WEB: ONE})
        await moment()
        node.names.follow(SERVING, {})
        await asyncio.sleep(LINGER_S - 1)
        assert node.server.answer(WEB) == ONE
        await asyncio.sleep(1 + 2 * LOOK_S)
        assert node.server.answer(WEB) == "" and node.codes == []

    with_node(story)


def test_an_agent_that_starts_again_does_not_let_go_too_early() -> None:
    """I-19: what its former life served and the manifest does not have any more has its time, too."""
    server = MemoryNameServer()

    async def before(node: Node) -> None:
        node.names.follow(SERVING, {WEB: ONE, API: ONE})
        await moment()

    async def after(node: Node) -> None:
        node.names.follow(SERVING, {API: TWO})
        await asyncio.sleep(LINGER_S / 2)
        assert server.starts == 1 and server.answer(WEB) == ONE and server.answer(API) == TWO
        await asyncio.sleep(LINGER_S)
        assert server.answer(WEB) == "" and DIFFERS not in node.said

    with_node(before, server)
    with_node(after, server)


def test_before_the_manifest_is_read_nothing_is_touched() -> None:
    """The server of a former life goes on answering."""
    server = MemoryNameServer()

    async def before(node: Node) -> None:
        node.names.follow(SERVING, {WEB: ONE})
        await moment()

    async def after(node: Node) -> None:
        await asyncio.sleep(3 * LOOK_S)
        assert server.answer(WEB) == ONE and node.names.state() is None

    with_node(before, server)
    with_node(after, server)


def test_a_frozen_or_dead_server_is_told_and_started_again_within_ten_seconds() -> None:
    async def story(node: Node) -> None:
        node.names.follow(SERVING, {WEB: ONE})
        await moment()
        for harm in (node.server.freeze, node.server.die):
            node.said.clear()
            told = node.changes
            harm()
            await asyncio.sleep(LOOK_S + 0.1)
            assert node.said.count(DOWN) == 1 and node.changes > told
            assert node.server.answer(WEB) == ONE and node.codes == []
        assert node.server.starts == 3

    with_node(story)


def test_a_server_that_cannot_start_is_a_finding_with_its_remedy_until_it_can() -> None:
    """D-27 has its reason from here."""
    server = MemoryNameServer()
    server.troubles = [Failed("port 53 is taken by named (pid 7)", remedy="stop it", code="dns_down")] * 3

    async def story(node: Node) -> None:
        node.names.follow(SERVING, {WEB: ONE})
        await moment()
        (found,) = node.findings.all()
        assert (found.code, found.message, found.remedy) == (DOWN, "port 53 is taken by named (pid 7)", "stop it")
        state = node.names.state()
        assert state is not None and state.served == "" and state.trouble == found.message
        await asyncio.sleep(10)
        assert node.codes == [] and node.server.answer(WEB) == ONE

    with_node(story, server)


def test_records_that_somebody_changed_are_put_right_and_told() -> None:
    """T-06 stage 5, T-11; records that nobody signed are not answered."""

    async def story(node: Node) -> None:
        node.names.follow(SERVING, {WEB: ONE, API: ONE})
        await moment()
        node.server.records = {WEB: "100.64.9.9", "evil.holdfast.internal": TWO}
        await asyncio.sleep(LOOK_S + 0.1)
        assert node.server.records == {WEB: ONE, API: ONE}
        assert node.codes == [DIFFERS] and node.findings.all()[0].message.startswith("3 internal names")
        await asyncio.sleep(LOOK_S)
        assert node.codes == []

    with_node(story)


def test_in_observe_mode_differences_are_told_and_left() -> None:
    async def story(node: Node) -> None:
        node.names.follow(SERVING, {WEB: ONE})
        await moment()
        node.names.follow(SERVING, {WEB: TWO}, observes=True)
        await asyncio.sleep(3 * LOOK_S)
        assert node.server.answer(WEB) == ONE and node.codes == [DIFFERS]
        node.names.follow(SERVING, {WEB: TWO})
        await asyncio.sleep(2 * LOOK_S)
        assert node.server.answer(WEB) == TWO and node.codes == []

    with_node(story)


def test_a_mistake_of_ours_does_not_end_the_keeper() -> None:
    class Broken(MemoryNameServer):
        async def version(self) -> str:
            if self.starts == 1 and len(self.applied) == 1 and not self.frozen:
                self.applied.append({})
                raise RuntimeError("a mistake")
            return await super().version()

    async def story(node: Node) -> None:
        node.names.follow(SERVING, {WEB: ONE})
        await asyncio.sleep(2 * LOOK_S)
        assert "internal_error" in node.said and node.names.state() is not None

    with_node(story, Broken())


def test_a_name_that_moves_leads_to_its_old_place_until_the_new_one_answers() -> None:
    """D-06: a record is moved once, and not before there is somebody; a failed deployment leaves it where it was."""

    async def story(loop: virtual.VirtualLoop) -> None:
        there: set[str] = {ONE}
        asked: list[tuple[str, str]] = []

        async def answers(name: str, address: str) -> bool:
            asked.append((name, address))
            return address in there

        server, clock = MemoryNameServer(), LoopClock(loop, 1_800_000_000.0)
        kept = DnsRecords(server, Findings(clock.now_s), clock, lambda event, fields: None, lambda: None, answers)
        kept.follow(SERVING, {WEB: ONE})
        task = asyncio.ensure_future(kept.run())
        await asyncio.sleep(1)
        kept.follow(SERVING, {WEB: TWO})
        await asyncio.sleep(300)
        assert server.answer(WEB) == ONE, "the old one still answers, however long the new one takes"
        there.add(TWO)
        await asyncio.sleep(1)
        state = kept.state()
        assert server.answer(WEB) == TWO and state is not None and state.served == records.digest({WEB: TWO})
        there.clear()
        kept.follow(SERVING, {WEB: ONE})
        await asyncio.sleep(60)
        assert server.answer(WEB) == TWO
        await asyncio.sleep(90)
        assert server.answer(WEB) == ONE, "nobody answers anywhere: the revision is all there is"
        task.cancel()

    virtual.run(story)
