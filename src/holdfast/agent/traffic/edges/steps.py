"""The acts of an edge for a public hostname: ask, prove, order a certificate, put a route. One try each.

Hostnames share one machine: questions and certificate orders under way are bounded, and repeated looks keep to a pace.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import Protocol

from msgspec import Struct, UnsetType
from msgspec.structs import replace

from holdfast.errors import HoldfastError, TryLater
from holdfast.model import duration
from holdfast.model.fleet import Acme, Settings, Timeouts
from holdfast.model.manifest import NodeManifest
from holdfast.model.report import CertificateState
from holdfast.model.route import HTTPS, EdgeRoute, Place, known_path
from holdfast.planning import overlay
from holdfast.planning.edges import backend_complaint, hostname_complaint
from holdfast.ports.clock import Clock
from holdfast.ports.handshake import Asked, Handshake, Shown
from holdfast.ports.name_server import Resolver
from holdfast.ports.proxy import ProxyRoute, Servable
from holdfast.ports.public_authority import Answer
from holdfast.reconcile import edges
from holdfast.reconcile.edges import PASSED, Check

ASKED_S = 2.0  # for one handshake or one question to DNS
QUESTIONS = 64  # under way at once
ORDERS = 8  # certificates
ORDER_S_MIN = 60.0  # a public authority is slow; the step fails when its own time is over
LOOKS_PER_S, TRIES_PER_S = 40.0, 100.0  # handshakes
COMING_S = 2.0  # a hostname that goes waits at most so long for those that come
LOOPBACK = "127.0.0.1"

ROUTE_FAILED = "edge_route_failed"
UNREACHABLE = "backend_unreachable"
DOWN = "backend_down"  # its proxy answers, and no container behind that: its own node has the finding, with the reason
HANDSHAKE_FAILED = "handshake_failed"
DNS_DIFFERS = "dns_differs"


class Board(Protocol):
    """The sole writer of this node's proxy."""

    async def put_edge(
        self,
        hostname: str,
        route: ProxyRoute | None,
        certificate: Servable | None,
        after: Awaitable[None] | None = None,
    ) -> None:
        """Returns when the running proxy has it; None removes it, with another change or after that was awaited."""
        ...

    async def answer(self, challenges: Mapping[str, str]) -> None:
        """Answer exactly these tokens on port 80, and return once that is so."""
        ...

    def edge(self) -> Mapping[str, ProxyRoute]:
        """The public routes that the running proxy has, by hostname."""
        ...

    def edge_of(self, hostname: str) -> ProxyRoute | None: ...


class PublicCertificates(Protocol):
    """What an edge needs of the certificates of this node's routes."""

    async def public(self, hostname: str, acme: Acme | UnsetType, answer: Answer, at_most_s: float) -> Servable: ...

    def prepare(self, hostname: str, acme: Acme | UnsetType) -> None:
        """Have one issued by this node itself, if that is its authority. Raises nothing."""
        ...

    def due(self) -> tuple[str, ...]: ...

    def seen(self, name: str, leaf: bytes, trouble: str = "") -> bool: ...

    def anchor(self, name: str) -> bytes: ...

    def state(self, name: str) -> CertificateState | None: ...


class EdgeConfig(Struct, frozen=True):
    """Everything the accepted revision says to this edge."""

    manifest: NodeManifest
    settings: Settings
    timeouts: Timeouts
    acme: Acme | UnsetType
    dns_servers: tuple[str, ...]  # () where no DNS is served: then the signed record is believed
    own_public: str  # where the public reaches this edge; "" where it is not declared

    @property
    def edge_route_s(self) -> float:
        return duration.milliseconds(self.timeouts.edge_route) / 1000

    @property
    def undeploy_s(self) -> float:
        return duration.milliseconds(self.timeouts.undeploy) / 1000

    def has_service(self, name: str) -> bool:
        """As far as this edge's manifest has it: by its internal names, or another public one."""
        return name in self.manifest.names or any(route.service == name for route in self.manifest.edge.values())

    def about(self, wanted: EdgeRoute) -> object:
        """All of it that one hostname depends on: it starts over when this changes."""
        issuers = [self.manifest.issuers.get(place.node) for place in edges.places(wanted)]
        names = (self.settings.public_domains, self.settings.internal_zone, self.settings.overlay_cidr)
        return wanted, issuers, names, self.acme, self.dns_servers, self.own_public


class Pace:
    """So many handshakes in a second, for everything that is asked again."""

    def __init__(self, clock: Clock, per_s: float) -> None:
        self._clock = clock
        self._per_s = per_s
        self._free_s = 0.0

    async def slot(self, handshakes: int = 1) -> None:
        now_s = self._clock.monotonic_s()
        begin_s = max(now_s, self._free_s)
        self._free_s = begin_s + handshakes / self._per_s
        if begin_s > now_s:
            await asyncio.sleep(begin_s - now_s)


class EdgeSteps:
    def __init__(
        self,
        board: Board,
        certificates: PublicCertificates,
        handshake: Handshake,
        resolver: Resolver,
        clock: Clock,
    ) -> None:
        self.board = board
        self.certificates = certificates
        self.looks = Pace(clock, LOOKS_PER_S)
        # Apart: a name that is not served yet must not wait for the looks at hundreds of names that are.
        self.tries = Pace(clock, TRIES_PER_S)
        self._handshake = handshake
        self._resolver = resolver
        self._questions = asyncio.Semaphore(QUESTIONS)
        self._orders = asyncio.Semaphore(ORDERS)
        self._tokens: dict[str, Mapping[str, str]] = {}
        self._answered: dict[str, str] | None = {}  # by the running proxy; None while that is not known
        self._answering = asyncio.Lock()
        self._coming: set[str] = set()
        self._none_comes = asyncio.Event()
        self._none_comes.set()

    def has(self, hostname: str) -> ProxyRoute | None:
        """What the running proxy has for it."""
        return self.board.edge_of(hostname)

    # ---- what may be served at all

    def domain(self, charge: EdgeConfig, hostname: str) -> Check:
        return _judged(hostname_complaint(hostname, charge.settings), "look at public_domains in fleet.toml")

    def name(self, charge: EdgeConfig, wanted: EdgeRoute) -> Check:
        complaint = backend_complaint(replace(wanted, others=()), charge.settings)
        return _judged(complaint, "look at internal_zone, overlay_cidr and the address of the node in fleet.toml")

    def allowed(self, charge: EdgeConfig, wanted: EdgeRoute) -> tuple[Place, ...]:
        """Where it may lead: nowhere outside of the overlay, whichever node stands in."""
        return tuple(
            place
            for place in edges.places(wanted)
            if overlay.outside(place.address, charge.settings.overlay_cidr) is None
        )

    def forbidden(self, charge: EdgeConfig, hostname: str, has: ProxyRoute) -> bool:
        """The proxy has something that this edge may not serve (any more)."""
        if hostname_complaint(hostname, charge.settings):
            return True
        wanted = charge.manifest.edge.get(hostname)
        if wanted is not None and any(one.address == wanted.fenced for one in has.backends):
            return True
        return any(overlay.outside(one.address, charge.settings.overlay_cidr) for one in has.backends)

    # ---- questions

    async def dns(self, charge: EdgeConfig, wanted: EdgeRoute) -> Check:
        if not charge.dns_servers:
            return PASSED
        try:
            async with self._questions:
                found = await self._resolver.addresses(wanted.backend, charge.dns_servers, ASKED_S)
        except HoldfastError as trouble:
            return Check(f"{wanted.backend} cannot be resolved: {trouble.message}", trouble.remedy, DNS_DIFFERS)
        complaint = edges.dns_complaint(wanted, found)
        return Check(complaint, "`holdfast edge status` shows what DNS answers", DNS_DIFFERS) if complaint else PASSED

    async def backend(self, charge: EdgeConfig, place: Place, route: ProxyRoute) -> Check:
        """Does its proxy answer there, prove the internal name with the certificate of that very node, and have a
        container that answers (N17)?"""
        if route.mode == "l7" and not charge.manifest.issuers.get(place.node):
            return Check(
                f"the revision does not say yet which certificate {place.node} issues with",
                "`holdfast apply`, once the node has joined and reported",
                UNREACHABLE,
            )
        shown = await self.asked(route)
        if not shown.trouble:
            return PASSED
        if shown.is_idle:
            return Check(f"{place.node}: {shown.trouble}", f"holdfast ps {route.service}", DOWN)
        text = f"{place.node} ({place.address}): {shown.trouble}"
        return Check(text, f"holdfast node show {place.node}", UNREACHABLE)

    async def asked(self, route: ProxyRoute) -> Shown:
        """What the backend of this route shows and answers."""
        if not route.backends:
            return Shown(trouble="it has no backend")
        backend = route.backends[0]
        name = route.upstream.name if route.upstream is not None else route.hostnames[0]
        authority = route.upstream.authority.encode() if route.upstream is not None else b""
        async with self._questions:
            asked = _asked(route) if route.upstream is not None else None
            shown = await self._handshake.shown(backend.address, backend.port, name, authority, ASKED_S, asked)
        if route.upstream is None and shown.leaf:
            return replace(shown, trouble="")  # passed through: it is between the service and its clients
        return shown

    async def shows(self, charge: EdgeConfig, hostname: str, servable: Servable | None) -> Check:
        """Does the running proxy really show what it must, to clients? The exact leaf is compared."""
        anchor = self.certificates.anchor(hostname) if servable is not None else b""
        shown = Shown()
        for address in dict.fromkeys((LOOPBACK, charge.own_public or LOOPBACK)):
            async with self._questions:
                shown = await self._handshake.shown(address, HTTPS, hostname, anchor, ASKED_S)
            if shown.leaf:
                break
        if bool(shown.leaf) if servable is None else self.certificates.seen(hostname, shown.leaf, shown.trouble):
            return PASSED
        why = shown.trouble or "it is not the current one"
        found = "another certificate" if shown.leaf else "no certificate"
        return Check(
            f"port {HTTPS} of this node shows {found} for {hostname}: {why}",
            "`holdfast status` shows whether the proxy of this node runs; the route is put again automatically",
            HANDSHAKE_FAILED,
        )

    async def public_addresses(self, hostname: str) -> tuple[str, ...] | None:
        """Where the public name leads, as this machine resolves it; None if that is not known."""
        try:
            async with self._questions:
                return await self._resolver.addresses(hostname, (), ASKED_S)
        except HoldfastError:
            return None

    # ---- acts

    async def certificate(self, charge: EdgeConfig, hostname: str) -> Servable:
        async with self._orders:

            async def answer(challenges: Mapping[str, str]) -> None:
                await self._answer(hostname, challenges)

            at_most_s = max(charge.edge_route_s, ORDER_S_MIN)
            try:
                return await self.certificates.public(hostname, charge.acme, answer, at_most_s)
            finally:
                self._tokens.pop(hostname, None)
                if self._answered != self._all_tokens():  # an order that was cut off did not take its own away
                    await self._say_tokens()

    async def _answer(self, hostname: str, challenges: Mapping[str, str]) -> None:
        """The proxy answers one set of tokens: that of every order under way."""
        if challenges:
            self._tokens[hostname] = dict(challenges)
        else:
            self._tokens.pop(hostname, None)
        await self._say_tokens()

    def _all_tokens(self) -> dict[str, str]:
        return {token: text for one in self._tokens.values() for token, text in one.items()}

    async def _say_tokens(self) -> None:
        async with self._answering:
            self._answered = None
            tokens = self._all_tokens()
            await self.board.answer(tokens)
            self._answered = tokens

    async def put(self, hostname: str, route: ProxyRoute, servable: Servable | None) -> Check:
        try:
            await self.board.put_edge(hostname, route, servable)
        except HoldfastError as trouble:
            return as_check(trouble)
        return PASSED

    async def withdraw(self, hostname: str, at_once: bool) -> Check:
        """A change of the proxy takes long beside many routes: hostnames that are about to be served go first."""
        try:
            await self.board.put_edge(hostname, None, None, None if at_once else self._served())
        except HoldfastError as trouble:
            return as_check(trouble)
        return PASSED

    def expect(self, hostname: str, is_coming: bool) -> None:
        """It is about to be served, or is not any more."""
        if is_coming:
            self._coming.add(hostname)
            self._none_comes.clear()
        else:
            self._coming.discard(hostname)
            if not self._coming:
                self._none_comes.set()

    async def _served(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(COMING_S):
                await self._none_comes.wait()


def as_check(trouble: HoldfastError) -> Check:
    return Check(trouble.message, trouble.remedy, trouble.code, hopeless=not isinstance(trouble, TryLater))


def _judged(complaint: str | None, remedy: str) -> Check:
    return Check(complaint, remedy, ROUTE_FAILED, hopeless=True) if complaint else PASSED


def _asked(route: ProxyRoute) -> Asked:
    """Requests carry the public name to the worker, where it must belong to this service, not to its former owner."""
    return Asked(route.hostnames[0], known_path(route.service, route.component, route.route))
