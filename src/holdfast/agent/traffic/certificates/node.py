"""The keeper of this node's own certificates: its issuer, and the one that its listener shows."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from holdfast.agent.keeper import Act, OrderRun, Revision, Stage
from holdfast.errors import NotPermitted
from holdfast.model.certificate import Issued
from holdfast.model.fleet import Node, Settings
from holdfast.ports.certificates import Certificates
from holdfast.ports.clock import Clock
from holdfast.trust import certificates as rules


class IssuerReport(Struct, frozen=True, omit_defaults=True):
    issuer: bytes = b""  # DER of the node's issuing certificate
    serving: str = ""  # digest of the certificate that its listener shows, "" without a listener

    def shorter(self, stage: Stage) -> "IssuerReport":
        return self


class SwitchedListener(Protocol):
    """The listener of this node, open or closed: it shows the serving certificate to callers."""

    @property
    def shown(self) -> str:
        """Digest of that certificate; "" while the listener is closed."""
        ...

    def follow(self, node: Node) -> None: ...

    def refresh(self) -> None: ...

    async def run(self) -> None: ...


class NodeCertificates:
    """`door` is None for a node that never listens."""

    name = "certificates"

    def __init__(self, certificates: Certificates, clock: Clock, door: SwitchedListener | None = None) -> None:
        self._certificates = certificates
        self._clock = clock
        self._door = door
        self._names: tuple[str, ...] = ()
        self._section = IssuerReport()
        self.acts: Mapping[str, Act] = {
            "renew-certificate": Act(self._renew, "compensate", "every start looks at the certificates")
        }

    def follow(self, revision: Revision) -> None:
        self.prepare(revision.node, revision.document.settings)

    def prepare(self, node: Node, settings: Settings) -> None:
        """After every accepted revision, and at every start."""
        wanted = rules.constraints(node.name, node.roles, settings)
        issuer = self._certificates.issuer(node.name, wanted, self._clock.now_s())
        self._names = (rules.listener_name(node.name, node.roles, settings),)
        self._section = IssuerReport(issuer, self._section.serving)
        if self._door is not None:
            self._door.follow(node)

    def serving(self) -> Issued:
        if not self._names:
            raise NotPermitted(
                "no revision is accepted yet, so this node has no name to serve under",
                remedy="`holdfast apply` a fleet that names it, then wait until it checked in",
                code="no_issuer",
            )
        return self._certificates.serving(self._names, self._clock.now_s())

    async def renew(self) -> str:
        """A new certificate now, whether or not the old one is due."""
        if not self._names:
            return "no revision is accepted yet, so there is no certificate to renew"
        made = self._certificates.serving(self._names, self._clock.now_s(), anew=True)
        if self._door is not None:
            self._door.refresh()
        return f"issued again for {', '.join(self._names)}: {made.facts.digest[:12]}…"

    async def _renew(self, run: OrderRun) -> str:
        return await self.renew()

    def section(self) -> IssuerReport:
        serving = self._door.shown if self._door is not None else ""
        if serving != self._section.serving:
            self._section = IssuerReport(self._section.issuer, serving)
        return self._section

    async def run(self) -> None:
        """Certificates are renewed when they are used; only the listener has something to wait for."""
        if self._door is not None:
            await self._door.run()
