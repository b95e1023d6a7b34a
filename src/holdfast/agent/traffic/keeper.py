"""Traffic of this node: its proxy and its DNS server as the manifest in force says, each kept by a task of its own.

Only what the signed revision names is routed, resolved or certified here; hub or no hub (I-01).
"""

import asyncio
from collections.abc import Callable
from functools import partial

from holdfast.agent.findings import Findings
from holdfast.agent.services.rollout.host_ports import own_address
from holdfast.agent.time import NodeTime
from holdfast.agent.traffic.certificates.route_certificates import RouteCertificates
from holdfast.agent.traffic.dns.keeper import DnsRecords
from holdfast.agent.traffic.edges.keeper import Edges
from holdfast.agent.traffic.internal_routes import InternalRoutes
from holdfast.agent.traffic.proxy_writer import ProxyWriter
from holdfast.agent.world import World
from holdfast.errors import HoldfastError
from holdfast.model.fleet import FleetDocument, Node
from holdfast.model.manifest import NodeManifest
from holdfast.model.report import CertificateState
from holdfast.model.route import LISTENERS, zone_of
from holdfast.planning.edges import proxy_of
from holdfast.ports.name_server import Serving
from holdfast.ports.proxy import Listening, ProxyRoute, Servable

LOOK_S = 5.0
IDLE_S = 60.0  # where there is no proxy to look at
AGAIN_S = 1.0
ASKED_S = 1.0
EVERYWHERE = "0.0.0.0"  # noqa: S104 (an edge is there for everybody)
DOWN = "proxy_down"
TAKEN = "proxy_port_taken"


class Traffic:
    """`changes` counts what a report would show; `stirred` is called when something of a service is to be renewed."""

    def __init__(self, world: World, time: NodeTime, findings: Findings, tell: Callable[[], None]) -> None:
        self._world = world
        self._findings = findings
        self._tell = tell
        self.changes = 0
        self.stirred: Callable[[], None] = lambda: None
        self.certificates = RouteCertificates(
            world.issuer, world.shelf, world.authority, time.now_s, findings, world.say
        )
        self.board = ProxyWriter(world.proxy, self._find)
        self.routes = InternalRoutes(self.board, self.certificates, world.handshake)
        self.names = DnsRecords(world.name_server, findings, world.clock, world.say, self.changed, self._answers)
        self.edges = Edges(
            self.board,
            self.certificates,
            world.handshake,
            world.resolver,
            world.clock,
            time.now_s,
            findings,
            world.say,
            self.changed,
        )
        self.proxy = ""  # product and version, "" while none runs
        self.dns: tuple[str, ...] = ()  # whom containers ask for names; nobody where no DNS server is
        self._listening: Listening | None = None
        self._recalls = False  # what the proxy had when this process began
        self._tell_edges: Callable[[], None] = lambda: None
        self._bell = asyncio.Event()
        self._named: frozenset[str] | None = None  # everything the manifest gives a name to here; None: not read yet

    def changed(self) -> None:
        self.changes += 1
        self._tell()

    # ---- what is wanted

    def follow(self, manifest: NodeManifest, document: FleetDocument, node: Node, given: str) -> None:
        """A revision was accepted, or the agent started with one. `given` is the address this node joined with."""
        settings, address = document.settings, own_address(node.address, given)
        self.certificates.follow(settings)
        self.routes.follow(node, settings, address)
        before, self._listening = self._listening, self._wanted(manifest, node, address)
        here = (*manifest.services.values(), *manifest.standby.values())
        self._named = frozenset(name for entry in here for name in entry.names) | manifest.edge.keys()
        dns = document.dns
        # What was started goes on when its last name leaves: that one lingers, and containers ask for others, too.
        has_dns = manifest.own.dns and dns.driver != "none" and (bool(manifest.names) or bool(self.dns))
        self.dns = (address,) if has_dns else ()
        serving = Serving(address, zone_of(settings), dns.upstream) if has_dns else None
        self.names.follow(serving, manifest.records, node.reconcile == "observe")
        own_public = node.public_address.strip("[]")
        self._tell_edges = partial(
            self.edges.follow, manifest, settings, document.timeouts, document.acme, self.dns, own_public
        )
        self._tell_edges()
        if self._listening != before or not self.proxy:
            self._bell.set()

    def _wanted(self, manifest: NodeManifest, node: Node, address: str) -> Listening | None:
        """A node that serves nothing needs no proxy process (T-34); an edge is there from the beginning."""
        kind = proxy_of(node)
        if kind == "none":
            return None
        if kind == "public":
            return Listening(address, EVERYWHERE)
        has_names = any(entry.names for entry in (*manifest.services.values(), *manifest.standby.values()))
        return Listening(address) if has_names or self._listening is not None else None

    # ---- kept

    async def run(self) -> None:
        """Until cancelled. Trouble is a finding, and tried again."""
        tasks = [asyncio.ensure_future(work) for work in (self._keep(), self.names.run(), self.edges.run())]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self) -> None:
        while True:
            self._bell.clear()
            pause_s = LOOK_S if self._listening is not None else IDLE_S
            try:
                await self._look()
            except HoldfastError as trouble:
                if trouble.code == TAKEN:
                    self._findings.add_trouble(TAKEN, trouble)
                else:
                    self._findings.add_trouble(DOWN, trouble)
                    self._note("")
                pause_s = AGAIN_S
            except Exception as trouble:  # a mistake of ours must not end the keeping
                what = f"{type(trouble).__name__}: {trouble}"
                self._findings.add("internal_error", what, "report this, with the log")
                self._world.say("internal_error", {"message": repr(trouble)})
                pause_s = AGAIN_S
            await self._rest(pause_s)

    async def _look(self) -> None:
        await self._world.proxy.follow(self._listening)
        if self._listening is not None and await self.board.look():
            self._world.say("drift", {"subsystems": ["routes"]})
        if self._listening is not None and not self._recalls:
            self._recalls = True
            self._tell_edges()  # what left while no agent was there is in the proxy, and in no manifest
        self._note(await self._world.proxy.version() if self._listening is not None else "")
        for code in (DOWN, TAKEN):
            self._findings.clear(code)
        self._tidy()
        self.certificates.watch()
        if self.certificates.due():
            self.stirred()

    def _tidy(self) -> None:
        """Certificates of what left go with it (M-85)."""
        if self._named is None:
            return
        routed = [route for found in self.board.services().values() for route in found]
        names = {name for route in (*routed, *self.board.edge().values()) for name in route.hostnames}
        self.certificates.forget_all_but(names | self._named | {one.hostname for one in self.edges.states()})

    def _note(self, version: str) -> None:
        if version != self.proxy:
            self.proxy = version
            self.changed()

    async def _rest(self, pause_s: float) -> None:
        """Until another revision is accepted, the proxy stirred, or it is time to look anyway."""
        rung = asyncio.ensure_future(self._bell.wait())
        stirred = asyncio.ensure_future(self._stirred(pause_s))
        try:
            await asyncio.wait({rung, stirred}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (rung, stirred):
                task.cancel()
            await asyncio.gather(rung, stirred, return_exceptions=True)

    async def _stirred(self, pause_s: float) -> None:
        if self._listening is None or not self.proxy:
            await asyncio.sleep(pause_s)
            return
        try:
            await self._world.proxy.changed(pause_s)
        except HoldfastError:
            await asyncio.sleep(AGAIN_S)

    async def _answers(self, name: str, address: str) -> bool:
        """Whether a proxy there answers to a name. Who it is, is not asked: clients do that themselves."""
        asked = (self._world.handshake.shown(address, port, name, b"", ASKED_S) for port in LISTENERS)
        return any(shown.leaf for shown in await asyncio.gather(*asked))

    def _find(self, route: ProxyRoute) -> Servable | None:
        return self.certificates.kept(route.hostnames)

    # ---- telling

    def certificate_states(self) -> tuple[CertificateState, ...]:
        """Of internal names; those of public ones stand with their edge."""
        names = {route.hostnames[0] for found in self.board.services().values() for route in found}
        states = (self.certificates.state(name) for name in sorted(names))
        return tuple(state for state in states if state is not None)
