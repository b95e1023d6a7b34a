"""The keeper of this node's proxy: the process runs, listens where it must, and has the routes that were put.

Only what the signed revision names is routed here, with or without a hub (I-01).
"""

import asyncio
from collections.abc import Callable, Collection

from msgspec import Struct

from holdfast.agent.findings import Findings
from holdfast.agent.keeper import Revision, Say, Stage
from holdfast.agent.services.rollout.host_ports import own_address
from holdfast.agent.traffic.internal_routes import InternalRoutes
from holdfast.agent.traffic.proxy_writer import ProxyWriter
from holdfast.errors import HoldfastError
from holdfast.planning.edges import proxy_of
from holdfast.ports.proxy import Listening, Proxy
from holdfast.status.edges import carried

LOOK_S = 5.0
IDLE_S = 60.0  # where there is no proxy to look at
AGAIN_S = 1.0
EVERYWHERE = "0.0.0.0"  # noqa: S104 (an edge serves the public)
DOWN = "proxy_down"
TAKEN = "proxy_port_taken"


class ProxyReport(Struct, frozen=True, omit_defaults=True):
    proxy: str = ""  # product and version, "" while none runs

    def shorter(self, stage: Stage) -> "ProxyReport":
        return self


class ProxyKeeper:
    """`looked` is called after each look that found the proxy in order. `address` is the one this node joined with."""

    name = "proxy"

    def __init__(
        self,
        *,
        proxy: Proxy,
        board: ProxyWriter,
        routes: InternalRoutes,
        findings: Findings,
        say: Say,
        looked: Callable[[], None],
        changed: Callable[[], None],
        address: str,
    ) -> None:
        self._proxy = proxy
        self._board = board
        self._routes = routes
        self._findings = findings
        self._say = say
        self._looked = looked
        self._changed = changed
        self._address = address
        self._listening: Listening | None = None
        self._public: Collection[str] = ()  # hostnames
        self._bell = asyncio.Event()
        self._section = ProxyReport()

    def follow(self, revision: Revision) -> None:
        address = own_address(revision.node.address, self._address)
        self._routes.follow(revision.node, revision.document.settings, address)
        self._public = revision.manifest.edge.keys()
        before, self._listening = self._listening, self._wanted(revision, address)
        if self._listening != before or not self._section.proxy:
            self._bell.set()

    def _wanted(self, revision: Revision, address: str) -> Listening | None:
        """A node that serves nothing needs no proxy process (T-34); an edge has one from the beginning."""
        kind = proxy_of(revision.node)
        if kind == "none":
            return None
        if kind == "public":
            return Listening(address, EVERYWHERE)
        manifest = revision.manifest
        has_names = any(entry.names for entry in (*manifest.services.values(), *manifest.standby.values()))
        return Listening(address) if has_names or self._listening is not None else None

    def section(self) -> ProxyReport:
        return self._section

    async def run(self) -> None:
        while True:
            self._bell.clear()
            pause_s = LOOK_S if self._listening is not None else IDLE_S
            try:
                await self._look()
            except HoldfastError as trouble:
                message = trouble.message + carried.words(self._public)
                if trouble.code == TAKEN:
                    self._findings.add(TAKEN, message, trouble.remedy)
                else:
                    self._findings.add(DOWN, message, trouble.remedy)
                    self._note("")
                pause_s = AGAIN_S
            await self._rest(pause_s)

    async def _look(self) -> None:
        await self._proxy.follow(self._listening)
        if self._listening is not None and await self._board.look():
            self._say("drift", {"subsystems": ["routes"]})
        await self._routes.look_again()
        self._note(await self._proxy.version() if self._listening is not None else "")
        for code in (DOWN, TAKEN):
            self._findings.clear(code)
        self._looked()

    def _note(self, version: str) -> None:
        if version != self._section.proxy:
            self._section = ProxyReport(version)
            self._changed()

    async def _rest(self, pause_s: float) -> None:
        """Until another revision is accepted, something happened to the proxy, or it is time to look anyway."""
        rung = asyncio.ensure_future(self._bell.wait())
        stirred = asyncio.ensure_future(self._stirred(pause_s))
        try:
            await asyncio.wait({rung, stirred}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (rung, stirred):
                task.cancel()
            await asyncio.gather(rung, stirred, return_exceptions=True)

    async def _stirred(self, pause_s: float) -> None:
        if self._listening is None or not self._section.proxy:
            await asyncio.sleep(pause_s)
            return
        try:
            await self._proxy.changed(pause_s)
        except HoldfastError:
            await asyncio.sleep(AGAIN_S)
