"""Simulated TLS handshakes: a listener registered for an address returns the chain of its proxy.

Verifies what memory certificates allow: signed by a given authority's key, valid for the name, valid now.
"""

import base64
import re
from collections.abc import Callable, Iterable
from typing import Protocol

from holdfast.adapters.certificates import memory as certificates
from holdfast.errors import Corrupt
from holdfast.ports.handshake import Asked, Shown
from holdfast.trust.certificates import may_issue

_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)

# Returns the chain (of MemoryCertificates) for a port and a server name; None closes the connection.
Listener = Callable[[int, str], bytes | None]


class Now(Protocol):
    def now_s(self) -> float: ...


class MemoryHandshake:
    def __init__(self, clock: Now) -> None:
        self._clock = clock
        self.listeners: dict[str, Listener] = {}  # by address
        self.troubles: dict[str, str] = {}  # by address: the error to return instead
        self.asked: list[tuple[str, int, str]] = []
        self.unknown_hosts: set[str] = set()  # public hostnames that no proxy worker routes yet
        self.idle_hosts: set[str] = set()  # ... that one routes, without a container that answers

    async def shown(
        self, address: str, port: int, name: str, authorities: bytes, at_most_s: float, asked: Asked | None = None
    ) -> Shown:
        self.asked = [*self.asked, (address, port, name)][-1000:]
        if address in self.troubles:
            return Shown(trouble=self.troubles[address])
        if address not in self.listeners:
            return Shown(trouble=f"connection refused: nothing listens on {address}:{port}")
        chain = self.listeners[address](port, name)
        if chain is None:
            return Shown(trouble=f"{address}:{port} closed the connection during the TLS handshake for {name}")
        leaf = certificates.leaf_of(chain)
        complaint = self._complaint(certificates.read(leaf), name, authorities)
        if not complaint and asked is not None and asked.host in self.unknown_hosts:
            complaint = f"{address}:{port} has no route for {asked.host} yet"
        is_idle = not complaint and asked is not None and asked.host in self.idle_hosts
        if is_idle and asked is not None:
            complaint = f"{asked.host} has no container that answers behind {address}:{port}"
        return Shown(leaf, complaint, "h2", is_idle)

    def _complaint(self, leaf: certificates.Written, name: str, authorities: bytes) -> str:
        if name not in leaf.names:
            return f"Hostname mismatch, certificate is not valid for '{name}'."
        if not leaf.not_before_s <= self._clock.now_s() < leaf.not_after_s:
            return "certificate has expired or is not yet valid"
        if authorities and not any(_vouches(above, leaf, name) for above in _unarmoured(authorities)):
            return "unable to get local issuer certificate"
        return ""


def _vouches(above: bytes, leaf: certificates.Written, name: str) -> bool:
    try:
        said = certificates.read(above)
    except Corrupt:
        return False
    bounded = bool(said.constraints.permitted)
    return said.key == leaf.maker and (not bounded or may_issue(said.constraints, name))


def _unarmoured(authorities: bytes) -> Iterable[bytes]:
    """The DER inside the PEM blocks; for memory certificates that is their own format."""
    return (base64.b64decode(block) for block in _BLOCK.findall(authorities))
