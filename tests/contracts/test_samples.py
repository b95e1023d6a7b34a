"""The sample programs of the lab, run as they are in their images, asked by clients that everybody uses."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
import grpc  # type: ignore[import-untyped]
import pytest

from holdfast.lab import samples
from tests.fleets.ports import free_port

LISTENING_S_MAX = 60.0
ANSWER_S_MAX = 60


@contextmanager
def running(name: str, **env: str) -> Iterator[int]:
    """The port it answers on; told to stop, it ends by itself."""
    port = free_port()
    server = subprocess.Popen(
        [samples.program(name)], env={**os.environ, **env, "SAMPLE_PORT": str(port)}, stderr=subprocess.DEVNULL
    )
    try:
        await_listening(server, port)
        yield port
    finally:
        server.terminate()
        code = server.wait(60)
    assert code == 0


def await_listening(server: subprocess.Popen[bytes], port: int) -> None:
    give_up_s = time.monotonic() + LISTENING_S_MAX
    while time.monotonic() < give_up_s and server.poll() is None:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except ConnectionRefusedError:
            time.sleep(0.01)
    raise AssertionError("it does not listen")


# ---- greeter


@pytest.fixture(scope="module")
def greeter() -> Iterator[grpc.Channel]:
    with (
        running("greeter", GREETER_VERSION="1", GREETER_INSTANCE="one") as port,
        grpc.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        yield channel


def test_greeter_says_its_version_and_instance_over_grpc(greeter: grpc.Channel) -> None:
    hello = greeter.unary_unary("/greeter.Greeter/Hello")
    assert hello(b"", timeout=ANSWER_S_MAX) == b"\x0a\x011\x12\x03one"
    calls = [hello.future(b"", timeout=ANSWER_S_MAX) for _ in range(200)]
    assert {call.result() for call in calls} == {b"\x0a\x011\x12\x03one"}, "many streams on one connection"


def test_greeter_is_healthy_and_says_what_it_cannot(greeter: grpc.Channel) -> None:
    health = greeter.unary_unary("/grpc.health.v1.Health/Check")
    assert health(b"", timeout=ANSWER_S_MAX) == b"\x08\x01", "status = SERVING"
    with pytest.raises(grpc.RpcError) as refused:
        greeter.unary_unary("/greeter.Greeter/Sing")(b"", timeout=ANSWER_S_MAX)
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_greeter_stops_in_time_while_somebody_is_connected() -> None:
    with running("greeter") as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        channel.unary_unary("/greeter.Greeter/Hello")(b"", timeout=ANSWER_S_MAX)


# ---- hello


@pytest.fixture(scope="module")
def hello() -> Iterator[str]:
    with running("hello", HELLO_VERSION="1", HELLO_INSTANCE="one") as port:
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("size", [0, 1, 125, 126, 5000, 65535])
def test_hello_echoes_messages_of_every_length_over_websocket(hello: str, size: int) -> None:
    async def talk() -> None:
        async with aiohttp.ClientSession() as session, session.ws_connect(f"{hello}/ws") as link:
            await link.ping(b"are you there")
            await link.send_str("x" * size)
            assert (await link.receive(ANSWER_S_MAX)).data == "x" * size
            await link.send_bytes(b"\x00\xff")
            assert (await link.receive(ANSWER_S_MAX)).data == b"\x00\xff"
            await link.close()
            assert link.close_code == 1000

    asyncio.run(talk())


def test_hello_refuses_frames_that_are_too_big_or_against_the_rules(hello: str) -> None:
    async def talk() -> None:
        async with aiohttp.ClientSession() as session:
            async with session.ws_connect(f"{hello}/ws") as link:
                await link.send_str("x" * 65536)
                assert (await link.receive(ANSWER_S_MAX)).data == 1009
            async with session.get(f"{hello}/ws") as plain:
                assert plain.status == 404, "somebody who asks for no WebSocket"

    asyncio.run(talk())
    answer = b""
    with socket.create_connection(("127.0.0.1", int(hello.rpartition(":")[2])), timeout=ANSWER_S_MAX) as link:
        key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        link.sendall(b"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + key + b"\r\n")
        while not answer.endswith(b"\r\n\r\n"):
            answer += link.recv(4096)
        assert b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in answer, "the example of RFC 6455"
        link.sendall(b"\x81\x02hi")  # not masked
        assert link.recv(4096) == b"\x88\x02\x03\xea" and link.recv(1) == b""


def test_hello_is_slow_when_asked_to(hello: str) -> None:
    async def ask() -> float:
        async with aiohttp.ClientSession() as session:
            began_s = time.monotonic()
            async with session.get(f"{hello}/slow?ms=300") as reply:
                assert await reply.json() == {"version": "1", "instance": "one"}
            return time.monotonic() - began_s

    assert asyncio.run(ask()) >= 0.3


def test_hello_finishes_what_it_was_asked_before_it_stops() -> None:
    async def ask(port: int) -> str:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/slow?ms=1500") as reply:
            return await reply.text()

    async def stop_meanwhile() -> str:
        port = free_port()
        server = subprocess.Popen([samples.program("hello")], env={**os.environ, "SAMPLE_PORT": str(port)})
        try:
            await_listening(server, port)
            asked = asyncio.create_task(ask(port))
            await asyncio.sleep(0.7)
            server.terminate()
            return await asked
        finally:
            server.kill()
            server.wait(60)

    assert '"version"' in asyncio.run(stop_meanwhile())
