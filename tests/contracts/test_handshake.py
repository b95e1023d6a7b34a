"""A handshake says what a listener shows, and whether it proves the name; whoever listens, it ends in time (M-06, S01).

The pin of a node's issuing certificate is recorded by the next `apply` after it was made anew: until then the old one
must go on vouching for new leaves. OpenSSL and BoringSSL (Envoy) are asked.
"""

import asyncio
import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.certificates.files import X509Certificates
from holdfast.adapters.certificates.memory import MemoryCertificates
from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.disk.memory import MemoryDisk
from holdfast.adapters.handshake.memory import MemoryHandshake
from holdfast.adapters.handshake.tls import TlsHandshake
from holdfast.adapters.tls.server import server_context
from holdfast.model import canonical
from holdfast.model.certificate import DAY_S, Constraints, Issued, armoured
from holdfast.ports.certificates import Certificates
from holdfast.ports.handshake import Asked, Handshake, Shown
from tests.fleets.chains import Authority, pem
from tests.fleets.ports import free_port

HOST = "127.0.0.1"
ZONE = Constraints(("svc.lab.test",))
NAME, OTHER = "web.shop.svc.lab.test", "db.shop.svc.lab.test"
ENVOY = Path(sys.prefix) / "lib" / f"python3.{sys.version_info.minor}" / "site-packages" / "envoy" / "_bin" / "envoy"


class Tls:
    """The real one, and real listeners."""

    handshake: Handshake = TlsHandshake()

    def issuer(self) -> Certificates:
        return X509Certificates("/agent", MemoryDisk())

    @asynccontextmanager
    async def shows(self, issued: Issued) -> Any:
        server = await asyncio.start_server(_hush, HOST, 0, ssl=server_context(issued.chain, issued.private))
        async with server:
            yield server.sockets[0].getsockname()[1]


class Memory:
    def __init__(self) -> None:
        self._world = MemoryHandshake(SystemClock())
        self.handshake: Handshake = self._world

    def issuer(self) -> Certificates:
        return MemoryCertificates()

    @asynccontextmanager
    async def shows(self, issued: Issued) -> Any:
        self._world.listeners[HOST] = lambda port, name: issued.chain
        yield 443
        del self._world.listeners[HOST]


async def _hush(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(Exception):
        await reader.read()
    writer.close()


@pytest.fixture(params=[Tls, Memory])
def world(request: pytest.FixtureRequest) -> Tls | Memory:
    made: Tls | Memory = request.param()
    return made


def node(world: Tls | Memory, name: str = "w1") -> tuple[Certificates, bytes]:
    """Its certificates, and PEM of its issuer."""
    certificates = world.issuer()
    return certificates, armoured(certificates.issuer(name, ZONE, time.time())).encode()


async def asked(world: Tls | Memory, issued: Issued, name: str, believed: bytes) -> Shown:
    async with world.shows(issued) as port:
        return await world.handshake.shown(HOST, port, name, believed, 5.0)


# ---- one question after the handshake


@pytest.mark.parametrize(
    ("line", "words", "is_idle"),
    [
        (b"HTTP/1.1 204 No Content", "", False),
        (b"HTTP/1.1 424 Failed Dependency", "no container that answers", True),
        (b"HTTP/1.1 503 Service Unavailable", "no route", False),  # Envoy itself, under overload
        (b"HTTP/1.1 404 Not Found", "no route", False),
        (b"HTTP/1.0 424 ?", "no route", False),
        (b"424", "no route", False),
        (b"x" * 100_000, "cannot reach", False),
        (b"", "no route", False),
    ],
)
def test_the_answer_to_an_edge_that_asks_is_read_n17(line: bytes, words: str, is_idle: bool) -> None:
    """Only the exact answer counts: any other is a proxy that does not carry the name."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(Exception):
            asked_for.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(line + b"\r\n\r\n" if line else b"")
            await writer.drain()
        writer.close()

    async def scene() -> Shown:
        server = await asyncio.start_server(answer, HOST, 0, ssl=server_context(issued.chain, issued.private))
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await TlsHandshake().shown(HOST, port, NAME, believed, 5.0, Asked("www.example.test", "/known"))

    asked_for: list[bytes] = []
    certificates, believed = node(Tls())
    issued = certificates.issue((NAME,), time.time())
    shown = asyncio.run(scene())
    assert (words in shown.trouble, bool(shown.trouble), shown.is_idle) == (True, bool(words), is_idle)
    assert asked_for[0].startswith(b"GET /known HTTP/1.1\r\nHost: www.example.test\r\n")


# ---- both


def test_a_listener_that_proves_its_name_is_believed_and_its_leaf_is_seen(world: Tls | Memory) -> None:
    certificates, believed = node(world)
    issued = certificates.issue((NAME, OTHER), time.time())
    shown = asyncio.run(asked(world, issued, NAME, believed))
    assert shown.trouble == "" and shown.leaf
    assert canonical.digest(shown.leaf) == issued.facts.digest


def test_an_older_issuing_certificate_of_the_same_node_still_vouches(world: Tls | Memory) -> None:
    """The zones changed, the issuer was made anew with its key; others have the old one pinned until the next apply."""
    certificates, pinned = node(world)
    certificates.issuer("w1", Constraints(("more.test", "svc.lab.test")), time.time())
    issued = certificates.issue((NAME,), time.time())
    assert armoured(certificates.current()).encode() != pinned
    assert asyncio.run(asked(world, issued, NAME, pinned)).trouble == ""
    both = armoured(certificates.current()).encode() + pinned
    assert asyncio.run(asked(world, issued, NAME, both)).trouble == ""


def test_another_name_another_issuer_or_another_time_proves_nothing(world: Tls | Memory) -> None:
    """S01. The leaf is seen all the same: somebody has to know what is shown instead."""
    certificates, believed = node(world)
    _, stranger = node(world, "w2")
    now_s = time.time()
    issued = certificates.issue((NAME,), now_s)
    old = certificates.issue((NAME,), now_s - 91 * DAY_S)
    early = certificates.issue((NAME,), now_s + 2 * DAY_S)
    for one, name, whom in (
        (issued, OTHER, believed),
        (issued, NAME, stranger),
        (old, NAME, believed),
        (early, NAME, believed),
    ):
        shown = asyncio.run(asked(world, one, name, whom))
        assert shown.trouble
        assert canonical.digest(shown.leaf) == one.facts.digest


def test_nobody_there_is_a_trouble_in_words(world: Tls | Memory) -> None:
    shown = asyncio.run(world.handshake.shown(HOST, free_port(HOST), NAME, b"", 2.0))
    assert shown.leaf == b"" and "nothing listens" in shown.trouble


# ---- the real one


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.close()


async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await reader.read()


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A record that never ends: always a byte more, never a handshake."""
    writer.write(b"\x16\x03\x03\x40\x00")
    while True:
        writer.write(b"\x02")
        await asyncio.sleep(0.02)


Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.mark.parametrize("peer", [hang, close, babble, drip])
def test_whatever_a_peer_does_it_ends_in_time_and_with_words(peer: Peer) -> None:
    async def run() -> Shown:
        tasks: set[asyncio.Task[None]] = set()

        def begun(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            async def quietly() -> None:
                with suppress(Exception):
                    await peer(reader, writer)

            tasks.add(asyncio.ensure_future(quietly()))

        server = await asyncio.start_server(begun, HOST, 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            shown = await asyncio.wait_for(TlsHandshake().shown(HOST, port, NAME, b"", 0.3), 60)
            for task in tasks:
                task.cancel()
            return shown

    shown = asyncio.run(run())
    assert shown.trouble and shown.leaf == b""


def test_a_machine_that_drops_what_comes_does_not_hold_us() -> None:
    """A full queue of connections: the kernel answers nobody any more."""
    with socket.socket() as door:
        door.bind((HOST, 0))
        door.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        try:
            for one in waiting:
                one.setblocking(False)
                one.connect_ex(door.getsockname())
            port: int = door.getsockname()[1]
            shown = asyncio.run(asyncio.wait_for(TlsHandshake().shown(HOST, port, NAME, b"", 0.3), 60))
            assert "within 0.3s" in shown.trouble
        finally:
            for one in waiting:
                one.close()


def test_old_tls_is_refused() -> None:
    """S01: 1.2 at least, because a public listener may speak it."""
    certificates, believed = node(Tls())
    issued = certificates.issue((NAME,), time.time())
    context = server_context(issued.chain, issued.private)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2

    async def run(version: ssl.TLSVersion) -> Shown:
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        context.maximum_version = version
        context.minimum_version = version
        context.set_ciphers("ALL:@SECLEVEL=0")
        server = await asyncio.start_server(_hush, HOST, 0, ssl=context)
        async with server:
            return await TlsHandshake().shown(HOST, server.sockets[0].getsockname()[1], NAME, believed, 5.0)

    assert asyncio.run(run(ssl.TLSVersion.TLSv1_2)).trouble == ""
    with pytest.warns(DeprecationWarning):
        assert asyncio.run(run(ssl.TLSVersion.TLSv1_1)).trouble


def test_an_intermediate_alone_may_be_the_anchor_and_a_leaf_alone_is_not_enough() -> None:
    """A public authority leaves its root out; the edge verifies itself by the last certificate that it has."""
    authority = Authority(time.time())
    leaf, private = authority.leaf((NAME,))
    facts = X509Certificates("/agent", MemoryDisk()).facts(pem(leaf))
    full = Issued(pem(leaf) + pem(authority.intermediate), private, facts)
    assert asyncio.run(asked(Tls(), full, NAME, pem(authority.intermediate))).trouble == ""
    assert asyncio.run(asked(Tls(), full, NAME, pem(authority.root))).trouble == ""
    alone = Issued(pem(leaf), private, facts)
    assert asyncio.run(asked(Tls(), alone, NAME, pem(authority.root))).trouble
    assert asyncio.run(asked(Tls(), full, NAME, b"")).trouble, "the machine's authorities do not know it"


def test_authorities_that_cannot_be_read_are_a_trouble() -> None:
    for junk in (b"junk", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        assert "cannot be read" in asyncio.run(TlsHandshake().shown(HOST, 1, NAME, junk, 1.0)).trouble


def test_no_name_of_a_peer_ends_it_badly() -> None:
    for name in ("", ".", "a" * 300, "x\0y", "ä.test"):
        assert asyncio.run(TlsHandshake().shown(HOST, free_port(HOST), name, b"", 1.0)).trouble


# ---- BoringSSL


def envoy_config(listen: int, beyond: int, name: str, authority: str) -> str:
    sni = {"exact": name}
    validation = {
        "trusted_ca": {"inline_string": authority},
        "match_typed_subject_alt_names": [{"san_type": "DNS", "matcher": sni}],
    }
    tls = {
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "sni": name,
        "common_tls_context": {
            "validation_context": validation,
            "tls_params": {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
        },
    }
    cluster = {
        "name": "worker",
        "type": "STATIC",
        "connect_timeout": "5s",
        "load_assignment": {"cluster_name": "worker", "endpoints": [{"lb_endpoints": [_endpoint(beyond)]}]},
        "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": tls},
    }
    proxy = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
        "stat_prefix": "worker",
        "cluster": "worker",
    }
    chain = {"filters": [{"name": "envoy.filters.network.tcp_proxy", "typed_config": proxy}]}
    listener = {"name": "edge", "address": _address(listen), "filter_chains": [chain]}
    return json.dumps({"static_resources": {"listeners": [listener], "clusters": [cluster]}})


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": HOST, "port_value": port}}


def _endpoint(port: int) -> dict[str, Any]:
    return {"endpoint": {"address": _address(port)}}


async def heard_through_envoy(tmp_path: Path, issued: Issued, name: str, authority: str) -> bytes:
    """What comes back through an Envoy that believes this authority alone; b"" if it does not believe the listener."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(greet, HOST, 0, ssl=server_context(issued.chain, issued.private))
    listen = free_port(HOST)
    config = envoy_config(listen, server.sockets[0].getsockname()[1], name, authority)
    command = [str(ENVOY), "--config-yaml", config, "--use-dynamic-base-id", "--concurrency", "1", "-l", "error"]
    with (tmp_path / "envoy.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        async with server, asyncio.timeout(60):
            while True:
                assert process.poll() is None, (tmp_path / "envoy.log").read_text()
                try:
                    reader, writer = await asyncio.open_connection(HOST, listen)
                except ConnectionRefusedError:
                    await asyncio.sleep(0.05)
                    continue
                with suppress(ConnectionError):
                    heard = await reader.read()
                    writer.close()
                    return heard
                return b""
    finally:
        process.kill()
        process.wait(60)


@pytest.mark.lab
@pytest.mark.parametrize("whose", ["the pinned one", "a stranger's"])
def test_envoy_believes_new_leaves_by_the_old_pin(tmp_path: Path, whose: str) -> None:
    """The edge's proxy verifies workers by the pinned issuing certificate alone, also after that was made anew."""
    certificates, pinned = node(Tls())
    certificates.issuer("w1", Constraints(("more.test", "svc.lab.test")), time.time())
    issued = certificates.issue((NAME,), time.time())
    believed = pinned if whose == "the pinned one" else node(Tls(), "w2")[1]
    heard = asyncio.run(heard_through_envoy(tmp_path, issued, NAME, believed.decode()))
    assert heard == (b"hello" if whose == "the pinned one" else b"")
