"""One edge and its workers in memory, in virtual time: what the agent's edge keeper sees and touches of the world."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.adapters.certificate_store.memory import MemoryShelf
from holdfast.adapters.certificates.memory import MemoryCertificates
from holdfast.adapters.clock.loop import LoopClock
from holdfast.adapters.handshake.memory import MemoryHandshake
from holdfast.adapters.proxy.memory import MemoryProxy
from holdfast.adapters.public_authority.memory import MemoryPublicAuthority
from holdfast.adapters.resolver.memory import MemoryResolver
from holdfast.agent.findings import Findings
from holdfast.agent.keeping import Keeping
from holdfast.agent.traffic.certificates.route_certificates import RouteCertificates
from holdfast.agent.traffic.edges.findings import EdgeFindings
from holdfast.agent.traffic.edges.routes import Edges
from holdfast.agent.traffic.edges.steps import EdgeConfig, EdgeSteps
from holdfast.agent.traffic.proxy_writer import ProxyWriter
from holdfast.model.fleet import Acme, Settings, Timeouts
from holdfast.model.manifest import NodeManifest
from holdfast.model.report import EdgeState
from holdfast.model.revision import Entry
from holdfast.model.route import EdgeRoute, Place
from holdfast.ports.certificates import Certificates
from holdfast.ports.handshake import Asked, Shown
from holdfast.ports.proxy import Listening, ProxyRoute, Servable
from holdfast.trust import certificates as rules
from tests.fleets import virtual
from tests.fleets.virtual import VirtualLoop

START_S = 1_800_000_000.0
ZONE = "holdfast.internal"
DOMAIN = "example.test"
OWN_PUBLIC = "203.0.113.5"
DNS = "100.64.0.5"
ADDRESSES = {"w1": "100.64.0.1", "w2": "100.64.0.2", "w3": "100.64.0.3"}
SETTINGS = Settings("lab", internal_zone=ZONE, public_domains=(DOMAIN,))
ACME = Acme("https://acme.example.test/directory", terms_agreed=True)
BLOG = f"blog.{DOMAIN}"


class SlowHandshake(MemoryHandshake):
    """Who hangs accepts a connection and never speaks."""

    def __init__(self, clock: LoopClock) -> None:
        super().__init__(clock)
        self.hung: set[str] = set()
        self.under_way = 0
        self.under_way_max = 0
        self.at_s: list[float] = []
        self._loop_clock = clock

    async def shown(
        self, address: str, port: int, name: str, authorities: bytes, at_most_s: float, asked: Asked | None = None
    ) -> Shown:
        self.at_s.append(self._loop_clock.monotonic_s())
        self.under_way += 1
        self.under_way_max = max(self.under_way, self.under_way_max)
        try:
            await asyncio.sleep(at_most_s if address in self.hung else 0.002)
        finally:
            self.under_way -= 1
        if address in self.hung:
            return Shown(trouble=f"{address}:{port} did not answer within {at_most_s:g} s")
        return await super().shown(address, port, name, authorities, at_most_s, asked)


class ShownProxy(MemoryProxy):
    """Takes a moment for every set, and can be looked at from outside like a real one."""

    def __init__(self, clock: LoopClock) -> None:
        super().__init__(clock)
        self.stays_silent = False
        self.shows: dict[str, bytes] = {}  # a chain that it shows whatever it was told, by hostname

    async def apply(
        self,
        routes: object,
        certificates: Mapping[str, Servable],
        challenges: Mapping[str, str] = {},
    ) -> None:
        await asyncio.sleep(0.005)
        await super().apply(routes, certificates, challenges)  # type: ignore[arg-type]

    def chain_for(self, port: int, name: str) -> bytes | None:
        found = next((route for route in self.told if port == 443 and name in route.hostnames), None)
        if found is None or self.stays_silent:
            return None
        if name in self.shows:
            return self.shows[name]
        return self.applied[-1].certificates[found.certificate].chain if found.certificate else b"memory passed on"


class Scene:
    def __init__(self, loop: VirtualLoop, acme: Acme | UnsetType = UNSET) -> None:
        self.loop = loop
        self.clock = LoopClock(loop, START_S)
        self.acme = acme
        self.settings = SETTINGS
        self.timeouts = Timeouts()
        self.dns_servers: tuple[str, ...] = (DNS,)
        self.own_public = OWN_PUBLIC
        self.proxy = ShownProxy(self.clock)
        self.shelf = MemoryShelf()
        self.authority = MemoryPublicAuthority(self.clock.now_s, self._answered)
        self.certificates = MemoryCertificates()
        self.certificates.issuer("e1", rules.constraints("e1", ("edge",), SETTINGS), self.clock.now_s())
        self.handshake = SlowHandshake(self.clock)
        self.handshake.listeners["127.0.0.1"] = self.proxy.chain_for
        self.resolver = MemoryResolver()
        self.records: dict[str, tuple[str, ...]] = {}
        self.public_records: dict[str, tuple[str, ...]] = {}
        self.resolver.known = {DNS: self.records, "": self.public_records}
        self.workers: dict[str, MemoryCertificates] = {}
        self.served: dict[str, dict[str, bytes]] = {}  # by node: internal name → chain
        for node, address in ADDRESSES.items():
            issuer = self.workers[node] = MemoryCertificates()
            issuer.issuer(node, rules.constraints(node, ("worker",), SETTINGS), self.clock.now_s())
            self.served[node] = {}
            self.handshake.listeners[address] = lambda port, name, node=node: self.served[node].get(name)  # type: ignore[misc]
        self.edge: dict[str, EdgeRoute] = {}
        self.said: list[tuple[str, dict[str, object]]] = []
        self.told = 0
        self.start()

    def _answered(self, name: str, token: str) -> str | None:
        return self.proxy.applied[-1].challenges.get(token) if self.proxy.applied else None

    # ---- the agent

    def start(self) -> None:
        """A new process: everything that is not on a disk or in the proxy is forgotten."""
        self.findings = Findings(self.clock.now_s)
        certificates: Certificates = self.certificates
        self.kept = RouteCertificates(
            certificates, self.shelf, self.authority, self.clock.now_s, self.findings, self._say
        )
        self.kept.follow(self.settings)
        self.board = ProxyWriter(self.proxy, self._found)
        self.edges = Edges(
            steps=EdgeSteps(self.board, self.kept, self.handshake, self.resolver, self.clock),
            clock=self.clock,
            now_s=self.clock.now_s,
            findings=EdgeFindings(self.findings),
            keeping=Keeping(self.findings, self._say),
            say=self._say,
            changed=self._tell,
        )
        self.task: asyncio.Task[None] | None = None

    def _found(self, route: ProxyRoute) -> Servable | None:
        kept = self.shelf.kept(route.hostnames[0])
        if kept is None:
            return None
        facts = self.certificates.chain(kept.chain, kept.private)
        return Servable(facts.leaf.digest, kept.chain, kept.private)

    def _say(self, event: str, fields: dict[str, object]) -> None:
        self.said.append((event, fields))

    def _tell(self) -> None:
        self.told += 1

    async def run(self) -> None:
        """Begin, with what is applied."""
        await self.proxy.follow(Listening(DNS, "0.0.0.0"))
        await self.board.look()
        self.task = asyncio.ensure_future(self.edges.run())
        self.follow()

    def follow(self) -> None:
        issuers = {node: certificates.current() for node, certificates in self.workers.items()}
        manifest = NodeManifest("f" * 16, "e1", "a" * 64, Entry("b" * 64), edge=dict(self.edge), issuers=issuers)
        config = EdgeConfig(manifest, self.settings, self.timeouts, self.acme, self.dns_servers, self.own_public)
        self.edges.follow(config)

    async def kill(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        self.start()

    # ---- the world

    def apply(self, service: str, node: str = "w1", *, others: tuple[str, ...] = (), epoch: int = 1) -> str:
        """As a signed revision says it; DNS follows at once."""
        hostname, backend = f"{service}.{DOMAIN}", f"app.{service}.{ZONE}"
        places = tuple(Place(other, ADDRESSES[other]) for other in others)
        self.edge[hostname] = EdgeRoute(service, "app", "http", node, ADDRESSES[node], backend, epoch, others=places)
        self.records[backend] = (ADDRESSES[node],)
        self.public_records[hostname] = (OWN_PUBLIC,)
        return hostname

    def amend(self, hostname: str, **changes: object) -> None:
        self.edge[hostname] = replace(self.edge[hostname], **changes)

    def serve(self, service: str, node: str = "w1") -> None:
        name = f"app.{service}.{ZONE}"
        self.served[node][name] = self.workers[node].issue((name,), self.clock.now_s()).chain

    def stop(self, service: str, node: str = "w1") -> None:
        self.served[node].pop(f"app.{service}.{ZONE}", None)

    # ---- looking

    def state(self, hostname: str = BLOG) -> EdgeState | None:
        return next((one for one in self.edges.states() if one.hostname == hostname), None)

    def phase(self, hostname: str = BLOG) -> str:
        found = self.state(hostname)
        return found.phase if found is not None else ""

    def led(self, hostname: str = BLOG) -> str:
        """Where the running proxy leads, "" if nowhere."""
        found = next((route for route in self.proxy.told if hostname in route.hostnames), None)
        return found.backends[0].address if found is not None else ""

    def codes(self) -> set[str]:
        return {one.code for one in self.findings.all()}

    async def until(self, holds: Callable[[], bool], at_most_s: float = 60.0) -> float:
        """How long it took."""
        began_s = self.loop.time()
        while not holds():
            assert self.loop.time() - began_s < at_most_s, self.edges.states()
            await asyncio.sleep(0.01)
        return self.loop.time() - began_s

    async def live(self, hostname: str = BLOG, at_most_s: float = 60.0) -> float:
        return await self.until(lambda: self.phase(hostname) == "live", at_most_s)


def play(story: Callable[[Scene], Awaitable[None]], acme: Acme | UnsetType = UNSET) -> None:
    async def main(loop: VirtualLoop) -> None:
        scene = Scene(loop, acme)
        await story(scene)
        await scene.kill()
        mistakes = [fields for event, fields in scene.said if event == "internal_error"]
        assert mistakes == []

    virtual.run(main)
