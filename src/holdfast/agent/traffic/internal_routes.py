"""Routes of internal names: certified by this node's own issuer, put into its proxy, and seen in a real handshake.

reconcile/ decides what serves; nothing is decided here.
"""

import asyncio
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from holdfast.agent.traffic.certificates.route_certificates import RouteCertificates
from holdfast.agent.traffic.proxy_writer import ProxyWriter
from holdfast.errors import Failed
from holdfast.model.container import Guest
from holdfast.model.fleet import Node, Settings
from holdfast.model.route import zone_of
from holdfast.planning.edges import proxy_of
from holdfast.ports.handshake import Handshake
from holdfast.ports.proxy import Backend, ProxyRoute
from holdfast.reconcile import routes
from holdfast.reconcile.here import Here
from holdfast.reconcile.routes import Naming, ProxyKind

HANDSHAKE_S_MAX = 2.0
HANDSHAKE_TRIES = 4  # a proxy may need a moment for a new listener


class InternalRoutes:
    def __init__(self, board: ProxyWriter, certificates: RouteCertificates, handshake: Handshake) -> None:
        self.board = board
        self._certificates = certificates
        self._handshake = handshake
        self.kind: ProxyKind = "internal"
        self._naming = Naming()
        self._address = ""
        self._doubted: set[str] = set()  # first names of routes whose last handshake failed

    def follow(self, node: Node, settings: Settings, address: str) -> None:
        self.kind = proxy_of(node)
        self._naming = Naming(zone_of(settings), settings.public_domains)
        self._address = address

    @property
    def has_proxy(self) -> bool:
        return self.kind != "none"

    def wanted(self, target: Guest | None, here: Here) -> tuple[ProxyRoute, ...]:
        """Of one service; a route that is not certified yet, or not any more, names no certificate."""
        found = routes.routes(target, here, self.kind, self._naming)
        return routes.certified(found, self._certificates.digest)

    def certify(self, target: Guest, here: Here) -> None:
        """Raises if one cannot be had; then nothing is registered (M-84)."""
        for names in _names(routes.routes(target, here, self.kind, self._naming)):
            self._certificates.internal(names)

    async def switch(self, target: Guest, here: Here) -> None:
        """Acknowledged by the running proxy, and seen from outside wherever another certificate is shown."""
        if not self.has_proxy:
            return
        wanted = self.wanted(target, here)
        before = self.board.of(target.service)
        if wanted == before:
            return  # for example a service without a name: it needs no proxy
        shown = [self._certificates.internal(names) for names in _names(wanted)]
        await self.board.put(target.service, wanted, shown)
        known = {(route.hostnames, route.certificate) for route in before}
        for route in wanted:
            if route.mode == "l7" and (route.hostnames, route.certificate) not in known:
                await self._see(route)

    async def unroute(self, service: str) -> None:
        """Its names stay, without a backend."""
        empty = tuple(replace(route, backends=()) for route in self.board.of(service))
        await self.board.put(service, empty)

    async def unlist(self, service: str) -> None:
        await self.board.put(service, ())

    async def drained(self, gone: Sequence[Backend], at_most_s: float) -> None:
        await self.board.drained(gone, at_most_s)

    async def look_again(self) -> None:
        """At names whose handshake failed: a clock that was wrong may be right by now, and nothing else would tell.
        A name without a route any more, as after a rollout that failed, shows nothing wrong."""
        if not self._doubted:
            return
        found = {route.hostnames[0]: route for routes in self.board.services().values() for route in routes}
        for name in self._doubted - found.keys():
            self._doubted.discard(name)
            self._certificates.unrouted(name)
        await asyncio.gather(*(self._trouble(found[name]) for name in sorted(self._doubted)))

    async def _trouble(self, route: ProxyRoute) -> str:
        """Of one handshake; "" if it showed the certificate."""
        name = route.hostnames[0]
        shown = await self._handshake.shown(
            self._address, route.listener, name, self._certificates.anchor(name), HANDSHAKE_S_MAX
        )
        if self._certificates.seen(name, shown.leaf, shown.trouble):
            self._doubted.discard(name)
            return ""
        self._doubted.add(name)
        return shown.trouble or "it shows another certificate than the new one"

    async def _see(self, route: ProxyRoute) -> None:
        """M-06: a proxy that does not show the new certificate is reported now, not by the first client."""
        name, trouble = route.hostnames[0], ""
        for tried in range(HANDSHAKE_TRIES):
            await asyncio.sleep(0.05 * tried)
            trouble = await self._trouble(route)
            if not trouble:
                return
        raise Failed(
            f"the proxy of this node does not show the certificate for {name}: {trouble}",
            remedy="see the proxy's log in the agent's state directory; it is tried again with the next deploy",
            code="handshake_failed",
        )


def _names(found: Collection[ProxyRoute]) -> list[tuple[str, ...]]:
    return sorted({route.hostnames for route in found if route.mode == "l7"})
