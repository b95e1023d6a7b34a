"""`holdfast logs` from the container to the terminal: nothing twice, nothing lost, nothing to anybody else."""

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from holdfast.adapters.audit_log.memory import MemoryAuditLog
from holdfast.adapters.clock.loop import LoopClock
from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.adapters.runtime.memory import Behaviour, MemoryRuntime
from holdfast.agent.link.order_results import OrderResults
from holdfast.agent.orders import streams
from holdfast.agent.orders.log_feed import LogFeed
from holdfast.agent.orders.stream_orders import StreamOrders
from holdfast.agent.orders.streams import STREAMS_MAX, Streams, converse
from holdfast.agent.time import NodeTime
from holdfast.cli.logs import log_call, logs
from holdfast.cli.logs.log_call import Call, Inbox
from holdfast.cli.logs.log_merge import Merging
from holdfast.cli.nodes import issuers
from holdfast.errors import Conflict, Failed, HoldfastError, Limited, TryLater
from holdfast.model.audit import AuditEntry, Event
from holdfast.model.certificate import Issued
from holdfast.model.container import Container, ContainerSpec, labels_of
from holdfast.model.fleet import Thresholds
from holdfast.model.order import VerifiedOrder
from holdfast.model.stream import (
    ALIVE_S,
    SILENT_S,
    Alive,
    CaughtUp,
    Ended,
    Frame,
    LogsWanted,
    StreamedLine,
)
from holdfast.model.trust import of
from holdfast.ports.runtime import CreateContainer, LogLine
from holdfast.ports.stream_link import Channel, Pinned, StreamCut
from holdfast.trust import orders
from holdfast.wire.stream import Frames, written
from tests.fleets.build import ALICE, START_S, operator_signer
from tests.fleets.doors import OpenRuntime
from tests.fleets.log_scene import Command, LogScene, log_scene, two_services
from tests.fleets.streams import Certified, logs_order
from tests.fleets.virtual import VirtualLoop, run
from tests.fleets.waiting import Stopwatch, wait_until

FLEET = "f" * 64
TRUST = of((ALICE,), Thresholds())


class Node:
    """A machine in virtual time, with containers that say what the test wants."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.clock = LoopClock(loop, START_S)
        self.runtime = MemoryRuntime(self.clock)
        self.runtime.here.add("img")

    async def begun(self, component: str = "app", replica: int = 0, service: str = "web", fleet: str = FLEET) -> str:
        """Its id."""
        spec = ContainerSpec(fleet, service, component, 1, "img", "")
        labels = labels_of(spec, "d", "deployment", replica)
        name = f"{fleet[:2]} {service} {component} {replica} {self.loop.time()}"
        id = await OpenRuntime(self.runtime).create(CreateContainer(name, spec, labels))
        await OpenRuntime(self.runtime).start(id)
        return id

    def says(self, id: str, *texts: str) -> None:
        for text in texts:
            self.runtime.say(id, text)

    def feed(self, **wanted: Any) -> LogFeed:
        return LogFeed(self.runtime, FLEET, "web", LogsWanted(b"caller", **wanted), self.clock.now_s())


Heard = list[Frame]


def scene(story: Callable[[Node], Coroutine[Any, Any, None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        await story(Node(loop))

    run(main)


async def frames_of(feed: LogFeed) -> Heard:
    return [frame async for frame in feed.frames(await feed.containers())]


async def told(feed: LogFeed) -> list[str]:
    """Without following; the last frame says that this was all."""
    found = await frames_of(feed)
    assert found[-1] == CaughtUp()
    return texts(found)


def texts(found: Heard) -> list[str]:
    return [frame.text for frame in found if isinstance(frame, StreamedLine)]


class Following:
    """Somebody who listens; what was heard so far is in `found`."""

    def __init__(self, feed: LogFeed) -> None:
        self.found: Heard = []
        self._task = asyncio.ensure_future(self._listen(feed))

    async def _listen(self, feed: LogFeed) -> None:
        async with aclosing(feed.frames(await feed.containers())) as frames:
            async for frame in frames:
                self.found.append(frame)

    async def after(self, seconds: float) -> list[str]:
        await asyncio.sleep(seconds)
        if self._task.done():
            self._task.result()
        return texts(self.found)

    async def leave(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


# ---- what was said


def test_what_several_containers_said_is_told_in_order_of_time() -> None:
    async def story(node: Node) -> None:
        a, b, c = await node.begun("app"), await node.begun("app", 1), await node.begun("db")
        for number, id in enumerate((a, b, c, a, c, b)):
            await asyncio.sleep(1)
            node.says(id, f"{number}")
        found = await frames_of(node.feed())
        assert texts(found) == ["0", "1", "2", "3", "4", "5"]
        first = found[1]
        assert isinstance(first, StreamedLine) and (first.component, first.replica, first.container) == ("app", 1, b)
        assert await told(node.feed(component="db")) == ["2", "4"]

    scene(story)


def test_only_containers_of_this_service_and_fleet_are_read() -> None:
    async def story(node: Node) -> None:
        ours, other, foreign = await node.begun(), await node.begun(service="api"), await node.begun(fleet="a" * 64)
        node.runtime.place(Container("x" * 64, "by hand", "running", True, {}))
        for id in (ours, other, foreign, "x" * 64):
            node.says(id, id)
        assert await told(node.feed()) == [ours]

    scene(story)


def test_tail_and_since_bound_what_is_told() -> None:
    async def story(node: Node) -> None:
        a, b = await node.begun(), await node.begun("db")
        for number in range(10):
            await asyncio.sleep(60)
            node.says(a, f"a{number}")
            node.says(b, f"b{number}")
        assert await told(node.feed(tail=2)) == ["a8", "b8", "a9", "b9"]
        assert await told(node.feed(tail=0)) == []
        assert await told(node.feed(ago_s=150.0)) == ["a7", "b7", "a8", "b8", "a9", "b9"]
        assert await told(node.feed(ago_s=90.0)) == ["a8", "b8", "a9", "b9"]
        assert await told(node.feed(since_s=node.clock.now_s() - 1)) == ["a9", "b9"]

    scene(story)


def test_a_container_that_goes_while_it_is_read_does_not_silence_the_others() -> None:
    async def story(node: Node) -> None:
        a, b = await node.begun(), await node.begun("db")
        node.says(a, "a")
        node.says(b, "b")
        feed = node.feed()
        first = await feed.containers()
        node.runtime.vanish(a)
        assert texts([frame async for frame in feed.frames(first)]) == ["b"]

    scene(story)


# ---- what is being said


def test_where_the_two_readings_meet_nothing_is_lost_and_nothing_told_twice() -> None:
    """Many lines carry the very same time; some of them are written while the log is being told."""

    async def story(node: Node) -> None:
        a = await node.begun()
        node.says(a, "1", "2", "3")
        feed = node.feed(follow=True)
        frames = feed.frames(await feed.containers())
        found: Heard = []
        async with aclosing(frames):
            async for frame in frames:
                found.append(frame)
                if isinstance(frame, CaughtUp):
                    node.says(a, "4", "5")  # still in the same moment
                if texts(found)[-1:] == ["5"]:
                    node.says(a, "6")
                if texts(found)[-1:] == ["6"]:
                    break
        assert texts(found) == ["1", "2", "3", "4", "5", "6"]

    scene(story)


def test_with_a_tail_following_begins_after_it() -> None:
    async def story(node: Node) -> None:
        a = await node.begun()
        node.says(a, "1", "2", "3")
        node.says(await node.begun("db"), "x", "x", "x")  # nothing tells these apart
        await asyncio.sleep(1)
        one, two, none = (Following(node.feed(follow=True, tail=tail)) for tail in (1, 2, 0))
        await asyncio.sleep(3)
        node.says(a, "4")
        assert await one.after(2) == ["3", "x", "4"]
        assert await two.after(0) == ["2", "3", "x", "x", "4"]
        assert await none.after(0) == ["4"]

    scene(story)


class InSeconds(MemoryRuntime):
    """Like podman: a line carries the second in which it was written, and `since` counts in seconds as well."""

    def say(self, id: str, text: str, error: bool = False) -> None:
        super().say(id, text, error)
        lines = self._kept[id].lines
        lines[-1] = structs.replace(lines[-1], at_s=float(int(lines[-1].at_s)))

    async def logs(self, id: str, tail: int | None, since_s: float, follow: bool) -> AsyncGenerator[LogLine, None]:
        async for line in super().logs(id, tail, float(int(since_s)), follow):
            yield line


@pytest.mark.parametrize("wanted", [{}, {"tail": 0}, {"tail": 2}, {"tail": 5}, {"ago_s": 0.4}, {"ago_s": 3.0}], ids=str)
def test_times_in_whole_seconds_lose_nothing_and_repeat_nothing(wanted: dict[str, Any]) -> None:
    """Whoever begins to listen in the middle of a second hears what is said in the rest of it."""

    async def story(node: Node) -> None:
        node.runtime = InSeconds(node.clock)
        node.runtime.here.add("img")
        a = await node.begun()
        for number in range(20):
            node.says(a, f"old {number % 3}")
            await asyncio.sleep(0.17)
        heard = Following(node.feed(follow=True, **wanted))
        await asyncio.sleep(0.01)
        for number in range(20):
            node.says(a, f"new {number}")
            await asyncio.sleep(0.17)
        found = await heard.after(3)
        assert [text for text in found if text.startswith("new")] == [f"new {number}" for number in range(20)]
        told = sum(text.startswith("old") for text in found)
        assert told == {"{}": 20, "{'tail': 0}": 0, "{'tail': 2}": 2, "{'tail': 5}": 5}.get(str(wanted), told)

    scene(story)


def test_a_container_that_is_replaced_is_followed_by_its_successor() -> None:
    """Every line of both, also the first ones of the new and the last ones of the old."""

    async def story(node: Node) -> None:
        old = await node.begun()
        node.says(old, "old 1")
        heard = Following(node.feed(follow=True))
        await asyncio.sleep(2)
        new = await node.begun()
        node.says(new, "new 1")
        await asyncio.sleep(0.3)
        node.says(old, "old 2")
        await OpenRuntime(node.runtime).stop(old, 1.0)
        node.says(old, "old 3")
        await asyncio.sleep(0.01)
        await OpenRuntime(node.runtime).remove(old)
        node.says(new, "new 2")
        found = await heard.after(3)
        assert sorted(found) == ["new 1", "new 2", "old 1", "old 2", "old 3"]
        assert found.index("old 1") < found.index("old 2") < found.index("old 3")
        assert found.index("new 1") < found.index("new 2")
        await heard.leave()

    scene(story)


def test_a_container_that_crashes_and_is_started_again_goes_on_where_it_was() -> None:
    async def story(node: Node) -> None:
        a = await node.begun()
        heard = Following(node.feed(follow=True))
        for number in range(3):
            node.says(a, f"run {number}")
            await asyncio.sleep(0.5)
            node.runtime.crash(a)
            await asyncio.sleep(2)
        node.says(a, "last")
        assert await heard.after(2) == ["run 0", "run 1", "run 2", "last"]

    scene(story)


def test_a_container_that_ran_and_ended_between_two_looks_is_told_too() -> None:
    async def story(node: Node) -> None:
        await node.begun()
        heard = Following(node.feed(follow=True))
        await asyncio.sleep(1)
        node.runtime.behaviours["img"] = Behaviour(exit_after_s=0.05, exit_code=0, says=("short life",))
        await node.begun("job")
        assert await heard.after(3) == ["short life"]

    scene(story)


def test_a_runtime_that_is_away_for_a_while_ends_nothing() -> None:
    async def story(node: Node) -> None:
        a = await node.begun()
        heard = Following(node.feed(follow=True))
        await asyncio.sleep(1)
        node.runtime.away = True
        node.runtime.crash(a)
        await asyncio.sleep(10)
        node.runtime.away = False
        node.says(a, "back")
        assert await heard.after(3) == ["back"]

    scene(story)


def test_whoever_leaves_leaves_nothing_running() -> None:
    async def story(node: Node) -> None:
        await node.begun()
        await node.begun("db")
        before = len(asyncio.all_tasks())
        heard = Following(node.feed(follow=True))
        await asyncio.sleep(2)
        await heard.leave()
        assert len(asyncio.all_tasks()) == before

    scene(story)


# ---- one stream


class Paper:
    """A channel whose other end is this test: reads as fast as it is told, says what it is told."""

    def __init__(self) -> None:
        self.frames: Heard = []
        self.sizes: list[int] = []
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.speaks: asyncio.Queue[bytes] = asyncio.Queue()
        self._read = Frames()
        self.closed = False

    async def read(self) -> bytes:
        return await self.speaks.get()

    async def write(self, content: bytes) -> None:
        await self.may_read.wait()
        self.sizes.append(len(content))
        self.frames += self._read.feed(content)

    async def close(self) -> None:
        self.closed = True


async def some(*frames: Frame) -> AsyncGenerator[Frame, None]:
    for frame in frames:
        yield frame


def line(number: int, text: str = "") -> StreamedLine:
    return StreamedLine("c", "app", 0, float(number), False, text or str(number))


def test_a_stream_ends_with_a_word_that_it_has_ended() -> None:
    async def main(loop: VirtualLoop) -> None:
        paper = Paper()
        await converse(paper, some(line(1), CaughtUp()))
        assert paper.frames == [line(1), CaughtUp(), Ended()]

    run(main)


def test_trouble_on_the_node_is_the_last_word() -> None:
    async def broken() -> AsyncGenerator[Frame, None]:
        yield line(1)
        raise TryLater("the runtime does not answer", remedy="wait", code="runtime_away")

    async def mistaken() -> AsyncGenerator[Frame, None]:
        yield line(1)
        raise ValueError("a mistake of ours")

    async def main(loop: VirtualLoop) -> None:
        for source, code in ((broken(), "runtime_away"), (mistaken(), "internal_error")):
            paper = Paper()
            await converse(paper, source)
            last = paper.frames[-1]
            assert isinstance(last, Ended) and last.code == code and last.remedy

    run(main)


def test_both_ends_say_that_they_are_there_and_a_silent_caller_is_given_up() -> None:
    async def quiet() -> AsyncGenerator[Frame, None]:
        yield CaughtUp()
        await asyncio.sleep(100 * SILENT_S)

    async def main(loop: VirtualLoop) -> None:
        paper = Paper()
        talking = asyncio.ensure_future(converse(paper, quiet()))
        for _ in range(10):
            await asyncio.sleep(SILENT_S - 1)
            paper.speaks.put_nowait(written([Alive()]))
        assert not talking.done()
        assert paper.frames.count(Alive()) > 8 * (SILENT_S - 1) / ALIVE_S
        with pytest.raises(HoldfastError, match="sent nothing"):
            await talking
        assert loop.time() < 11 * SILENT_S

    run(main)


def test_a_reader_that_stands_still_stops_the_reading_of_logs_and_gets_everything_later() -> None:
    """A bounded number of lines is read ahead, however many there are."""
    read = 0

    async def endless() -> AsyncGenerator[Frame, None]:
        nonlocal read
        for number in range(100_000):
            read += 1
            yield line(number)

    async def main(loop: VirtualLoop) -> None:
        paper = Paper()
        paper.may_read.clear()
        talking = asyncio.ensure_future(converse(paper, endless()))
        await asyncio.sleep(30)
        assert 0 < read < 1_000
        paper.may_read.set()
        await talking
        assert paper.frames == [*map(line, range(100_000)), Ended()]
        assert max(paper.sizes) < 4 * streams.BATCH_CHARS

    run(main)


def test_a_line_without_end_is_cut_to_what_fits_into_a_frame() -> None:
    async def story(node: Node) -> None:
        a = await node.begun()
        node.says(a, "x" * 10_000_000, "\ud800 half a pair", "\x00" * 100_000)
        feed = node.feed()
        paper = Paper()
        await converse(paper, feed.frames(await feed.containers()))
        assert [len(text) for text in texts(paper.frames)] == [16_385, 13, 16_385]
        assert texts(paper.frames)[1] == "? half a pair"

    scene(story)


# ---- a node's streams


def proof(node: str = "w1", service: str = "web", **wanted: Any) -> VerifiedOrder:
    signed, _ = logs_order(FLEET, node, LogsWanted(b"caller", **wanted), service)
    return orders.verify(signed, FLEET, node, TRUST, time.time())


class Meeting:
    """Stands for the hub: gives every stream a channel of paper, or refuses."""

    def __init__(self) -> None:
        self.papers: list[Paper] = []
        self.trouble: HoldfastError | None = None
        self.callers: list[bytes] = []

    async def answer(self, order: str, shown: Issued, caller: bytes) -> Channel:
        if self.trouble is not None:
            raise self.trouble
        self.callers.append(caller)
        self.papers.append(Paper())
        return self.papers[-1]


def station(node: Node, meeting: Meeting, said: list[str]) -> Streams:
    shown: Any = object()
    return Streams(meeting, node.runtime, lambda: shown, node.clock, lambda event, fields: said.append(event))


def test_an_order_opens_a_stream_to_the_caller_it_names_and_answers_at_once() -> None:
    async def story(node: Node) -> None:
        a = await node.begun()
        node.says(a, "hello")
        meeting = Meeting()
        said: list[str] = []
        open_ = station(node, meeting, said)
        assert await open_.start(proof(follow=True)) == "the logs of 1 container follow"
        await asyncio.sleep(1)
        (paper,) = meeting.papers
        assert meeting.callers == [b"caller"] and texts(paper.frames) == ["hello"] and open_.open == 1
        paper.speaks.put_nowait(b"")  # he leaves
        await asyncio.sleep(1)
        assert open_.open == 0 and paper.closed

    scene(story)


def test_a_service_that_is_not_here_is_said_to_whoever_asks() -> None:
    async def story(node: Node) -> None:
        await node.begun("db")
        open_ = station(node, Meeting(), [])
        for wanted in (proof(service="api"), proof(component="app")):
            with pytest.raises(Conflict) as found:
                await open_.start(wanted)
            assert found.value.code == "not_running" and "w1" in found.value.message
        assert open_.open == 0

    scene(story)


def test_a_node_has_a_bounded_number_of_streams() -> None:
    async def story(node: Node) -> None:
        await node.begun()
        meeting = Meeting()
        open_ = station(node, meeting, [])
        for _ in range(STREAMS_MAX):
            await open_.start(proof(follow=True))
        with pytest.raises(Limited):
            await open_.start(proof(follow=True))
        await asyncio.sleep(1)
        meeting.papers[0].speaks.put_nowait(b"")
        await asyncio.sleep(1)
        await open_.start(proof(follow=True))
        await open_.close()
        assert open_.open == 0

    scene(story)


def test_a_caller_who_never_comes_costs_a_line_in_the_log() -> None:
    async def story(node: Node) -> None:
        await node.begun()
        meeting = Meeting()
        said: list[str] = []
        meeting.trouble = TryLater("nobody came", remedy="repeat it", code="nobody_came")
        open_ = station(node, meeting, said)
        await open_.start(proof())
        await asyncio.sleep(1)
        assert said == ["stream_failed"] and open_.open == 0

    scene(story)


# ---- from end to end


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogScene]:
    with log_scene(tmp_path_factory.mktemp("logs")) as scene:
        yield scene


def test_logs_of_a_service_are_shown_with_their_source(whole: LogScene) -> None:
    agent, id = whole.web()
    agent.says(id, "hello", "tab\there", "\x1b[2Jclear\x07")
    agent.says(id, "trouble", error=True)
    found = whole.run("logs", "web").out.splitlines()
    head = f"{agent.node} web/main.0 | "
    assert found == [f"{head}hello", f"{head}tab     here", f"{head}\\x1b[2Jclear\\x07", f"{head}trouble"]
    assert whole.run("logs", "web", "--raw").out.splitlines()[2] == f"{head}\x1b[2Jclear\x07"
    assert whole.run("logs", "web/main", "--tail", "1").out.splitlines() == [f"{head}trouble"]
    assert whole.run("logs", "web", "--since", "1ms").out == ""
    told = [json.loads(text) for text in whole.run("logs", "web", "--json").out.splitlines()]
    assert told[0] | {"time": ""} == {
        "node": agent.node, "service": "web", "component": "main", "replica": 0, "container": id, "time": "",
        "stream": "stdout", "text": "hello",
    }  # fmt: skip
    assert told[3]["stream"] == "stderr" and re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", told[0]["time"])
    stamped = whole.run("logs", "web", "-t").out.splitlines()[0]
    assert stamped == f"{head}{told[0]['time'].replace('.000000Z', 'Z')} hello"


def test_nodes_are_merged_in_order_of_time_and_one_can_be_chosen(whole: LogScene) -> None:
    agent, id = whole.web()
    other = next(one for one in whole.agents.values() if one is not agent)
    left = other.placed(whole.hub.fleet_id)
    whole.reported(other.node, 1)
    for number in range(6):
        (agent if number % 2 else other).says(id if number % 2 else left, f"turn {number}")
        time.sleep(0.002)
    found = [text for text in whole.run("logs", "web").out.splitlines() if "turn" in text]
    assert [text.rpartition(" ")[2] for text in found] == list("012345")
    assert {text.split()[0] for text in found} == set(whole.agents)
    chosen = whole.run("logs", "web", "-n", other.node).out.splitlines()
    assert [text.rpartition("| ")[2] for text in chosen] == ["turn 0", "turn 2", "turn 4"]
    other.tell(lambda: other.runtime.vanish(left))
    whole.reported(other.node, 0)


def test_following_goes_on_over_an_update_until_somebody_ends_it(whole: LogScene) -> None:
    agent, id = whole.web()
    asked = len(agent.runtime.calls)
    following = whole.begin("logs", "web", "-f", "--tail", "0")
    wait_until(lambda: any(call.verb == "logs" for call in agent.runtime.calls[asked:]), "it never opened")
    agent.says(id, "before")
    following.lines(1)
    whole.apply(two_services(2))
    agent, new = whole.web(but=id)
    agent.says(new, "after")
    found = following.lines(2)
    assert [text.rpartition("| ")[2] for text in found] == ["before", "after"]
    stop(following)
    wait_until(lambda: agent.streams == 0, "the agent never heard that nobody listens")


def stop(following: Command) -> None:
    """As Ctrl-C does it, in a process where only the main thread could be interrupted."""
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(following.ident or 0), ctypes.py_object(KeyboardInterrupt)
    )
    following.ended(130)


def test_what_is_nowhere_is_said_clearly(whole: LogScene) -> None:
    assert whole.run("logs", "wep", "--json", code=2).trouble() == {
        "code": "unknown_service",
        "message": "there is no service 'wep' in the applied revision, and no node has a container of it",
        "remedy": "did you mean web? services are: api, web",
    }
    assert whole.run("logs", "web/nothing", "--json", code=2).trouble()["code"] == "unknown_component"
    assert whole.run("logs", "web", "-n", "w9", "--json", code=2).trouble()["code"] == "unknown_node"
    agent, _ = whole.web()
    other = next(node for node in whole.agents if node != agent.node)
    trouble = whole.run("logs", "web", "-n", other, "--json", code=1).trouble()
    assert trouble["code"] == "not_running" and other in trouble["message"]
    for words in (("web", "--tail", "-3"), ("web", "--since", "yesterday"), ("WEB",), ("web/",)):
        assert whole.run("logs", *words, "--json", code=2).trouble()["code"] == "usage"


def test_only_who_may_order_it_reads_logs(whole: LogScene) -> None:
    _, eve = operator_signer("eve")
    assert whole.run("logs", "web", "--json", code=3, by=eve).trouble()["code"] == "unknown_operator"


def test_a_reader_of_logs_is_in_the_audit_log_and_leaves_nothing_in_the_journal(whole: LogScene) -> None:
    agent, _ = whole.web()
    world = agent.ports
    before, entries = len(list(world.audit.lines(0, 10_000))), len(world.journal.entries(10_000))
    counter = world.journal.highest_counter()
    whole.run("logs", "web")
    new = [json.loads(text)["event"] for text in list(world.audit.lines(0, 10_000))[before:]]
    assert [(event["principal"], event["action"], event["target"]) for event in new if event["action"] == "logs"] == [
        ("operator:alice", "logs", "service.web")
    ]
    assert len(world.journal.entries(10_000)) == entries and world.journal.highest_counter() == counter + 1


def test_two_who_take_the_same_counter_both_get_what_they_want(whole: LogScene) -> None:
    agent, id = whole.web()
    agent.says(id, "for everybody")
    together = [whole.begin("logs", "web", "--tail", "1") for _ in range(4)]
    for one in together:
        assert "for everybody" in one.ended(0).out


def test_a_node_that_is_away_is_named_and_the_others_are_shown(
    whole: LogScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 6, and what the living one said is on the screen long before."""
    monkeypatch.setattr(logs, "ANSWER_S", 4.0)
    agent, id = whole.web()
    other = next(one for one in whole.agents.values() if one is not agent)
    left = other.placed(whole.hub.fleet_id, mark="away")
    whole.reported(other.node, 1)
    agent.says(id, "I am here")
    opening = other.agent.orders.opening
    streams_, opening.streams = opening.streams, None  # takes no such order: nobody comes
    other.agent.orders.opening.is_meant = lambda delivered: True  # type: ignore[method-assign]
    other.agent.orders.take = lambda delivered: None  # type: ignore[method-assign]
    try:
        watch = Stopwatch()
        found = whole.begin("logs", "web", "--tail", "1", "--json")
        assert "I am here" in found.lines(1)[0] and watch.within(4)
        assert found.ended(6).trouble()["code"] == "no_answer"
    finally:
        opening.streams = streams_
        del other.agent.orders.opening.is_meant, other.agent.orders.take
        other.tell(lambda: other.runtime.vanish(left))


def test_a_hub_that_dies_ends_a_stream_with_a_clear_word(tmp_path: Path) -> None:
    with log_scene(tmp_path) as scene:
        agent, id = scene.web()
        following = scene.begin("logs", "web", "-f", "--json")
        wait_until(lambda: agent.streams == 1, "it never opened")
        agent.says(id, "last words")
        following.lines(1)
        scene.stop_hub()
        trouble = following.ended(6).trouble()
        assert trouble["code"] == "stream_cut" and "--since" in trouble["remedy"]


def test_a_node_with_another_certificate_than_the_pinned_one_shows_nothing(whole: LogScene, tmp_path: Path) -> None:
    """Exit 7: whatever runs there, operators did not sign for it. Exit 5 as long as the revision pins none."""
    agent, id = whole.web()
    agent.says(id, "not for you")
    opening = agent.agent.orders.opening
    real = opening.streams
    assert real is not None
    other = Certified(tmp_path / "other", agent.node)
    link: Any = real._link
    opening.streams = Streams(link, agent.runtime, lambda: other.shown, SystemClock(), lambda event, fields: None)
    try:
        found = whole.run("logs", "web", "--json", code=7)
        assert found.trouble()["code"] == "stream_forged" and found.out == ""
    finally:
        opening.streams = real
    assert "not for you" in whole.run("logs", "web").out


def test_a_node_whose_certificates_nobody_signed_for_yet_is_not_asked(tmp_path: Path) -> None:
    with log_scene(tmp_path, pinned=False) as scene:
        agent, id = scene.web()
        agent.says(id, "too early")
        scene.reported(agent.node, 1)
        found = scene.run("logs", "web", "--json", code=5)
        assert found.trouble()["code"] == "not_pinned" and "holdfast apply" in found.trouble()["remedy"]
        assert found.out == ""


def test_an_issuer_that_a_hub_puts_in_the_place_of_the_pinned_one_is_not_believed(
    whole: LogScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it could answer with certificates of its own: the digest in the signed revision decides."""
    other = Certified(tmp_path / "other", whole.web()[0].node)
    monkeypatch.setattr(issuers, "issuer_of", lambda one: other.pinned.issuer)
    assert whole.run("logs", "web", "--json", code=5).trouble()["code"] == "not_pinned"


# ---- orders that open streams


def opening(
    node: Node,
    journal: MemoryJournal,
    meeting: Meeting,
    hurry: Callable[[], None] = lambda: None,
    audit: MemoryAuditLog | None = None,
) -> tuple[StreamOrders, OrderResults, MemoryAuditLog]:
    audit = audit or MemoryAuditLog(node.clock)
    answers = OrderResults(journal)
    found = StreamOrders(
        journal=journal,
        audit=audit,
        results=answers,
        time=NodeTime(node.clock, journal),
        hurry=hurry,
        streams=station(node, meeting, []),
    )
    return found, answers, audit


def test_an_order_that_is_delivered_again_opens_no_second_stream_and_has_the_same_answer() -> None:
    """I-27; after a restart it is one that was used before."""

    async def story(node: Node) -> None:
        await node.begun()
        journal, meeting = MemoryJournal(), Meeting()
        hurried: list[int] = []
        orders_, answers, audit = opening(node, journal, meeting, lambda: hurried.append(1))
        wanted = proof(follow=True)
        assert orders_.begin(wanted, 1) is None and orders_.known(wanted.order.id, 2)
        await asyncio.sleep(1)
        assert answers.waiting()[0].outcome == "done" and hurried == [1]
        answers.taken([wanted.order.id])
        assert orders_.known(wanted.order.id, 3) and answers.waiting()[0].attempt == 3
        assert len(meeting.papers) == 1 and len(list(audit.lines(0, 10))) == 1
        again, _, _ = opening(node, journal, meeting)
        assert not again.known(wanted.order.id, 4)
        refusal = again.begin(wanted, 4)
        assert refusal is not None and refusal.code == "replayed"
        assert journal.entries() == [] and journal.highest_counter() == wanted.order.counter

    scene(story)


def test_without_an_audit_log_that_can_be_written_nobody_reads() -> None:
    class Full(MemoryAuditLog):
        def append(self, event: Event, durable: bool = True) -> AuditEntry:
            raise Failed("no space is left", remedy="free some", code="no_space")

    async def story(node: Node) -> None:
        await node.begun()
        meeting = Meeting()
        orders_, answers, _ = opening(node, MemoryJournal(), meeting, audit=Full(node.clock))
        orders_.begin(proof(), 1)
        await asyncio.sleep(1)
        assert answers.waiting()[0].code == "no_space" and meeting.papers == []

    scene(story)


# ---- several nodes as one


def test_lines_of_several_nodes_wait_for_whoever_is_behind_and_for_nobody_else() -> None:
    merging = Merging(["w1", "w2"])
    for number in (1, 4):
        merging.add("w1", line(number))
    assert merging.next() is None, "w2 may still have something older"
    for number in (2, 5):
        merging.add("w2", line(number))
    assert [merging.next() for _ in range(4)] == [("w1", line(1)), ("w2", line(2)), ("w1", line(4)), None]
    merging.caught_up("w1")
    assert merging.next() == ("w2", line(5))
    merging.add("w1", line(9))
    assert merging.next() is None
    merging.caught_up("w2")
    assert merging.next() == ("w1", line(9)) and merging.next() is None
    merging.add("w2", line(3))
    assert merging.next() == ("w2", line(3)), "nobody waits any more"


def test_a_terminal_that_does_not_read_makes_the_threads_wait() -> None:
    inbox = Inbox(["w1"])
    taken = 0
    while inbox.put("w1", line(taken), 0.01):
        taken += 1
        assert taken < 10_000
    assert 0 < taken < 1_000
    inbox.late(["w1"])
    assert inbox.take(10, 0.0) == [("w1", line(number)) for number in range(10)]
    assert inbox.put("w1", line(taken), 0.01)


def test_what_a_node_says_last_is_shown_also_if_it_has_left_by_then() -> None:
    inbox = Inbox(["w1", "w2"])
    inbox.put("w1", line(2), 0.0)
    inbox.leave("w1", None)
    assert inbox.take(9, 0.0) == [], "w2 may have an older one"
    inbox.leave("w2", TryLater("gone", remedy="wait"))
    inbox.leave("w2", None)
    assert inbox.take(9, 0.0) == [("w1", line(2))]
    assert [why is None for why in inbox.left.values()] == [True, False], "the first reason counts"


def test_a_silent_or_broken_stream_is_an_error_and_a_slow_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_call, "SILENT_S", 0.2)
    monkeypatch.setattr(log_call, "TICK_S", 0.05)

    class Told:
        """Says what is in the list, then nothing."""

        def __init__(self, *said: bytes | None) -> None:
            self.said = list(said)
            self.heard: list[bytes] = []

        def key(self) -> Any: ...

        def call(self, order: str, key: Any, node: Any) -> "Told":
            return self

        def read(self, at_most_s: float) -> bytes | None:
            time.sleep(0.01)
            return self.said.pop(0) if self.said else None

        def write(self, content: bytes) -> None:
            self.heard.append(content)

        def close(self) -> None: ...

    def ends(*said: bytes | None) -> HoldfastError | None:
        inbox, told_ = Inbox(["w1"]), Told(*said)
        key: Any = None
        call = Call(told_, "o", key, Pinned("w1", b"", ""), inbox)
        call.run()
        assert told_.heard or None not in said, "it says that it is there"
        return inbox.left["w1"]

    with monkeypatch.context() as patient:
        patient.setattr(log_call, "SILENT_S", 60.0)  # a busy machine is no silent node
        assert ends(written([line(1), Alive()]), None, written([Ended()])) is None
    for silent in ((), (written([line(1)]), b"")):
        trouble = ends(*silent)
        assert isinstance(trouble, StreamCut) and trouble.exit_code == 6
    failed = ends(written([Ended("runtime_away", "podman does not answer", "wait")]))
    assert isinstance(failed, Failed) and failed.message == "w1: podman does not answer"
    nonsense = ends(b"{}\n")
    assert nonsense is not None and nonsense.exit_code == 7
