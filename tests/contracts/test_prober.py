"""Every prober looks once, in its time, and says in words what was wrong; no answer of a container makes it raise."""

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.adapters.http_server.loop import new_loop
from holdfast.adapters.prober import accept_queue, grpc_health
from holdfast.adapters.prober.accept_queue import is_left, waits
from holdfast.adapters.prober.memory import MemoryProber
from holdfast.adapters.prober.network import HEAD_MAX, NetworkProber
from holdfast.errors import Failed
from holdfast.model.container import Container, Published
from holdfast.model.fleet import Health
from holdfast.ports.allowed import Allowed
from holdfast.ports.prober import Prober, Snapshotted, Verdict
from holdfast.ports.runtime import Finished
from tests.fleets.waiting import Stopwatch, wait_until

HTTP = Health(type="http", path="/health", port=80, timeout="2s")
SLOW = Health(type="http", path="/health", port=80, timeout="300ms")
TCP = Health(type="tcp", port=80, timeout="2s")
GRPC = Health(type="grpc", port=80, timeout="2s")
OK = b"HTTP/1.1 200 OK\r\n\r\n"
EXEC = Health(type="exec", cmd=("check", "--all"), timeout="300ms")

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def container(name: str = "web", address: str = "127.0.0.1", port: int = 1, running: bool = True) -> Container:
    """Published: nobody needs to be root to listen."""
    return Container(name, name, "running", running, ports=(Published(80, address, port),))


@asynccontextmanager
async def listening(serve: Serve, address: str = "127.0.0.1") -> AsyncIterator[Container]:
    server = await asyncio.start_server(serve, address, 0)
    try:
        yield container(address=address, port=server.sockets[0].getsockname()[1])
    finally:
        server.close()


def answering(content: bytes, *, then: str = "close", pieces: int = 0, asked: list[bytes] | None = None) -> Serve:
    """`then` is what happens behind it: the connection is closed, or stays open with nothing more to come."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        question = await reader.read(4096)
        if asked is not None:
            asked.append(question)
        for at in range(0, len(content), pieces or len(content) or 1):
            writer.write(content[at : at + (pieces or len(content))])
            await writer.drain()
            await asyncio.sleep(0)
        if then == "stay":
            await reader.read()
        writer.close()

    return serve


async def no_exec(id: str, command: Sequence[str], timeout_s: float, allowed: Allowed) -> Finished:
    raise AssertionError("nobody asked for a command")


def look(serve: Serve, health: Health, address: str = "127.0.0.1") -> Verdict:
    async def scene() -> Verdict:
        async with listening(serve, address) as one:
            return await NetworkProber(no_exec).probe(one, health)

    return asyncio.run(scene())


# ---- what every prober promises

Shown = AbstractAsyncContextManager[tuple[Prober, Container]]
Show = Callable[[str], Shown]


@asynccontextmanager
async def in_memory(what: str) -> AsyncIterator[tuple[Prober, Container]]:
    prober, one = MemoryProber(), container(running=what != "gone")
    prober.answers["web"] = [Verdict(what != "sick", "" if what != "sick" else "status 500")]
    if what == "slow":
        prober.slow_s["web"] = 60.0
    yield prober, one


@asynccontextmanager
async def over_http(what: str) -> AsyncIterator[tuple[Prober, Container]]:
    status = b"HTTP/1.1 500 Oh\r\n\r\n" if what == "sick" else b"HTTP/1.1 200 OK\r\n\r\n"
    async with listening(answering(b"" if what == "slow" else status, then="stay")) as one:
        yield NetworkProber(no_exec), container() if what == "gone" else one


@pytest.fixture(params=[in_memory, over_http], ids=["memory", "network"])
def show(request: pytest.FixtureRequest) -> Show:
    made: Show = request.param
    return made


@pytest.mark.parametrize("what", ["well", "sick", "gone", "slow"])
def test_who_is_well_is_well_and_who_is_not_is_so_for_a_reason_and_in_time(show: Show, what: str) -> None:
    async def scene() -> None:
        async with show(what) as (prober, one):
            watch = Stopwatch()
            verdict = await prober.probe(one, SLOW if what == "slow" else HTTP)
            assert watch.within(1.5)
            assert verdict.ok == (what == "well") and (verdict.why == "") == verdict.ok
            if what == "slow":
                assert "300ms" in verdict.why

    asyncio.run(scene())


def test_many_are_asked_at_once_and_each_waits_for_itself_alone(show: Show) -> None:
    async def scene() -> None:
        async with show("well") as (prober, one), show("slow") as (patient, silent):
            asked = [*(prober.probe(one, HTTP) for _ in range(50)), *(patient.probe(silent, HTTP) for _ in range(50))]
            watch = Stopwatch()
            verdicts = await asyncio.gather(*asked)
            assert [v.ok for v in verdicts] == [True] * 50 + [False] * 50
            assert watch.within(10.0), "one after the other is 100 s"

    asyncio.run(scene())


# ---- http


@pytest.mark.parametrize(
    ("status", "ok"), [(200, True), (204, True), (302, True), (399, True), (400, False), (503, False)]
)
def test_a_status_from_200_to_399_is_well(status: int, ok: bool) -> None:
    verdict = look(answering(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode()), HTTP)
    assert verdict.ok == ok and (ok or str(status) in verdict.why)


def test_it_asks_for_the_path_once_and_closes() -> None:
    asked: list[bytes] = []
    health = Health(type="http", path="/a b/ü?x=1", port=80, timeout="1s")
    assert look(answering(b"HTTP/1.0 200 OK\r\n\r\n", asked=asked), health).ok
    (question,) = asked
    lines = question.decode().split("\r\n")
    assert lines[0] == "GET /a%20b/%C3%BC?x=1 HTTP/1.1" and lines[-2:] == ["", ""]
    assert "Connection: close" in lines and any(line.startswith("Host: 127.0.0.1:") for line in lines)


@pytest.mark.parametrize("pieces", [0, 1, 7])
def test_an_answer_may_come_in_pieces_and_be_announced(pieces: int) -> None:
    announced = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
    assert look(answering(announced + b"HTTP/1.1 200 OK\r\n\r\nhello", pieces=pieces, then="stay"), HTTP).ok
    assert not look(answering(announced + b"HTTP/1.1 500 Oh\r\n\r\nhello", pieces=pieces, then="stay"), HTTP).ok
    assert "without an answer" in look(answering(announced, pieces=pieces), HTTP).why


@pytest.mark.parametrize("content", [b"SSH-2.0-x\r\n", b"\0" * 100 + b"\n", b"HTTP/1.1 2000 X\r\n\r\n", b"HTTP/1.1 20"])
def test_what_is_no_http_is_not_well(content: bytes) -> None:
    assert "not with HTTP" in look(answering(content), HTTP).why


def test_an_endless_answer_is_read_no_further_than_need_be() -> None:
    sent = [0]

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while sent[0] < 100 * 2**20:
                writer.write(b"x" * 65536)
                await writer.drain()
                sent[0] += 65536
        except OSError:
            pass
        writer.close()

    assert "not with HTTP" in look(flood, Health(type="http", port=80, timeout="5s")).why
    assert sent[0] < 50 * 2**20 and HEAD_MAX < 2**20


def test_one_that_closes_at_once_is_not_well() -> None:
    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    for health in (HTTP, GRPC):
        for serve in (close, reset):
            why = look(serve, health).why
            assert "without an answer" in why or "reset" in why


# ---- where it asks


def test_its_own_address_comes_first_then_a_published_port() -> None:
    async def scene() -> None:
        prober = NetworkProber(no_exec)
        async with listening(answering(b"HTTP/1.1 200 OK\r\n\r\n")) as one:
            port = one.ports[0].outside
            own = Container("x", "x", "running", True, address="127.0.0.1", ports=(Published(port, "127.0.0.1", 1),))
            assert (await prober.probe(own, Health(type="http", port=port))).ok
            assert (await prober.probe(one, HTTP)).ok
            assert (await prober.probe(one, Health(type="tcp"))).ok  # it has only one
            other = await prober.probe(one, Health(type="http", port=81))
            assert not other.ok and "publish" in other.why
            assert not (await prober.probe(Container("x", "x", "running", True), Health(type="tcp"))).ok

    asyncio.run(scene())


@asynccontextmanager
async def published(health: Health, *, leads: bool, started_s: float) -> AsyncIterator[tuple[Container, Health]]:
    """It answers at its own address. Its published port leads there, or to a socket that accepts nothing: podman holds
    every published port by one."""
    server = await asyncio.start_server(answering(OK), "127.0.0.2", 0)
    port = server.sockets[0].getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as held:
        door = ("127.0.0.2", port) if leads else held.getsockname()
        ports = (Published(port, *door),)
        one = Container("x", "x", "running", True, address="127.0.0.2", ports=ports, started_s=started_s)
        if leads:
            one = replace(one, address="127.0.0.3")  # where nothing listens
        yield one, replace(health, port=port)
    server.close()


@pytest.mark.parametrize("health", [HTTP, TCP], ids=["http", "tcp"])
def test_one_whose_published_port_leads_nowhere_is_not_well_n110(health: Health) -> None:
    """A reload of the firewall takes podman's rules away: visitors waited in vain, and all said that it is live."""

    async def scene() -> None:
        prober, now_s = NetworkProber(no_exec), time.time()
        asks = replace(health, timeout="500ms")
        async with published(asks, leads=False, started_s=now_s - 60) as (one, asked):
            verdict = await prober.probe(one, asked)
            door = one.ports[0].outside
            assert not verdict.ok and f"its published port 127.0.0.1:{door}" in verdict.why, verdict
        async with published(asks, leads=False, started_s=now_s) as (one, asked):
            assert (await prober.probe(one, asked)).ok, "its ports may still be set up"

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scene())


def test_one_that_runs_is_asked_where_visitors_reach_it_n110() -> None:
    async def scene() -> None:
        prober, now_s = NetworkProber(no_exec), time.time()
        async with published(HTTP, leads=True, started_s=now_s - 60) as (one, asked):
            assert (await prober.probe(one, asked)).ok
            assert not (await prober.probe(replace(one, started_s=now_s), asked)).ok

    asyncio.run(scene())


def test_over_ipv6_too() -> None:
    asked: list[bytes] = []
    assert look(answering(b"HTTP/1.1 200 OK\r\n\r\n", asked=asked), HTTP, "::1").ok
    assert b"Host: [::1]:" in asked[0]


# ---- tcp


LISTENS = """
import socket, sys, time
family, address, defer, pause_s = sys.argv[1:]
one = socket.socket(socket.AF_INET6 if family == "6" else socket.AF_INET)
if defer == "1":
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 5)
one.bind((address, 0))
one.listen(8)
print(one.getsockname()[1], flush=True)
time.sleep(float(pause_s))
kept = [one.accept() for _ in range(100)]  # and answers none
"""


@asynccontextmanager
async def a_process(
    family: int, address: str, *, defer: bool = False, pause_s: float = 0.0
) -> AsyncIterator[Container]:
    words = (sys.executable, "-S", "-c", LISTENS, str(family), address, str(int(defer)), str(pause_s))
    server = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    assert server.stdout is not None
    try:
        port = int(await server.stdout.readline())
        reached = "127.0.0.1" if address == "::" else address
        yield replace(container(port=port), address=reached, ports=(Published(port, reached, port),), pid=server.pid)
    finally:
        server.kill()
        await server.wait()


@pytest.mark.parametrize(("family", "address"), [(4, "127.0.0.1"), (6, "::1"), (6, "::")])
def test_a_process_that_hangs_is_not_well_though_the_kernel_connects_t11(family: int, address: str) -> None:
    async def scene() -> None:
        check, prober = Health(type="tcp", timeout="500ms"), NetworkProber(no_exec)
        async with a_process(family, address) as one:
            assert (await prober.probe(one, check)).ok, "it accepts, and answers nothing: that is enough for tcp"
            os.kill(one.pid, signal.SIGSTOP)
            wait_until(lambda: Path(f"/proc/{one.pid}/stat").read_text().rpartition(") ")[2][0] == "T", "it hangs")
            for _ in range(2):
                found = await prober.probe(one, check)
                assert not found.ok and "it does not accept connections" in found.why
            os.kill(one.pid, signal.SIGCONT)
            assert (await prober.probe(one, replace(check, timeout="20s"))).ok

    asyncio.run(scene())


@pytest.mark.parametrize(("defer", "pause_s"), [(True, 0.0), (False, 0.7)])
def test_a_server_that_is_slow_or_wants_data_first_is_not_called_hung_t11(defer: bool, pause_s: float) -> None:
    """With TCP_DEFER_ACCEPT, as of Apache, the kernel keeps a connection back until data comes."""

    async def scene() -> None:
        async with a_process(4, "127.0.0.1", defer=defer, pause_s=pause_s) as one:
            watch = Stopwatch()
            assert (await NetworkProber(no_exec).probe(one, Health(type="tcp", timeout="20s"))).ok
            assert watch.within(pause_s + 1.0)

    asyncio.run(scene())


def test_the_kernel_is_not_asked_about_a_program_that_ends_the_connection_t11(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its table of connections has many rows, and each probe would read it."""

    def read(*ignored: object) -> bool:
        raise AssertionError("it was asked")

    async def scene() -> None:
        monkeypatch.setattr(accept_queue, "waits", read)
        async with listening(answering(b"")) as one:
            port = one.ports[0].outside
            own = replace(one, address="127.0.0.1", pid=os.getpid())
            assert (await NetworkProber(no_exec).probe(own, Health(type="tcp", port=port))).ok

    asyncio.run(scene())


def test_another_connection_that_waits_says_nothing_about_ours_t11() -> None:
    """A server under load has a queue, and takes from it."""
    text = (
        b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        b"   0: 00000000:1F90 00000000:0000 0A 00000000:00000002 00:00000000 00000000     0        0 77\n"
        b"   1: 0700580A:1F90 0100580A:C001 01 00000000:00000000 00:00000000 00000000     0        0 0\n"
        b"   2: 0700580A:1F90 0100580A:C002 01 00000000:00000000 00:00000000 00000000     0        0 78\n"
        b"   3: 0700580A:1F90 0100580A:C003 03 00000000:00000000 00:00000000 00000000     0        0 0\n"
    )
    rows = [line.split() for line in text.splitlines()[1:]]
    left = [port for port in (0xC001, 0xC002, 0xC003) for row in rows if is_left(row, 0x1F90, ("10.88.0.1", port))]
    assert left == [0xC001] and not any(is_left(row, 0x1F90, ("10.88.0.2", 0xC001)) for row in rows)
    assert not waits(1 << 30, 80, ("127.0.0.1", 1)), "nothing is known of a process that is gone"


def test_a_connection_is_enough_for_tcp_and_none_is_not() -> None:
    assert look(answering(b"", then="stay"), TCP).ok
    verdict = asyncio.run(NetworkProber(no_exec).probe(container(), TCP))
    assert verdict == Verdict(False, "127.0.0.1:1: nothing listens there")


@pytest.mark.parametrize("health", [TCP, HTTP, GRPC])
def test_a_connection_may_be_made_late_or_never(health: Health) -> None:
    """The listener's queue is full, so the kernel drops the first packet of the connection and sends it again after a
    second. In the agent's event loop: an agent that waits for many connections uses one handle of the kernel."""

    async def scene() -> None:
        with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, socket.socket() as in_the_queue:
            in_the_queue.connect(listener.getsockname())
            one, prober = container(port=listener.getsockname()[1]), NetworkProber(no_exec)
            never = await prober.probe(one, replace(health, timeout="200ms"))
            assert never.why.endswith("no answer within 200ms")
            late = asyncio.create_task(prober.probe(one, replace(health, timeout="30s")))
            await asyncio.sleep(0.05)
            server = await asyncio.start_server(answering(SERVING if health is GRPC else OK), sock=listener)
            assert await late == Verdict(True)
            server.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scene())


@asynccontextmanager
async def full_queue() -> AsyncIterator[tuple[socket.socket, Container]]:
    """No connection is made there until one is accepted; the kernel tries again after one second."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, socket.socket() as in_the_queue:
        in_the_queue.connect(listener.getsockname())
        yield listener, container(port=listener.getsockname()[1])


def test_an_event_of_a_closed_connection_is_not_taken_for_one_of_the_next() -> None:
    """A program that was just started still has the closed connection, so the kernel still reports its events, with the
    number that the next connection has."""

    async def scene() -> None:
        async with full_queue() as (listener, first), full_queue() as (_, second):
            prober = NetworkProber(no_exec)
            await prober.probe(container(port=1), TCP)  # makes what all probes share
            number = os.dup(0)
            os.close(number)
            closed = asyncio.create_task(prober.probe(first, replace(TCP, timeout="200ms")))
            await asyncio.sleep(0)  # it has its connection by now
            of_another_program = os.dup(number)
            try:
                assert not (await closed).ok
                listener.accept()[0].close()  # from now on the closed one can be made
                verdict = await prober.probe(
                    second, replace(TCP, timeout="4s")
                )  # a busy machine may need the second try
                assert not verdict.ok and verdict.why.endswith("no answer within 4s")
                made = socket.socket(fileno=os.dup(of_another_program))
                assert made.getpeername() == listener.getsockname(), "its event came meanwhile"
                made.close()
            finally:
                os.close(of_another_program)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scene())


# ---- grpc, as grpcio 1.85.1 with grpcio-health-checking 1.85.1 answered this very question

_SETTINGS = "000018040000000000000400400000000500400000000600004000fe0300000001"
_HELLO = f"{_SETTINGS}000004080000000000003f0001000000040100000000"
_HEADERS = (
    "00004e01040000000188400c636f6e74656e742d74797065106170706c69636174696f6e2f677270634014677270632d6163636570742d"
    "656e636f64696e67176964656e746974792c206465666c6174652c20677a6970"
)
_TRAILERS = "00001e010500000001400b677270632d7374617475730130000c677270632d6d65737361676500"
_PING = "0000080600000000003f65869956e4cf22"
SERVING = bytes.fromhex(
    f"{_HELLO}00000408000000000000000005{_PING}{_HEADERS}0000070000000000010000000002080" + "1" + _TRAILERS
)
NOT_SERVING = SERVING.replace(bytes.fromhex("00000000020801"), bytes.fromhex("00000000020802"))
UNKNOWN = bytes.fromhex(f"{_HELLO}{_PING}{_HEADERS}0000050000000000010000000000{_TRAILERS}")
NO_SUCH = bytes.fromhex(
    f"{_HELLO}00005001050000000188400c636f6e74656e742d74797065106170706c69636174696f6e2f67727063400b677270632d737461"
    "747573023132000c677270632d6d657373616765114d6574686f64206e6f7420666f756e6421"
)
# Accepted by that server with the authority it has here; nothing of it may change without asking a real one again.
QUESTION = bytes.fromhex(
    "505249202a20485454502f322e300d0a0d0a534d0d0a0d0a00000604000000000000020000000000004e0104000000018386"
    "041c2f677270632e6865616c74682e76312e4865616c74682f436865636b010c3132372e302e302e313a38300f1010617070"
    "6c69636174696f6e2f677270630002746508747261696c6572730000050001000000010000000000"
)


@pytest.mark.parametrize("pieces", [0, 1, 10])
def test_grpc_is_well_only_when_it_says_serving(pieces: int) -> None:
    assert look(answering(SERVING, pieces=pieces, then="stay"), GRPC).ok
    assert "NOT_SERVING" in look(answering(NOT_SERVING, pieces=pieces, then="stay"), GRPC).why
    assert "UNKNOWN" in look(answering(UNKNOWN, pieces=pieces, then="stay"), GRPC).why
    assert "grpc.health.v1" in look(answering(NO_SUCH, pieces=pieces, then="stay"), GRPC).why


def test_the_question_is_the_one_a_real_server_took() -> None:
    assert grpc_health.request("127.0.0.1:80") == QUESTION


def test_what_the_other_side_waits_for_is_answered() -> None:
    answer = grpc_health.Answer()
    answer.take(bytes.fromhex(_HELLO + _PING))
    assert answer.said is None
    assert answer.reply == bytes.fromhex("000000040100000000" + "0000080601000000003f65869956e4cf22")


def frame(kind: int, flags: int, payload: bytes, stream: int = 1) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP/2"),
        (frame(7, 0, b"\0" * 8, 0), "closed the connection before"),
        (frame(3, 0, b"\0\0\0\x08"), "error 8"),
        (frame(0, 0, b"\1\0\0\0\2\x08\x01"), "grpc.health.v1"),  # compressed, which nobody offered
        (frame(0, 1, b"\0\0\0\0\2\x08"), "grpc.health.v1"),  # ends in the middle
        (frame(0, 0, b"\0\0\0\0\2\x08\x09"), "status 9"),
        (frame(0, 0, b"\0\0\0\0\2\x08\x01", stream=3), "no answer within"),  # of another question
        (frame(6, 1, b"\0" * 16000, 0) * 5, "HTTP/2"),  # endless
    ],
)
def test_what_else_may_come_instead_of_a_grpc_answer(content: bytes, word: str) -> None:
    verdict = look(answering(content, then="stay"), GRPC)
    assert not verdict.ok and word in verdict.why


def snapshot(content: bytes, timeout_s: float = 2.0, asked: list[bytes] | None = None) -> Snapshotted:
    async def scene() -> Snapshotted:
        async with listening(answering(content, then="stay", asked=asked)) as one:
            return await NetworkProber(no_exec).snapshot(one, 80, timeout_s, Allowed("EXEC", one.id))

    return asyncio.run(scene())


def message(body: bytes) -> bytes:
    return frame(0, 0, b"\0" + len(body).to_bytes(4, "big") + body)


def test_a_service_that_made_a_snapshot_names_its_file_m_50() -> None:
    questions: list[bytes] = []
    body = b"\x08\x01\x1a\x0a/data/copy\x20\x07"  # and a field that is not known
    assert snapshot(message(body), asked=questions) == Snapshotted(True, path="/data/copy")
    assert b"/holdfast.v1.SnapshotService/Snapshot" in questions[0]
    assert snapshot(message(b"\x08\x01")) == Snapshotted(True), "without a file"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (message(b"\x12\x06locked"), "locked"),
        (message(b""), "without success"),
        (message(b"\x08\x02\x1a\x01/"), "without success"),
        (message(b"\x08\x01\x1a\x7f/data"), "no SnapshotResponse"),
        (message(b"\x08\x01\x1a"), "no SnapshotResponse"),
        (message(b"\x08" + b"\xff" * 12), "no SnapshotResponse"),
        (message(b"\x0d\x01\0\0\0"), "no SnapshotResponse"),
        (message(b"\x08\x01\x1a\x02\xff\xfe"), "no SnapshotResponse"),
        (frame(1, 5, b"\x88"), "check that it serves holdfast.v1.SnapshotService"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP/2"),
    ],
)
def test_any_other_answer_is_no_snapshot(content: bytes, why: str) -> None:
    found = snapshot(content)
    assert not found.ok and why in found.why


def test_a_service_that_does_not_answer_makes_no_snapshot() -> None:
    assert "no answer within 0.2 s" in snapshot(b"", timeout_s=0.2).why
    gone = asyncio.run(NetworkProber(no_exec).snapshot(container(), 80, 1.0, Allowed("EXEC", "web")))
    assert not gone.ok and "nothing listens" in gone.why


def test_padding_is_taken_off() -> None:
    assert look(answering(frame(0, 8, b"\x03\0\0\0\0\2\x08\x01\0\0\0"), then="stay"), GRPC).ok


# ---- a command


def test_a_command_is_run_in_the_container_and_its_exit_code_counts() -> None:
    asked: list[tuple[str, tuple[str, ...], float]] = []

    async def scene(finished: Finished | Exception | float) -> Verdict:
        async def run(id: str, command: Sequence[str], timeout_s: float, allowed: Allowed) -> Finished:
            asked.append((id, tuple(command), timeout_s))
            if isinstance(finished, Exception):
                raise finished
            if isinstance(finished, float):
                await asyncio.sleep(finished)
                return Finished(0, "")
            return finished

        return await NetworkProber(run).probe(container(), EXEC, Allowed("EXEC", "web"))

    assert asyncio.run(scene(Finished(0, "fine"))) == Verdict(True)
    assert asked == [("web", ("check", "--all"), 0.3)]
    assert asyncio.run(scene(Finished(3, "one\ntwo\n"))) == Verdict(False, "check: exit code 3: two")
    assert "socket is away" in asyncio.run(scene(Failed("the socket is away", remedy="start it"))).why
    watch = Stopwatch()
    assert "300ms" in asyncio.run(scene(60.0)).why
    assert watch.within(3.0)


# ---- what only the one in memory can do


def test_answers_come_in_their_order_and_the_last_one_stays() -> None:
    async def scene() -> None:
        prober, sick = MemoryProber(), Verdict(False, "starting")
        prober.answers["web"] = [sick, sick, Verdict(True)]
        assert [(await prober.probe(container(), HTTP)).ok for _ in range(4)] == [False, False, True, True]
        prober.script("hello:sick", sick)
        assert not (await prober.probe(replace(container("new"), image="hello:sick"), TCP)).ok
        assert (await prober.probe(container("other"), TCP)).ok
        assert list(prober.asked) == ["web"] * 4 + ["new", "other"]

    asyncio.run(scene())
