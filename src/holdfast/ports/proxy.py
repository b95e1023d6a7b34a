"""The proxy of a node. Only the agent configures it: one whole set of routes, acknowledged when in effect."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from holdfast.model.route import HTTPS


class Backend(Struct, frozen=True, order=True):
    address: str
    port: int


class Upstream(Struct, frozen=True):
    """TLS to the proxy of another node: the name it must prove, and the one authority (PEM) that may certify it."""

    name: str
    authority: str


class ProxyRoute(Struct, frozen=True):
    """The backends of one route of a service. Sorted sets of these are hashed to detect drift (T-12).

    `hostnames` are what clients ask for by SNI, and what the certificate is made for; `aliases` are further names that
    requests may carry in their Host header (an edge passes the public one on). With a public route, `backends` are the
    proxies of other nodes, reached as `upstream` says (L7) or passed through to (L4).
    """

    service: str
    component: str
    route: str
    mode: Literal["l4", "l7"]
    hostnames: tuple[str, ...]
    public: bool
    backends: tuple[Backend, ...]
    listener: int = HTTPS
    aliases: tuple[str, ...] = ()
    certificate: str = ""  # digest of the leaf that the proxy sends; "" for L4
    protocol: Literal["http1", "h2c"] = "http1"
    upstream: Upstream | None = None
    pass_headers: tuple[str, ...] = ()  # removed from requests of other routes (model/client_headers.py)
    answers: bool = True  # False: no container behind it does its work; the proxy says so to an edge that asks


class Servable(Struct, frozen=True):
    """Proof that a certificate may be served: its whole chain, name, time and key were verified (I-16). Only
    trust/servable.py makes it."""

    digest: str  # of the leaf
    chain: bytes  # PEM, leaf first
    private: bytes  # PEM

    def __repr__(self) -> str:
        return f"Servable({self.digest[:12]})"


class Listening(Struct, frozen=True):
    """The addresses the proxy of this node listens on. `public` is "" on a node that is no edge."""

    internal: str  # the overlay address of this node
    public: str = ""  # "0.0.0.0" or an address of this machine


class Proxy(Protocol):
    async def follow(self, listening: Listening | None) -> None:
        """Run, on these addresses; None stops it and removes its files. Returns at once if nothing changes."""
        ...

    async def version(self) -> str:
        """Product and version of the running process, "" while none runs."""
        ...

    async def known(self) -> Sequence[ProxyRoute] | None:
        """The set it was last given, from the adapter's own note, whatever the running process has; None if a set was
        given but the note is lost. For an agent that has just started."""
        ...

    async def routes(self) -> Sequence[ProxyRoute]:
        """The routes the running proxy really has; empty if it lost them."""
        ...

    async def apply(
        self,
        routes: Sequence[ProxyRoute],
        certificates: Mapping[str, Servable],
        challenges: Mapping[str, str] = {},
    ) -> None:
        """Replace the whole set; returns when the running proxy has acknowledged it. Old connections are kept.

        `certificates` are by digest and hold every one that a route names. `challenges` are the answers on port 80
        of an edge: token → key authorization (RFC 8555 8.3).
        """
        ...

    async def drained(self, gone: Sequence[Backend], at_most_s: float) -> None:
        """Wait until no request is in progress to backends without a route, or the time is over."""
        ...

    async def changed(self, at_most_s: float) -> bool:
        """Wait until the proxy died or lost its routes; False if that was not seen in that time. What happens shortly
        before the end of it may be told by the next call."""
        ...
