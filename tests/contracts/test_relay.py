"""Streams through a hub: the two ends that belong together meet, whoever else is there hears and says nothing."""

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.adapters.stream_link import caller_key
from holdfast.adapters.stream_link.command import CommandStreams
from holdfast.adapters.stream_link.http import HttpNodeStreams
from holdfast.adapters.stream_link.memory import MemoryMeetings
from holdfast.adapters.tls.server import server_context
from holdfast.errors import HoldfastError, Limited
from holdfast.hub.orders import relay
from holdfast.hub.orders.relay import Half, Relay
from holdfast.model import canonical
from holdfast.model.certificate import CertificateFacts, Issued
from holdfast.model.order import FORMAT, Order
from holdfast.model.principal import Principal
from holdfast.model.stream import PROTOCOL, LogsWanted
from holdfast.ports.stream_link import (
    CallerKey,
    CallerStreams,
    Channel,
    NodeStreams,
    Pinned,
    StreamCut,
    StreamForged,
    Talk,
)
from holdfast.wire import codec
from tests.fleets.build import commit, mailbox, operator_signer, small_fleet
from tests.fleets.serving import ALICE, Caller, Machine, Person, Served, key_of, served
from tests.fleets.streams import Certified, caller_end, logs_order, node_end, relayed
from tests.fleets.waiting import Stopwatch

T = TypeVar("T")
MIB = 1024 * 1024


class Scene(Protocol):
    """One fleet with the node w1, its certificates, and both ends of whatever relays."""

    node: NodeStreams
    caller: CallerStreams
    shown: Issued
    pinned: Pinned
    strange: Pinned  # another node's

    def order(self, key: CallerKey) -> str: ...


class InMemory:
    def __init__(self) -> None:
        meetings = MemoryMeetings(wait_s=1.0)
        self.node: NodeStreams = meetings
        self.caller: CallerStreams = meetings
        facts = CertificateFacts("d", ("w1.nodes.test",), (), 0.0, 9e9)
        self.shown = Issued(b"leaf issuer", b"", facts)
        self.pinned = Pinned("w1", b"issuer", "w1.nodes.test")
        self.strange = Pinned("w1", b"another", "w1.nodes.test")
        self._orders = iter(range(1_000))

    def order(self, key: CallerKey) -> str:
        return f"order {next(self._orders)}"


class OverHttp:
    """A real hub with TLS; both ends dial it."""

    def __init__(self, hub: Served, folder: Path) -> None:
        self.hub = hub
        hub.joined("w1")
        self.node: NodeStreams = self.node_streams("w1")
        self.caller: CallerStreams = CommandStreams(hub.link, SystemClock())
        certified, other = Certified(folder / "w1", "w1"), Certified(folder / "other", "w1")
        self.shown, self.pinned, self.strange = certified.shown, certified.pinned, other.pinned

    def node_streams(self, name: str) -> HttpNodeStreams:
        hub = self.hub
        return HttpNodeStreams(hub.url, hub.hub_key, key_of(name), lambda: hub.fleet_id, SystemClock(), SystemRandom())

    def order(self, key: CallerKey) -> str:
        signed, id = logs_order(self.hub.fleet_id, "w1", LogsWanted(key.certificate))
        assert self.hub.signed("POST", "/v1/orders", codec.write(signed)).status == 200
        return id


@contextmanager
def over_http(folder: Path) -> Iterator[OverHttp]:
    hub = mailbox(clock=SystemClock())
    bob, _ = operator_signer("bob")
    fleet = small_fleet(("web",), ("w1", "w2"))
    commit(hub, small_fleet(("web",), ("w1", "w2"), operators=(*fleet.operators, bob)))
    with served(hub) as running:
        yield OverHttp(running, folder)


@pytest.fixture
def http(tmp_path: Path) -> Iterator[OverHttp]:
    with over_http(tmp_path) as scene:
        yield scene


@pytest.fixture(params=["memory", "http"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    if request.param == "memory":
        yield InMemory()
        return
    with over_http(tmp_path) as found:
        yield found


async def met(scene: Scene, order: str, key: CallerKey, wanted: bytes, pinned: Pinned) -> tuple[Channel, Talk]:
    """Both ends, or the first trouble of either; the other one's is looked at, too."""
    node = asyncio.ensure_future(scene.node.answer(order, scene.shown, wanted))
    caller = asyncio.ensure_future(asyncio.to_thread(scene.caller.call, order, key, pinned))
    await asyncio.wait({node, caller})
    return node.result(), caller.result()


async def said(talk: Talk, size: int) -> bytes:
    found = b""
    while len(found) < size and (piece := await asyncio.to_thread(talk.read, 60.0)):
        found += piece
    return found


def play(story: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(240):
            return await story

    return asyncio.run(bounded())


async def code(work: Coroutine[Any, Any, Any]) -> str:
    try:
        await work
    except HoldfastError as trouble:
        assert trouble.remedy
        return trouble.code
    return "done"


# ---- both products


def test_what_one_end_says_the_other_hears_and_an_end_is_heard_as_well(scene: Scene) -> None:
    async def story() -> None:
        key = scene.caller.key()
        channel, talk = await met(scene, scene.order(key), key, key.certificate, scene.pinned)
        await channel.write(b"line 1\n")
        assert await said(talk, 7) == b"line 1\n"
        await asyncio.to_thread(talk.write, b"alive")
        assert await channel.read() == b"alive"
        assert await asyncio.to_thread(talk.read, 0.05) is None, "nothing came, and nobody left"
        await channel.write(b"last words")
        await channel.close()
        assert await said(talk, 100) == b"last words"
        assert await asyncio.to_thread(talk.read, 60.0) == b""

    play(story())


def test_a_caller_who_leaves_is_missed_by_the_node(scene: Scene) -> None:
    async def story() -> None:
        key = scene.caller.key()
        channel, talk = await met(scene, scene.order(key), key, key.certificate, scene.pinned)
        talk.close()
        assert await channel.read() == b""
        with pytest.raises(StreamCut):
            for _ in range(2_000):  # the first ones may still fit into some buffer
                await channel.write(b"x" * 65536)

    play(story())


def test_a_caller_with_another_key_than_the_signed_one_is_refused(scene: Scene) -> None:
    async def story() -> None:
        key, other = scene.caller.key(), scene.caller.key()
        order = scene.order(key)
        node = asyncio.ensure_future(code(scene.node.answer(order, scene.shown, key.certificate)))

        def call() -> bytes | None:
            return scene.caller.call(order, other, scene.pinned).read(5.0)

        with pytest.raises(StreamForged):  # with TLS 1.3 a caller learns it when he first listens
            assert await asyncio.to_thread(call) == b""
        assert await node == "stream_forged"

    play(story())


def test_another_node_is_not_taken_for_the_pinned_one(scene: Scene) -> None:
    async def story() -> None:
        key = scene.caller.key()
        with pytest.raises(StreamForged):
            await met(scene, scene.order(key), key, key.certificate, scene.strange)

    play(story())


def test_whoever_waits_in_vain_is_told_so(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "MEET_S", 1.0)
    order = scene.order(scene.caller.key())

    async def story() -> str:
        key = scene.caller.key()
        return await code(scene.node.answer(order, scene.shown, key.certificate))

    assert play(story()) == "nobody_came"
    with pytest.raises(HoldfastError) as found:
        scene.caller.call(order, scene.caller.key(), scene.pinned)
    assert (found.value.code, found.value.exit_code) == ("nobody_came", 6)


def test_a_slow_reader_makes_the_writer_wait_and_loses_nothing(scene: Scene) -> None:
    """No more than what fits into buffers of fixed size is ever on its way."""

    async def story() -> None:
        key = scene.caller.key()
        channel, talk = await met(scene, scene.order(key), key, key.certificate, scene.pinned)
        sent = 0

        async def pour() -> None:
            nonlocal sent
            for number in range(1_600):
                await channel.write(number.to_bytes(4) * 16_384)
                sent += 65_536
            await channel.close()

        pouring = asyncio.ensure_future(pour())
        before = -1
        while not sent or before != sent:  # until it stands still
            before = sent
            await asyncio.sleep(0.5)
        assert 0 < sent < 40 * MIB and not pouring.done()
        found, size = bytearray(), 0
        while piece := await asyncio.to_thread(talk.read, 60.0):
            size += len(piece)
            found = (found + piece)[-4:]
        await pouring
        assert (size, bytes(found)) == (1_600 * 65_536, (1_599).to_bytes(4))

    play(story())


# ---- the hub's part


def ask(http: OverHttp, order: str, who: Caller, upgrade: str = PROTOCOL) -> tuple[int, str]:
    reply = http.hub.signed("GET", f"/v1/streams/{order}", as_=who, Connection="Upgrade", Upgrade=upgrade)
    return reply.status, reply.json()["code"]


def test_only_who_ordered_and_the_node_it_is_for_may_come(http: OverHttp) -> None:
    order = http.order(caller_key.make(time.time()))
    bob = Person("bob", operator_signer("bob")[1])
    assert ask(http, order, http.hub.joined("w2")) == (403, "permission_denied")
    assert ask(http, order, bob) == (403, "permission_denied")
    assert ask(http, order, http.hub.token()) == (403, "permission_denied")
    assert ask(http, order, Machine("a stranger")) == (403, "permission_denied")
    assert ask(http, "0" * 32, ALICE) == (404, "not_found")
    assert ask(http, order, ALICE, "websocket") == (400, "upgrade_required")
    refused = [event for event in http.hub.denials(4) if event.action == "stream"]
    assert {event.principal for event in refused} >= {"node:w2", "operator:bob"}


def test_an_order_of_another_kind_opens_no_stream(http: OverHttp) -> None:
    relay_ = Relay()
    order = Order(FORMAT, "f" * 64, "a" * 32, "w1", "node.w1", "ping", "0" * 64, 1, "b" * 32, 0, 9)
    relay_.expect(order, Principal("operator", "alice"), 0.0)
    with pytest.raises(HoldfastError) as found:
        play(relay_.meet("a" * 32, Principal("operator", "alice"), 1.0, lambda: False))
    assert found.value.code == "not_found"


def test_a_stream_is_met_once(http: OverHttp) -> None:
    async def story() -> None:
        key = http.caller.key()
        order = http.order(key)
        channel, talk = await met(http, order, key, key.certificate, http.pinned)
        assert await asyncio.to_thread(ask, http, order, ALICE) == (404, "not_found")
        await channel.write(b"still here")
        assert await said(talk, 10) == b"still here"
        talk.close()

    play(story())


def test_a_hub_that_stops_cuts_streams_and_does_not_wait_for_them(tmp_path: Path) -> None:
    async def story(http: OverHttp) -> tuple[Channel, Talk]:
        key = http.caller.key()
        return await met(http, http.order(key), key, key.certificate, http.pinned)

    with over_http(tmp_path) as http:
        _, talk = play(story(http))
        watch = Stopwatch()
    assert watch.within(4)
    assert talk.read(60.0) == b""


def opened(relay_: Relay, number: int, node: str, operator: str) -> relay.Meeting:
    order = Order(FORMAT, "f" * 64, f"{number:032x}", node, "service.x", "logs", "0" * 64, 1, "b" * 32, 0, 9)
    relay_.expect(order, Principal("operator", operator), 0.0)

    async def both() -> relay.Meeting:
        first = asyncio.ensure_future(relay_.meet(order.id, Principal("node", node), 0.0, lambda: False))
        await asyncio.sleep(0)
        second, _ = await relay_.meet(order.id, Principal("operator", operator), 0.0, lambda: False)
        await first
        return second

    return play(both())


def test_streams_are_counted_by_node_and_by_operator_and_given_back() -> None:
    relay_ = Relay()
    per_node, per_operator = relay.MOST["node"], relay.MOST["operator"]
    there = [opened(relay_, number, "w1", f"o{number}") for number in range(per_node)]
    with pytest.raises(Limited, match="node w1"):
        opened(relay_, 100, "w1", "somebody")
    there += [opened(relay_, 200 + number, f"n{number}", "alice") for number in range(per_operator)]
    with pytest.raises(Limited, match="operator alice"):
        opened(relay_, 300, "w2", "alice")
    for meeting in there:
        relay_.leave(meeting)
    assert relay_.open == 0
    opened(relay_, 101, "w1", "alice")


def test_somebody_who_left_while_waiting_may_come_again() -> None:
    relay_ = Relay()
    order = Order(FORMAT, "f" * 64, "c" * 32, "w1", "service.x", "logs", "0" * 64, 1, "b" * 32, 0, 9)
    alice, node = Principal("operator", "alice"), Principal("node", "w1")
    relay_.expect(order, alice, 0.0)

    async def story() -> None:
        gone = asyncio.ensure_future(relay_.meet(order.id, alice, 0.0, lambda: True))
        with pytest.raises(ConnectionError):
            await gone
        again = asyncio.ensure_future(relay_.meet(order.id, alice, 0.0, lambda: False))
        await asyncio.sleep(0)
        with pytest.raises(HoldfastError) as twice:
            await relay_.meet(order.id, alice, 0.0, lambda: False)
        assert twice.value.code == "taken"
        meeting, end = await relay_.meet(order.id, node, 0.0, lambda: False)
        assert end == "node" and (await again)[0] is meeting

    play(story())


def test_what_nobody_came_for_is_forgotten() -> None:
    relay_ = Relay()
    alice = Principal("operator", "alice")
    order = Order(FORMAT, "f" * 64, "d" * 32, "w1", "service.x", "logs", "0" * 64, 1, "b" * 32, 0, 9)
    relay_.expect(order, alice, 0.0)
    with pytest.raises(HoldfastError) as found:
        play(relay_.meet(order.id, alice, relay.EXPECTED_S, lambda: False))
    assert found.value.code == "not_found"


class SlowLine:
    """A connection whose peer reads nothing until told."""

    def __init__(self) -> None:
        self.paused = False
        self.free = asyncio.Event()
        self.got = 0

    def pause(self) -> None:
        assert not self.paused
        self.paused = True

    def resume(self) -> None:
        assert self.paused
        self.paused = False

    async def send(self, piece: bytes) -> None:
        self.got += len(piece)
        await self.free.wait()


def test_a_hub_holds_one_buffer_each_way_and_then_stops_reading() -> None:
    async def story() -> None:
        meeting = opened_here()
        lines = SlowLine(), SlowLine()
        node, operator = Half(lines[0]), Half(lines[1])
        running = [
            asyncio.ensure_future(meeting.run("node", node)),
            asyncio.ensure_future(meeting.run("operator", operator)),
        ]
        fed = 0
        while not lines[0].paused:
            node.feed(b"x" * 4_096)
            fed += 4_096
            await asyncio.sleep(0)
            assert fed < 10 * relay.BUFFER_BYTES
        assert fed <= 2 * relay.BUFFER_BYTES + 4_096, "one with the slow reader, one here"
        lines[1].free.set()
        while lines[1].got < fed:
            await asyncio.sleep(0)
        assert not lines[0].paused
        node.over()
        await asyncio.gather(*running)

    play(story())


def opened_here() -> relay.Meeting:
    return relay.Meeting("e" * 32, "w1", "alice", 60.0)


def test_a_stream_in_which_nothing_moves_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "IDLE_S", 0.2)

    async def story() -> bool:
        meeting = opened_here()
        watch = Stopwatch()
        await asyncio.gather(*(meeting.run(end, Half(SlowLine())) for end in ("node", "operator")))
        return watch.wall_s > 0.15 and watch.within(2)

    assert play(story())


# ---- a hub that is not honest


Ends = tuple[Certified, CallerKey]


@pytest.fixture
def ends(tmp_path: Path) -> Ends:
    return Certified(tmp_path / "w1", "w1"), caller_key.make(time.time())


async def both(
    node: Coroutine[Any, Any, Channel], call: Callable[[], Talk]
) -> tuple[Channel | HoldfastError, Talk | HoldfastError | bytes | None]:
    """What each end comes to; a caller who got through listens once, because only then he hears of a refusal."""
    answering = asyncio.ensure_future(node)

    def listen() -> bytes | None:
        return call().read(60.0)

    results = await asyncio.gather(asyncio.to_thread(listen), answering, return_exceptions=True)
    for result in results:
        assert not isinstance(result, Exception) or isinstance(result, HoldfastError), result
    return results[1], results[0]  # type: ignore[return-value]


def test_pipes_that_a_hub_swaps_show_nothing(tmp_path: Path) -> None:
    """Two streams to one node: each is worth something to its own caller alone."""
    w1 = Certified(tmp_path / "w1", "w1")
    one, two = caller_key.make(time.time()), caller_key.make(time.time())

    async def story() -> None:
        with relayed(2) as (a, b):
            for pipe, wanted, key in ((a, one, two), (b, two, one)):
                channel, heard = await both(
                    node_end(pipe.node, w1.shown, wanted.certificate), partial(caller_end, pipe.caller, key, w1.pinned)
                )
                assert isinstance(channel, StreamForged) and isinstance(heard, StreamForged)

    play(story())


@pytest.mark.parametrize(("up", "down"), [(40, -1), (300, -1), (-1, 60), (-1, 700), (-1, 1_400), (-1, 1_900)])
def test_bytes_that_a_hub_changes_are_noticed_wherever_they_are(ends: Ends, up: int, down: int) -> None:
    """In the handshake or in what is said: the caller is shown a beginning of the truth, and then the error."""
    w1, key = ends
    lines = [b"line %02d" % number for number in range(20)]
    shown: list[bytes] = []

    async def tell(sock: socket.socket) -> None:
        channel = await node_end(sock, w1.shown, key.certificate)
        for line in lines:
            await channel.write(line)
            await asyncio.sleep(0.005)
        await channel.close()

    def listen(sock: socket.socket) -> None:
        talk = caller_end(sock, key, w1.pinned)
        while piece := talk.read(60.0):
            shown.append(piece)
        talk.close()

    async def story() -> Sequence[BaseException | None]:
        with relayed(1, flipping(up), flipping(down)) as (pipe,):
            return await asyncio.gather(tell(pipe.node), asyncio.to_thread(listen, pipe.caller), return_exceptions=True)

    failures = play(story())
    assert any(isinstance(trouble, StreamForged) for trouble in failures), failures
    assert b"".join(lines).startswith(b"".join(shown))


def flipping(at: int) -> Callable[[bytes], bytes]:
    passed = 0

    def bend(piece: bytes) -> bytes:
        nonlocal passed
        found = bytearray(piece)
        if passed <= at < passed + len(piece):
            found[at - passed] ^= 1
        passed += len(piece)
        return bytes(found)

    return bend


def test_a_recorded_stream_played_again_shows_nothing(ends: Ends) -> None:
    w1, key = ends

    async def record() -> bytes:
        with relayed() as (pipe,):
            answering = asyncio.ensure_future(node_end(pipe.node, w1.shown, key.certificate))
            talk = await asyncio.to_thread(caller_end, pipe.caller, key, w1.pinned)
            channel = await answering
            await channel.write(b"secret line")
            assert await said(talk, 11) == b"secret line"
            return bytes(pipe.down)

    recording = play(record())
    assert b"secret" not in recording, "what the hub saw"

    def listen() -> bytes | None:
        with relayed() as (pipe,):
            pipe.node.sendall(recording)
            return caller_end(pipe.caller, key, w1.pinned).read(2.0)

    with pytest.raises(StreamForged):
        listen()


def test_a_hub_that_calls_by_itself_hears_nothing(ends: Ends, tmp_path: Path) -> None:
    """With a key of its own, with none, and with the right certificate but not its key."""
    w1, key = ends
    other = caller_key.make(time.time())
    stolen = CallerKey(key.certificate, other.chain, other.private)

    async def story(mine: CallerKey) -> None:
        with relayed() as (pipe,):
            channel, heard = await both(
                node_end(pipe.node, w1.shown, key.certificate), lambda: caller_end(pipe.caller, mine, w1.pinned)
            )
            assert isinstance(channel, StreamForged | StreamCut)
            assert not heard or isinstance(heard, StreamForged)

    play(story(other))
    play(story(stolen))


def test_another_nodes_agent_is_not_believed(ends: Ends, tmp_path: Path) -> None:
    """w2 with its own certificates; w2 that names itself w1; and w1's own listener, which speaks of other things."""
    w1, key = ends
    for folder, name in (("w2", "w2"), ("false", "w1")):
        other = Certified(tmp_path / folder, name)

        async def story(other: Certified = other) -> None:
            with relayed() as (pipe,):
                channel, heard = await both(
                    node_end(pipe.node, other.shown, key.certificate), lambda: caller_end(pipe.caller, key, w1.pinned)
                )
                assert isinstance(heard, StreamForged) and isinstance(channel, StreamForged | StreamCut)

        play(story())
    with relayed() as (pipe,):
        context = server_context(w1.shown.chain, w1.shown.private)
        pipe.node.settimeout(60)
        listener = threading.Thread(target=lambda: _listen(context, pipe.node), daemon=True)
        listener.start()
        with pytest.raises(StreamForged, match=r"does not offer the protocol of log streams|no application protocol"):
            caller_end(pipe.caller, key, w1.pinned)
        listener.join(60)


def _listen(context: Any, sock: Any) -> None:
    import ssl
    from contextlib import suppress

    with suppress(OSError, ssl.SSLError):
        context.wrap_socket(sock, server_side=True).recv(10)


def test_a_thousand_lines_a_second_pass(http: OverHttp) -> None:
    from holdfast.agent.orders.streams import converse
    from holdfast.model.stream import CaughtUp, Ended, Frame, StreamedLine
    from holdfast.wire.stream import Frames

    lines = 5_000

    async def frames() -> AsyncIterator[Frame]:
        for number in range(lines):
            yield StreamedLine("c" * 64, "app", 0, 1.0 + number, False, f"{number} " + "x" * 150)
        yield CaughtUp()

    async def story() -> bool:
        key = http.caller.key()
        channel, talk = await met(http, http.order(key), key, key.certificate, http.pinned)
        watch = Stopwatch()
        telling = asyncio.ensure_future(converse(channel, frames()))  # type: ignore[arg-type]
        read, found = Frames(), []
        while piece := await asyncio.to_thread(talk.read, 60.0):
            found += read.feed(piece)
            if isinstance(found[-1], Ended):
                break
        talk.close()
        await telling
        assert [frame.text.split()[0] for frame in found if isinstance(frame, StreamedLine)] == list(
            map(str, range(lines))
        )
        assert found[-1] == Ended()
        return watch.within(lines / 1_000)

    assert play(story())


def test_a_stream_has_one_text_of_its_order() -> None:
    from holdfast.wire.stream import arguments, logs_wanted

    wanted = LogsWanted(b"der", "app", True, 5, 12.5, 0.0)
    assert logs_wanted(arguments(wanted)) == wanted
    assert logs_wanted(arguments(LogsWanted(b"der"))) == LogsWanted(b"der")
    good = arguments(wanted)
    spoiled: list[dict[str, str]] = [
        {},
        good | {"caller": ""},
        good | {"caller": "!"},
        good | {"component": "../x"},
        good | {"follow": "yes"},
        good | {"tail": "-1"},
        good | {"tail": "9" * 11},
        good | {"since_s": "nan"},
        good | {"ago_s": "1e9"},
        good | {"exec": "sh"},
    ]
    for bad in spoiled:
        with pytest.raises(HoldfastError) as found:
            logs_wanted(bad)
        assert found.value.code == "stream_arguments", bad
    assert canonical.encode(good)
