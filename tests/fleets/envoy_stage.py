"""A real Envoy on loopback addresses of its own, backends that say who they are, and certificates of real issuers."""

import asyncio
import os
import shutil
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from holdfast.adapters.certificates.files import X509Certificates
from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.proxy.envoy.proxy import Envoy
from holdfast.model.certificate import Constraints
from holdfast.ports.proxy import Backend, Listening, ProxyRoute, Servable, Upstream
from holdfast.trust.servable import servable

PORTS = {443: 24443, 8443: 28443, 9443: 29443, 80: 24080}
ZONE, DOMAIN = "internal.test", "example.test"
_numbers = count(1)


class Issuer:
    """A node's own issuer, of the real kind."""

    def __init__(self, folder: Path, node: str = "w1") -> None:
        self._certificates = X509Certificates(str(folder), PosixDisk())
        folder.mkdir(parents=True, exist_ok=True)
        self.der = self._certificates.issuer(node, Constraints((ZONE, DOMAIN)), time.time())

    @property
    def authority(self) -> str:
        return ssl.DER_cert_to_PEM_cert(self.der)

    def servable(self, *names: str) -> Servable:
        now_s = time.time()
        issued = self._certificates.issue(names, now_s)
        facts = self._certificates.chain(issued.chain, issued.private)
        return servable(facts, issued.chain, issued.private, names, now_s)


class Stage:
    """One proxy in a folder. Its addresses are nobody else's on this machine, also with tests side by side."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        number = next(_numbers)
        self.folder = folder
        self.internal = f"127.{1 + os.getpid() % 250}.{1 + os.getpid() // 250 % 250}.{2 * number % 250}"
        self.public = self.internal.rpartition(".")[0] + f".{2 * number % 250 + 1}"
        self.run_dir = Path(tempfile.mkdtemp(prefix="hf-"))  # short: the path of a socket is
        self.settings = settings
        self.issuer = Issuer(folder / "issuer")
        self.certificates: dict[str, Servable] = {}
        self._issued: dict[tuple[str, ...], str] = {}
        self.proxy = self.another()

    def another(self) -> Envoy:
        """As after a restart of the agent: nothing is remembered but what is on the disk."""
        return Envoy(str(self.folder / "proxy"), str(self.run_dir), SystemClock(), ports=PORTS, **self.settings)

    @property
    def listening(self) -> Listening:
        return Listening(self.internal, self.public)

    def close(self) -> None:
        asyncio.run(self.another().follow(None))
        shutil.rmtree(self.run_dir, ignore_errors=True)

    # ---- routes

    def certificate(self, *names: str) -> str:
        """The digest of one for these names; the same one until it is renewed."""
        return self._issued.get(names) or self.renew(*names)

    def renew(self, *names: str) -> str:
        made = self.issuer.servable(*names)
        self.certificates[made.digest] = made
        self._issued[names] = made.digest
        return made.digest

    def route(self, service: str, *ports: int, **fields: Any) -> ProxyRoute:
        public = bool(fields.get("public", False))
        hostnames = fields.pop("hostnames", (f"{service}.{DOMAIN if public else ZONE}",))
        backends = fields.pop("backends", tuple(Backend("127.0.0.1", port) for port in ports))
        mode = fields.pop("mode", "l7")
        if mode == "l7" and "certificate" not in fields:
            fields["certificate"] = self.certificate(*hostnames)
        fields.setdefault("public", False)
        return ProxyRoute(service, "app", fields.pop("name", "main"), mode, hostnames, backends=backends, **fields)

    async def apply(self, *routes: ProxyRoute, challenges: Mapping[str, str] = {}) -> None:
        await self.proxy.apply(routes, self.certificates, challenges)

    def to(self, other: "Stage", name: str) -> dict[str, Any]:
        """Fields of a public route here whose backend is the proxy of another stage."""
        upstream = Upstream(name, other.issuer.authority)
        return {"backends": (Backend(other.internal, PORTS[443]),), "upstream": upstream, "public": True}

    # ---- asked from outside

    @asynccontextmanager
    async def client(self, authority: str | None = None) -> AsyncIterator["Client"]:
        context = ssl.create_default_context(cadata=authority or self.issuer.authority)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
            yield Client(session, self)

    def log(self) -> str:
        return (self.folder / "proxy" / "envoy.log").read_text()


class Client:
    def __init__(self, session: aiohttp.ClientSession, stage: Stage) -> None:
        self._session = session
        self._stage = stage

    async def get(
        self,
        host: str,
        path: str = "/",
        *,
        public: bool = False,
        sni: str = "",
        spelled: Mapping[str, str] = {},
        **headers: str,
    ) -> tuple[int, Any]:
        """Status, and the JSON or text that came. `spelled` are headers whose underscores stay."""
        address = self._stage.public if public else self._stage.internal
        sent = {"Host": host, **{name.replace("_", "-"): value for name, value in headers.items()}, **spelled}
        url = f"https://{address}:{PORTS[443]}{path}"
        async with self._session.get(url, headers=sent, server_hostname=sni or host) as answer:
            is_json = answer.content_type == "application/json"
            return answer.status, await answer.json() if is_json else await answer.text()

    async def plain(self, host: str, path: str = "/") -> tuple[int, str, str]:
        url = f"http://{self._stage.public}:{PORTS[80]}{path}"
        async with self._session.get(url, headers={"Host": host}, allow_redirects=False) as answer:
            return answer.status, answer.headers.get("Location", ""), await answer.text()

    @asynccontextmanager
    async def socket(self, host: str, public: bool = False) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        address = self._stage.public if public else self._stage.internal
        url = f"wss://{address}:{PORTS[443]}/socket"
        async with self._session.ws_connect(url, headers={"Host": host}, server_hostname=host) as line:
            yield line


@asynccontextmanager
async def backend(name: str) -> AsyncIterator[int]:
    """Says its name and what it was sent; /socket echoes; /slow answers when `/go` was asked for."""
    go = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/socket":
            return await echo(request)
        if request.path == "/slow":
            await go.wait()
        if request.path == "/go":
            go.set()
        sent = {key.lower(): value for key, value in request.headers.items()}
        return web.json_response({"name": name, "headers": sent, "path": request.path_qs})

    async def echo(request: web.Request) -> web.WebSocketResponse:
        line = web.WebSocketResponse()
        await line.prepare(request)
        async for message in line:
            await line.send_str(f"{name} {message.data}")
        return line

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        go.set()
        await runner.cleanup()


@contextmanager
def stage(folder: Path, **settings: Any) -> Iterator[Stage]:
    made = Stage(folder, **settings)
    try:
        asyncio.run(made.proxy.follow(made.listening))
        yield made
    finally:
        made.close()
