"""What passes through a real Envoy: by name, in every protocol, honest about who asked, and never to somebody else."""

import asyncio
import json
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import grpc  # type: ignore[import-untyped]
import pytest
from msgspec.structs import replace

from holdfast.adapters.proxy.envoy import cleaning
from holdfast.adapters.proxy.envoy.listeners import CIPHERS
from holdfast.errors import Invalid, TryLater
from holdfast.model.route import known_path
from holdfast.ports.proxy import Backend, ProxyRoute
from tests.fleets.envoy_stage import PORTS, Client, Stage, backend, stage

WEB, PUBLIC_WEB = "web.internal.test", "web.example.test"
FORGED: dict[str, Any] = {
    "X_Forwarded_For": "6.6.6.6",
    "X_Forwarded_Host": "evil.test",
    "X_Forwarded_Proto": "http",
    "Forwarded": "for=6.6.6.6",
    "X_Real_Ip": "6.6.6.6",
    "X_Envoy_Upstream_Rq_Timeout_Ms": "1",
    "X_Envoy_Decorator_Operation": "x",
}


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("worker")) as found:
        yield found


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("edge")) as found:
        yield found


def play(scene: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(240):
            await scene()

    asyncio.run(bounded())


async def ready(*, worker: Stage, edge: Stage, port: int, **fields: Any) -> None:
    """A public service: container ← proxy of the worker ← proxy of the edge, as an agent has them made."""
    await worker.apply(worker.route("web", port, aliases=(PUBLIC_WEB,), **fields))
    await edge.apply(edge.route("web", **edge.to(worker, WEB)))


# ---- by name


def test_a_name_is_answered_by_its_own_service_and_an_unknown_one_by_nobody(worker: Stage) -> None:
    """T-29: by SNI and Host; a connection for a name that nobody has is closed, a request for one is a 404."""

    async def scene() -> None:
        async with backend("web") as web, backend("api") as api, worker.client() as client:
            await worker.apply(worker.route("web", web), worker.route("api", api))
            assert (await client.get(WEB))[1]["name"] == "web"
            assert (await client.get("api.internal.test"))[1]["name"] == "api"
            assert (await client.get(f"{WEB}:443", sni=WEB))[1]["name"] == "web"
            status, words = await client.get("other.internal.test", sni=WEB)
            assert status == 404 and "other" not in words
            with pytest.raises(aiohttp.ClientError):
                await client.get("other.internal.test")

    play(scene)


def test_internal_names_are_not_answered_where_everybody_may_ask(worker: Stage) -> None:
    """M-13, S09: neither by SNI nor by the Host of a request over a connection for a public name."""

    async def scene() -> None:
        async with backend("web") as web, worker.client() as client:
            await worker.apply(worker.route("web", web), worker.route("shop", web, public=True))
            assert (await client.get("shop.example.test", public=True))[0] == 200
            with pytest.raises(aiohttp.ClientError):
                await client.get(WEB, public=True)
            assert (await client.get(WEB, public=True, sni="shop.example.test"))[0] == 404
            assert (await client.get("shop.example.test", sni=WEB))[0] == 404

    play(scene)


def test_an_edge_answers_public_names_on_its_overlay_address_as_public_ones(worker: Stage) -> None:
    """T-30: the more specific address must not hide them; who asks there is no more believed than elsewhere."""

    async def scene() -> None:
        async with backend("web") as web, worker.client() as client:
            await worker.apply(worker.route("web", web), worker.route("shop", web, public=True))
            status, said = await client.get("shop.example.test", **FORGED)
            assert status == 200 and said["headers"]["x-forwarded-for"].startswith("127.")

    play(scene)


def test_a_request_for_another_name_than_its_connection_is_for_is_misdirected(worker: Stage, edge: Stage) -> None:
    """X23: 421, inside and outside; the names of one route share a connection, and letters may be large or small."""

    async def scene() -> None:
        async with backend("web") as web, worker.client() as client, edge.client() as outside:
            two = ("api.internal.test", "also.internal.test")
            await worker.apply(worker.route("web", web, aliases=(PUBLIC_WEB,)), worker.route("api", web, hostnames=two))
            shop = edge.route("shop", web, public=True)
            await edge.apply(edge.route("web", **edge.to(worker, WEB)), shop)
            for name, sni in ((WEB, WEB), (PUBLIC_WEB, WEB), (two[0], two[1]), (WEB.upper(), WEB), (WEB, WEB.upper())):
                assert (await client.get(name, sni=sni))[0] == 200, (name, sni)
            for name, sni in ((WEB, two[0]), (two[0], WEB), (PUBLIC_WEB, two[0])):
                assert (await client.get(name, sni=sni, X_Holdfast_Sni=name))[0] == 421, (name, sni)
            for name, sni in ((PUBLIC_WEB, "shop.example.test"), ("shop.example.test", PUBLIC_WEB)):
                assert (await outside.get(name, public=True))[0] == 200
                assert (await outside.get(name, public=True, sni=sni))[0] == 421, (name, sni)

    play(scene)


def test_who_asks_from_outside_learns_of_no_service_by_the_path_that_edges_ask_for(worker: Stage, edge: Stage) -> None:
    """X23: the path is one of the service's own, whatever the client says; the agent of an edge is answered 204."""

    async def scene() -> None:
        async with backend("web") as web, edge.client() as outside, worker.client() as inside:
            await ready(worker=worker, edge=edge, port=web)
            path = known_path("web", "app", "main")
            forged: list[dict[str, Any]] = [{}, {"X_Holdfast_Edge": ""}, {"X_Holdfast_Edge": "2"}]
            for more in forged:
                status, said = await outside.get(PUBLIC_WEB, path, public=True, **more)
                assert (status, said["path"]) == (200, path), "the service answers"
            assert (await inside.get(PUBLIC_WEB, path, sni=WEB))[0] == 204
            assert (await inside.get(WEB, path))[1]["path"] == path

    play(scene)


def test_an_edge_that_asks_is_told_that_no_container_answers_n17(worker: Stage, edge: Stage) -> None:
    """Requests of clients are passed on as before: they may be answered all the same."""

    async def scene() -> None:
        async with backend("web") as web, edge.client() as outside, worker.client() as inside:
            path = known_path("web", "app", "main")
            for answers, expected in ((False, 424), (True, 204)):
                await ready(worker=worker, edge=edge, port=web, answers=answers)
                assert (await inside.get(PUBLIC_WEB, path, sni=WEB))[0] == expected
                assert (await outside.get(PUBLIC_WEB, public=True))[0] == 200
            await worker.apply(replace(worker.route("web", web, aliases=(PUBLIC_WEB,)), backends=()))
            assert (await inside.get(PUBLIC_WEB, path, sni=WEB))[0] == 424

    play(scene)


LENIENT = {
    "bare LF": b"X-A: b\nRemote-User: forged\r\n",
    "lone CR": b"X-A: b\rRemote-User: forged\r\n",
    "folded": b"X-A: b\r\n Remote-User: forged\r\n",
    "LF at the end": b"Remote-User: forged\n",
}
STRICT = {
    "space before the colon": b"GET / HTTP/1.1\r\nHost: HOST\r\nX-A : b\r\n\r\n",
    "NUL": b"GET / HTTP/1.1\r\nHost: HOST\r\nX-A: b\x00c\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    "signed length": b"POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: +5\r\n\r\nabcde",
    "both": b"POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunk ends with LF": b"POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n5\nabcde\r\n0\r\n\r\n",
    "after a chunk": b"POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcdeXX\r\n0\r\n\r\n",
    "other coding": b"POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "fragment": b"GET /a#b HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "HTTP/1.0": b"GET / HTTP/1.0\r\nHost: HOST\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
}


def test_what_the_parser_forgives_reaches_a_service_only_as_the_proxy_understood_it(worker: Stage, edge: Stage) -> None:
    """X23: Envoy 1.40 accepts a bare LF and has no switch against it. It writes each request again, so the service sees
    what the proxy saw: one request, without the header that was hidden behind the end of a line."""

    async def scene() -> None:
        async with backend("web") as web:
            await ready(worker=worker, edge=edge, port=web)
            for on, address, sni in ((edge, edge.public, PUBLIC_WEB), (worker, worker.internal, WEB)):
                for what, lines in LENIENT.items():
                    request = b"GET / HTTP/1.1\r\nHost: " + sni.encode() + b"\r\n" + lines + b"\r\n"
                    status, body = await raw_answer(on, address, sni, request)
                    assert status in (200, 400, 502), what
                    assert status != 200 or "remote-user" not in json.loads(body)["headers"], what
                for what, request in STRICT.items():
                    status, _ = await raw_answer(on, address, sni, request.replace(b"HOST", sni.encode()))
                    assert status in (400, 426, 501), what

    play(scene)


def test_one_name_of_two_routes_is_refused_before_anything_is_written(worker: Stage) -> None:
    async def scene() -> None:
        kept = [worker.route("web", 20001)]
        await worker.apply(*kept)
        with pytest.raises(Invalid) as refused:
            await worker.apply(*kept, worker.route("api", 20002, hostnames=(WEB,)))
        assert refused.value.code == "hostname_taken" and WEB in refused.value.message
        assert list(await worker.proxy.routes()) == kept

    play(scene)


def test_a_backend_is_an_address_never_a_name(worker: Stage) -> None:
    """M-25, S09: nothing is resolved when a connection is made, so nobody can point it elsewhere."""

    async def scene() -> None:
        with pytest.raises(Invalid) as refused:
            await worker.apply(worker.route("web", backends=(Backend("localhost", 80),)))
        assert refused.value.code == "invalid_backend"

    play(scene)


# ---- on the way


def test_a_service_behind_an_edge_learns_who_asked_and_nothing_that_was_forged(worker: Stage, edge: Stage) -> None:
    """M-03, T-30: Host stays, the address is the client's own, and what it said about itself is gone."""

    async def scene() -> None:
        async with backend("web") as web, edge.client() as client:
            await ready(worker=worker, edge=edge, port=web)
            status, said = await client.get(PUBLIC_WEB, "/b?c=1", public=True, **FORGED)
            assert (status, said["path"]) == (200, "/b?c=1")
            headers = said["headers"]
            assert headers["host"] == headers["x-forwarded-host"] == PUBLIC_WEB
            assert (headers["x-forwarded-for"], headers["x-forwarded-proto"]) == ("127.0.0.1", "https")
            assert not {name for name in headers if name.startswith(("x-envoy", "forwarded", "x-real"))}
            assert "6.6.6.6" not in json.dumps(said)

    play(scene)


# Names that a service behind an auth proxy, a content delivery network or a cloud believes (X10).
IDENTITY = (
    *("X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Groups", "X-Forwarded-Server", "X-Forwarded-Ssl"),
    *("X-Forwarded-Scheme", "X-Forwarded-By", "X-Forwarded-Prefix", "X-Forwarded-Access-Token", "X-Forwarded-Uri"),
    *("X-Forwarded-Preferred-Username", "X-Forwarded-Port", "X-Forwarded", "X-Client-IP", "True-Client-IP"),
    *("CF-Connecting-IP", "X-Original-URL", "X-Original-Host", "X-Rewrite-URL", "Remote-User", "Remote-Groups"),
    *("X-Auth-Request-User", "X-Auth-Request-Email", "Proxy", "X-Envoy-Foo", "X-Envoy-Original-Path", "X-Remote-User"),
    *("X-WebAuth-User", "X-Authentik-Username", "X-SSL-Client-Verify", "SSL-Client-Cert", "X-Cluster-Client-IP"),
    *("X-MS-Client-Principal-Name", "X-Goog-Authenticated-User-Email", "X-Holdfast-Edge", "X-Holdfast-Anything"),
    *("Fastly-Client-IP", "Client-IP", "Front-End-Https", "X-Pomerium-Claim-Email"),
)
ORDINARY = ("Authorization", "Cookie", "X-Forward", "X-Request-Id", "X-Api-Key", "Proxied", "Remoteness", "Origin")


def _seen(said: Any) -> set[str]:
    return {name for name, value in said["headers"].items() if "forged" in value}


def _lower(*names: str) -> set[str]:
    return {name.lower() for name in names}


def test_no_header_that_tells_who_asks_passes_an_edge_or_a_worker(worker: Stage, edge: Stage) -> None:
    """X10: by prefix and by list, through two hops and directly at the worker; all other headers pass."""
    sent: dict[str, Any] = dict.fromkeys((*IDENTITY, *ORDINARY), "forged")
    assert len(IDENTITY) >= 30

    async def scene() -> None:
        async with backend("web") as web, edge.client() as outside, worker.client() as inside:
            await ready(worker=worker, edge=edge, port=web)
            assert _seen((await outside.get(PUBLIC_WEB, public=True, **sent))[1]) == _lower(*ORDINARY)
            assert _seen((await inside.get(WEB, **sent))[1]) == _lower(*ORDINARY)
            assert _seen((await inside.get(PUBLIC_WEB, sni=WEB, **sent))[1]) == _lower(*ORDINARY)
            # A CGI reads these as the same names. Only the proxy inside lets other underscores pass.
            low = {"Remote_User": "forged", "x_forwarded_user": "forged", "My_Own": "forged"}
            assert _seen((await inside.get(WEB, spelled=low))[1]) == {"my_own"}
            assert _seen((await outside.get(PUBLIC_WEB, public=True, spelled=low))[1]) == set()

    play(scene)


def test_a_route_has_the_headers_passed_that_it_names_and_no_other_route_has(worker: Stage, edge: Stage) -> None:
    """X10, `pass_headers`: on both hops, exactly these names."""
    longest = "x-forwarded-" + "a-" * 13 + "bc"
    passed = ("x-forwarded-user", "remote-user", "x-forwarded-use", "cf-connecting-ip", longest)
    near = ("X-Forwarded-Use", "X-Forwarded-Users", "X-Forwarded-Us", "X-Forwarded-Email", "Remote-Use", "Remote-Name")
    sent: dict[str, Any] = dict.fromkeys((*IDENTITY, *ORDINARY, *near, longest), "forged")

    async def scene() -> None:
        async with backend("web") as web, edge.client() as outside, worker.client() as inside:
            onward = edge.route("web", **edge.to(worker, WEB), pass_headers=passed)
            there = worker.route("web", web, aliases=(PUBLIC_WEB,), pass_headers=passed)
            await worker.apply(there, worker.route("api", web))
            await edge.apply(onward)
            expected = _lower(*ORDINARY, *passed)
            assert _seen((await outside.get(PUBLIC_WEB, public=True, **sent))[1]) == expected
            assert _seen((await inside.get(WEB, **sent))[1]) == expected
            assert _seen((await inside.get("api.internal.test", **sent))[1]) == _lower(*ORDINARY)
            await edge.apply(replace(onward, pass_headers=()))
            assert _seen((await outside.get(PUBLIC_WEB, public=True, **sent))[1]) == _lower(*ORDINARY)

    play(scene)


def test_a_new_agent_gives_its_own_rules_to_an_envoy_that_runs_already(tmp_path: Path) -> None:
    """X10: the routes are the same, only the code that writes the configuration is newer."""
    sent: dict[str, Any] = dict.fromkeys(IDENTITY, "forged")

    async def scene(on: Stage) -> None:
        async with backend("web") as web:
            with pytest.MonkeyPatch.context() as older:
                older.setattr(cleaning, "filters", lambda kind: [])
                await on.apply(on.route("web", web))
                async with on.client() as client:
                    assert _seen((await client.get(WEB, **sent))[1])
            on.proxy = on.another()
            await on.proxy.follow(on.listening)
            async with on.client() as client:  # a connection keeps the rules that it began with
                assert not _seen((await client.get(WEB, **sent))[1])
            assert list(await on.proxy.routes()) == [on.route("web", web)]

    with stage(tmp_path) as on:
        play(lambda: scene(on))


def test_who_asks_a_worker_by_its_internal_name_is_not_believed_either(worker: Stage) -> None:
    async def scene() -> None:
        async with backend("web") as web, worker.client() as client:
            await worker.apply(worker.route("web", web, aliases=(PUBLIC_WEB,)))
            _, said = await client.get(WEB, **FORGED)
            assert said["headers"]["x-forwarded-for"] == "127.0.0.1"
            _, said = await client.get(PUBLIC_WEB, sni=WEB, X_Forwarded_For="6.6.6.6, 9.9.9.9")
            assert said["headers"]["x-forwarded-for"] == "9.9.9.9", "one hop, and no more"

    play(scene)


def test_an_edge_believes_only_the_worker_that_was_named_to_it(worker: Stage, edge: Stage, tmp_path: Path) -> None:
    """M-13, S01: another issuer's certificate, or one for another name, is no worker; the answer is a 502."""

    async def scene() -> None:
        async with backend("web") as web, edge.client() as client:
            await ready(worker=worker, edge=edge, port=web)
            assert (await client.get(PUBLIC_WEB, public=True))[0] == 200
            good = edge.route("web", **edge.to(worker, WEB))
            assert good.upstream is not None
            stranger = replace(good.upstream, authority=edge.issuer.authority)
            await edge.apply(replace(good, upstream=stranger))
            assert (await client.get(PUBLIC_WEB, public=True))[0] == 502

            async def as_shown_by(certificate: str) -> int:
                """Asked over a new connection: the worker's proxy shows what it has by now."""
                aliases = (PUBLIC_WEB,)
                await worker.apply(worker.route("web", web, aliases=aliases, certificate=certificate))
                await edge.apply()
                await edge.proxy.drained(good.backends, 10.0)
                await edge.apply(good)
                return (await client.get(PUBLIC_WEB, public=True))[0]

            assert await as_shown_by(worker.certificate("api.internal.test")) == 502
            assert await as_shown_by(worker.certificate(WEB)) == 200

    play(scene)


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_both_versions_of_http_pass_an_edge_and_a_worker(worker: Stage, edge: Stage, version: str) -> None:
    async def scene() -> None:
        async with backend("web") as web:
            await ready(worker=worker, edge=edge, port=web)
            (edge.folder / "authority.pem").write_text(edge.issuer.authority)
            there = f"{PUBLIC_WEB}:{PORTS[443]}"
            curl = await asyncio.create_subprocess_exec(
                *("curl", "--silent", "--max-time", "20", version, "--write-out", " %{http_version}"),
                *("--cacert", str(edge.folder / "authority.pem"), "--resolve", f"{there}:{edge.public}"),
                f"https://{there}/",
                stdout=asyncio.subprocess.PIPE,
            )
            said = (await curl.communicate())[0].decode()
            assert '"name": "web"' in said and said.endswith({"--http1.1": " 1.1", "--http2": " 2"}[version])

    play(scene)


def test_a_websocket_passes_an_edge_and_a_worker_and_outlives_a_switch(worker: Stage, edge: Stage) -> None:
    async def scene() -> None:
        async with backend("one") as one, backend("two") as two, edge.client() as client:
            await ready(worker=worker, edge=edge, port=one)
            async with client.socket(PUBLIC_WEB, public=True) as line:
                await line.send_str("hello")
                assert (await line.receive()).data == "one hello"
                await ready(worker=worker, edge=edge, port=two)
                assert (await client.get(PUBLIC_WEB, public=True))[1]["name"] == "two"
                await line.send_str("again")
                assert (await line.receive()).data == "one again"

    play(scene)


UPGRADE = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n"


@asynccontextmanager
async def plain_backend(answer: bytes) -> AsyncIterator[int]:
    """Gives this answer to every request, whatever it asks for."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def raw_answer(on: Stage, address: str, sni: str, request: bytes) -> tuple[int, bytes]:
    """Status and body of what a client of HTTP/1.1 is answered to these bytes; 0 if the connection is closed."""
    context = ssl.create_default_context(cadata=on.issuer.authority)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    reader, writer = await asyncio.open_connection(address, PORTS[443], ssl=context, server_hostname=sni)
    writer.write(request)
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        return int(head.split(b" ", 2)[1]), await reader.readexactly(int(length[1])) if length else b""
    except (asyncio.IncompleteReadError, ConnectionError):
        return 0, b""
    finally:
        writer.transport.abort()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"200 OK\r\nContent-Length: 5\r\n\r\nhello", (501, b"")),
        (b"201 Created\r\nContent-Length: 5\r\n\r\nhello", (501, b"")),
        (b"204 No Content\r\n\r\n", (501, b"")),
        (b"302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", (302, b"")),
        (b"404 Not Found\r\nContent-Length: 4\r\n\r\nnone", (404, b"none")),
    ],
    ids=["200", "201", "204", "302", "404"],
)
def test_a_service_that_does_not_upgrade_is_not_said_to_have_done_so(
    worker: Stage, edge: Stage, said: bytes, expected: tuple[int, bytes]
) -> None:
    """X21: over two hops and over one; never 101, and no success without the body that came with it."""

    async def scene() -> None:
        async with plain_backend(b"HTTP/1.1 " + said) as port:
            await ready(worker=worker, edge=edge, port=port)
            for on, address, sni in ((edge, edge.public, PUBLIC_WEB), (worker, worker.internal, WEB)):
                request = b"GET /socket HTTP/1.1\r\nHost: " + sni.encode() + b"\r\n" + UPGRADE + b"\r\n"
                assert await raw_answer(on, address, sni, request) == expected, sni

    play(scene)


@asynccontextmanager
async def grpc_backend() -> AsyncIterator[int]:
    async def say(request: bytes, context: Any) -> bytes:
        context.set_trailing_metadata((("heard", request.decode()),))
        return b"you said " + request

    async def count(request: bytes, context: Any) -> AsyncIterator[bytes]:
        for number in range(3):
            yield str(number).encode()
        await context.abort(grpc.StatusCode.OUT_OF_RANGE, "no more")

    server = grpc.aio.server()
    handlers = {
        "Say": grpc.unary_unary_rpc_method_handler(say),
        "Count": grpc.unary_stream_rpc_method_handler(count),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(0)


def test_grpc_passes_with_streams_and_trailers(worker: Stage, edge: Stage) -> None:
    async def scene() -> None:
        async with grpc_backend() as port:
            await ready(worker=worker, edge=edge, port=port, protocol="h2c")
            trusted = grpc.ssl_channel_credentials(edge.issuer.authority.encode())
            options = (("grpc.ssl_target_name_override", PUBLIC_WEB), ("grpc.default_authority", PUBLIC_WEB))
            async with grpc.aio.secure_channel(f"{edge.public}:{PORTS[443]}", trusted, options) as channel:
                call = channel.unary_unary("/test.Echo/Say")(b"hello", timeout=20)
                assert await call == b"you said hello"
                assert ("heard", "hello") in tuple(await call.trailing_metadata())
                stream = channel.unary_stream("/test.Echo/Count")(b"", timeout=20)
                with pytest.raises(grpc.aio.AioRpcError) as ended:
                    assert [part async for part in stream] == []
                assert (ended.value.code(), ended.value.details()) == (grpc.StatusCode.OUT_OF_RANGE, "no more")

    play(scene)


# ---- passed through


@asynccontextmanager
async def tls_backend(on: Stage, name: str) -> AsyncIterator[int]:
    """Ends TLS itself, with a certificate of its own."""
    made = on.issuer.servable(name)
    file = on.folder / f"{name}.pem"
    file.write_bytes(made.chain + made.private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(f"{name} {line.decode()}".encode())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def asked(on: Stage, authority: str, name: str, address: str, port: int) -> str:
    context = ssl.create_default_context(cadata=authority)
    reader, writer = await asyncio.open_connection(address, port, ssl=context, server_hostname=name)
    writer.write(b"hello\n")
    answer = (await reader.readline()).decode().strip()
    writer.close()
    return answer


def test_tls_is_passed_through_unopened_by_the_name_asked_for(worker: Stage, edge: Stage) -> None:
    """M-13: on 443, 8443 and 9443; the certificate that is seen is the service's own; from an edge as well."""

    async def scene() -> None:
        async with tls_backend(worker, "db.internal.test") as db, tls_backend(worker, "mq.internal.test") as mq:
            await worker.apply(
                worker.route("db", db, mode="l4", listener=8443, aliases=("db.example.test",)),
                worker.route("mq", mq, mode="l4", listener=8443),
                worker.route("raw", mq, mode="l4", listener=9443, hostnames=("mq.internal.test",)),
                worker.route("web", mq, mode="l4", listener=443, hostnames=("mq.internal.test",)),
            )
            authority = worker.issuer.authority
            for name, port in (("db", 8443), ("mq", 8443), ("mq", 9443), ("mq", 443)):
                full = f"{name}.internal.test"
                assert await asked(worker, authority, full, worker.internal, PORTS[port]) == f"{full} hello"
            with pytest.raises((OSError, ssl.SSLError)):
                await asked(worker, authority, "db.internal.test", worker.internal, PORTS[9443])

            async with tls_backend(worker, "db.example.test") as shown:
                await worker.apply(worker.route("db", shown, mode="l4", listener=8443, aliases=("db.example.test",)))
                onward = (Backend(worker.internal, PORTS[8443]),)
                await edge.apply(edge.route("db", mode="l4", public=True, backends=onward))
                said = await asked(worker, authority, "db.example.test", edge.public, PORTS[443])
                assert said == "db.example.test hello"

    play(scene)


# ---- who does not answer


def test_a_name_without_a_live_backend_is_a_502_that_gives_no_address_away(worker: Stage, edge: Stage) -> None:
    """M-86: never somebody else's content, never a 503 of the proxy's own."""

    async def scene() -> None:
        async with edge.client() as client:
            for fields in ({"backends": ()}, {"ports": (1,)}, {"ports": (1, 2)}):
                await ready(worker=worker, edge=edge, port=1)
                ports = fields.pop("ports", ())
                await worker.apply(worker.route("web", *ports, aliases=(PUBLIC_WEB,), **fields))
                status, words = await client.get(PUBLIC_WEB, public=True)
                assert status == 502 and "does not answer" in words and "127." not in words
            await worker.apply()
            status, words = await client.get(PUBLIC_WEB, public=True)
            assert status == 502 and "does not answer" in words and "127." not in words

    play(scene)


def test_one_of_two_backends_that_is_gone_costs_no_request(worker: Stage) -> None:
    async def scene() -> None:
        async with backend("web") as web, worker.client() as client:
            await worker.apply(worker.route("web", web, 1))
            assert [(await client.get(WEB))[0] for _ in range(30)] == [200] * 30

    play(scene)


# ---- switching


def test_a_request_under_way_ends_where_it_began_and_draining_waits_for_it(worker: Stage) -> None:
    """M-03: the next one goes to the new backend; the old one may go when nothing is under way to it."""

    async def scene() -> None:
        async with backend("one") as one, backend("two") as two, worker.client() as client:
            await worker.apply(worker.route("web", one))
            slow = asyncio.ensure_future(client.get(WEB, "/slow"))
            while await _under_way(worker) == 0:
                await asyncio.sleep(0.01)
            await worker.apply(worker.route("web", two))
            assert (await client.get(WEB))[1]["name"] == "two"
            draining = asyncio.ensure_future(worker.proxy.drained([Backend("127.0.0.1", one)], 30.0))
            assert await asyncio.wait([draining], timeout=0.5) == (set(), {draining})
            await worker.apply(worker.route("web", two), worker.route("api", two))  # another one's switch meanwhile
            async with aiohttp.ClientSession() as direct, direct.get(f"http://127.0.0.1:{one}/go"):
                pass
            assert (await slow)[1]["name"] == "one"
            await draining
            assert await worker.proxy.routes()

    play(scene)


async def _under_way(on: Stage) -> int:
    return sum((await on.proxy._admin.gauges(r"^cluster\.web/.*\.upstream_rq_active$")).values())


def test_draining_passed_through_connections_waits_for_their_end_but_not_for_ever(worker: Stage) -> None:
    async def scene() -> None:
        async with tls_backend(worker, "db.internal.test") as one, tls_backend(worker, "db.internal.test") as two:
            await worker.apply(worker.route("db", one, mode="l4", listener=8443))
            context = ssl.create_default_context(cadata=worker.issuer.authority)
            reader, writer = await asyncio.open_connection(
                worker.internal, PORTS[8443], ssl=context, server_hostname="db.internal.test"
            )
            writer.write(b"hello\n")
            assert await reader.readline()
            await worker.apply(worker.route("db", two, mode="l4", listener=8443))
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            await worker.proxy.drained([Backend("127.0.0.1", one)], 0.3)
            assert loop.time() - began_s >= 0.3
            writer.write(b"still\n")
            assert (await reader.readline()).decode().strip() == "db.internal.test still"
            writer.close()
            await worker.proxy.drained([Backend("127.0.0.1", one)], 30.0)

    play(scene)


@asynccontextmanager
async def load(on: Stage) -> AsyncIterator[list[tuple[int, str]]]:
    """Requests are always under way; the list has every answer: its status, and who gave it."""
    over = asyncio.Event()
    seen: list[tuple[int, str]] = []

    async def visit(client: Client) -> None:
        while not over.is_set():
            status, said = await client.get(WEB)
            seen.append((status, said["name"] if isinstance(said, dict) else said))

    async with on.client() as client:
        visits = [asyncio.ensure_future(visit(client)) for _ in range(4)]
        try:
            yield seen
        finally:
            over.set()
            await asyncio.gather(*visits)


def test_nothing_fails_while_backends_change_under_load(worker: Stage) -> None:
    """M-02: ten flips between two backends with requests always on their way."""

    async def scene() -> None:
        async with backend("one") as one, backend("two") as two:
            await worker.apply(worker.route("web", one))
            async with load(worker) as seen:
                for number in range(10):
                    port, old = ((two, one), (one, two))[number % 2]
                    await worker.apply(worker.route("web", port))
                    await worker.proxy.drained([Backend("127.0.0.1", old)], 10.0)
            assert set(seen) == {(200, "one"), (200, "two")}

    play(scene)


class Killed(BaseException):
    """Nothing in the product handles it, as nothing handles SIGKILL."""


@pytest.mark.parametrize("forgotten", [False, True], ids=["", "state file lost"])
def test_nothing_fails_after_an_agent_died_between_a_switch_and_its_note(
    worker: Stage, monkeypatch: pytest.MonkeyPatch, forgotten: bool
) -> None:
    """M-13: Envoy has the new routes, the state file has the old ones. The next agent applies the old ones again."""

    async def die(*_: object) -> None:
        raise Killed

    async def scene() -> None:
        async with backend("one") as one, backend("two") as two:
            await worker.apply(worker.route("web", one))
            async with load(worker) as seen:
                for _ in range(5):
                    with monkeypatch.context() as patched, pytest.raises(Killed):
                        patched.setattr(worker.proxy, "_note", die)
                        await worker.apply(worker.route("web", two))
                    if forgotten:
                        (worker.folder / "proxy" / "state.json").unlink()
                    worker.proxy = worker.another()
                    await worker.proxy.follow(worker.listening)
                    await worker.apply(worker.route("web", one))
                    await worker.proxy.drained([Backend("127.0.0.1", two)], 10.0)
            assert set(seen) == {(200, "one"), (200, "two")}

    play(scene)


# ---- certificates


async def shown(on: Stage, name: str, address: str = "", **limits: Any) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for key, value in limits.items():
        setattr(context, key, value)
    _, writer = await asyncio.open_connection(address or on.internal, PORTS[443], ssl=context, server_hostname=name)
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    assert isinstance(found, bytes)
    return found


@pytest.mark.parametrize("watched", [16, 0], ids=["pushed", "named in the chain"])
def test_a_renewed_certificate_is_served_and_no_connection_is_dropped(tmp_path: Path, watched: int) -> None:
    """M-88, I-16: the next handshake shows the new one; who was connected stays connected."""

    async def scene(on: Stage) -> None:
        async with backend("web") as web, on.client() as client:
            await on.apply(on.route("web", web))
            first = await shown(on, WEB)
            async with client.socket(WEB) as line:
                await line.send_str("before")
                assert (await line.receive()).data == "web before"
                listeners = on.folder / "proxy" / "listeners" / "all.json"
                before = listeners.stat().st_mtime_ns
                on.renew(WEB)
                await on.apply(on.route("web", web))
                assert (listeners.stat().st_mtime_ns == before) == bool(watched), "a push touches no chain"
                second = await shown(on, WEB)
                assert second != first and second == await shown(on, WEB)
                assert list(await on.proxy.routes()) == [on.route("web", web)]
                await line.send_str("after")
                assert (await line.receive()).data == "web after"
            kept = [path.name for path in (on.folder / "proxy" / "secrets").iterdir()]
            assert len(kept) == 1, "the key before is not kept"

    with stage(tmp_path, secrets_watched_max=watched) as on:
        play(lambda: scene(on))


def test_only_the_whole_chain_is_shown_and_keys_are_for_nobody_else(worker: Stage) -> None:
    """M-06, I-18: leaf and issuer; files that only their owner reads."""

    async def scene() -> None:
        await worker.apply(worker.route("web", 1))
        openssl = await asyncio.create_subprocess_exec(
            *("openssl", "s_client", "-connect", f"{worker.internal}:{PORTS[443]}", "-servername", WEB, "-showcerts"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert (await openssl.communicate())[0].count(b"BEGIN CERTIFICATE") == 2
        folder = worker.folder / "proxy"
        modes = {path.stat().st_mode & 0o077 for path in (folder, *folder.rglob("*"))}
        assert modes == {0}
        assert all(path.stat().st_mode & 0o077 == 0 for path in worker.run_dir.iterdir())

    play(scene)


def test_old_versions_of_tls_are_refused(worker: Stage) -> None:
    """S01: 1.3 alone inside; 1.2 with authenticated ciphers is the least in public."""

    async def scene() -> None:
        await worker.apply(worker.route("web", 1), worker.route("shop", 1, public=True))
        old, new = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
        assert await shown(worker, WEB, minimum_version=new)
        with pytest.raises((OSError, ssl.SSLError)):
            await shown(worker, WEB, maximum_version=old)
        assert await shown(worker, "shop.example.test", worker.public, maximum_version=old)
        for address in (worker.internal, worker.public):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.maximum_version = old
            context.set_ciphers("ALL:!aNULL:!eNULL:@SECLEVEL=0:" + ":".join(f"!{cipher}" for cipher in CIPHERS))
            with pytest.raises((OSError, ssl.SSLError)):
                await asyncio.open_connection(address, PORTS[443], ssl=context, server_hostname="shop.example.test")
            reader, writer = await asyncio.open_connection(address, PORTS[443])
            writer.write(b"GET / HTTP/1.1\r\nHost: shop.example.test\r\n\r\n")
            with suppress(ConnectionResetError):
                assert not (await reader.read()).startswith(b"HTTP"), "nothing is answered without TLS"
            writer.close()

    play(scene)


# ---- port 80


def test_port_80_of_an_edge_answers_challenges_and_sends_the_rest_to_https(worker: Stage) -> None:
    """M-84: challenges for every name, for the first certificate comes before the first route."""

    async def scene() -> None:
        async with worker.client() as client:
            token = "/.well-known/acme-challenge/abc"
            await worker.apply(worker.route("shop", 1, public=True), challenges={"abc": "abc.thumb"})
            assert await client.plain("new.example.test", token) == (200, "", "abc.thumb")
            assert await client.plain("shop.example.test", token) == (200, "", "abc.thumb")
            status, onward, _ = await client.plain("shop.example.test", "/a?b=1")
            assert (status, onward) == (301, f"https://shop.example.test:{PORTS[443]}/a?b=1")
            assert (await client.plain("new.example.test"))[0] == 404
            await worker.apply(worker.route("shop", 1, public=True))
            assert (await client.plain("new.example.test", token))[0] == 404

    play(scene)


def test_a_port_that_somebody_else_has_is_named_and_the_others_are_served(tmp_path: Path) -> None:
    """M-13: as with a web server that was there before; it is tried again with every set."""

    async def scene(on: Stage) -> None:
        async with backend("web") as web, on.client() as client:
            with socket.socket() as other:
                other.bind((on.public, PORTS[443]))
                other.listen()
                wanted = [on.route("web", web), on.route("shop", web, public=True)]
                with pytest.raises(TryLater) as trouble:
                    await on.apply(*wanted)
                assert trouble.value.code == "proxy_port_taken"
                assert on.public in trouble.value.message and str(PORTS[443]) in trouble.value.message
                assert (await client.get(WEB))[0] == 200
                assert list(await on.proxy.routes()) == wanted[:1]
            await on.apply(*wanted)
            assert (await client.get("shop.example.test", public=True))[0] == 200
            assert sorted(await on.proxy.routes(), key=_service) == sorted(wanted, key=_service)

    made = Stage(tmp_path)
    try:
        with socket.socket() as other:
            other.bind((made.public, PORTS[443]))
            other.listen()
            asyncio.run(made.proxy.follow(made.listening))
        play(lambda: scene(made))
    finally:
        made.close()


def _service(route: ProxyRoute) -> str:
    return route.service


# ---- what is written about it


def test_requests_connections_and_failed_handshakes_are_lines_of_the_access_log(worker: Stage) -> None:
    """T-31, M-06: a handshake that failed says why and for which name; no line has a query."""

    async def scene() -> None:
        async with backend("web") as web, worker.client() as client:
            await worker.apply(worker.route("web", web), worker.route("shop", web, public=True))
            await client.get(WEB, "/page?token=secret")
            with pytest.raises((OSError, ssl.SSLError)):
                await shown(worker, WEB, maximum_version=ssl.TLSVersion.TLSv1_2)
            with pytest.raises((OSError, ssl.SSLError)):
                await shown(worker, "nobody.internal.test")
            log = worker.folder / "proxy" / "access.log"
            while True:
                text = log.read_text() if log.exists() else ""
                lines = [json.loads(line) for line in text.splitlines()]
                requests = [line for line in lines if line.get("path") == "/page"]
                failures = [line for line in lines if line["kind"] == "handshake"]
                if requests and {WEB, "nobody.internal.test"} <= {line["sni"] for line in failures}:
                    break
                await asyncio.sleep(0.05)
            assert requests[0]["status"] == 200 and requests[0]["host"] == WEB and requests[0]["method"] == "GET"
            assert requests[0]["upstream"] == f"127.0.0.1:{web}" and requests[0]["duration_ms"] >= 0
            why = {line["sni"]: (line["failure"], line["flags"]) for line in failures}
            assert "UNSUPPORTED_PROTOCOL" in why[WEB][0] and "NR" in why["nobody.internal.test"][1]
            assert "secret" not in text

    play(scene)
