"""The certificates of this node, as the accepted revision wants them: its issuer, and what its listener shows."""

from typing import Protocol

from holdfast.errors import NotPermitted
from holdfast.model.certificate import Issued
from holdfast.model.fleet import Node, Settings
from holdfast.ports.certificates import Certificates
from holdfast.ports.clock import Clock
from holdfast.trust import certificates as rules


class SwitchedListener(Protocol):
    """Who shows the serving certificate to callers: the door of this node, open or shut."""

    @property
    def shown(self) -> str:
        """Its digest; "" while nobody can see it."""
        ...

    def follow(self, node: Node) -> None: ...

    def refresh(self) -> None: ...


class NodeCertificates:
    def __init__(self, certificates: Certificates, clock: Clock) -> None:
        self._certificates = certificates
        self._clock = clock
        self._names: tuple[str, ...] = ()
        self._issuer = b""
        self.door: SwitchedListener | None = None

    def follow(self, node: Node, settings: Settings) -> None:
        """After every accepted revision, and at every start."""
        wanted = rules.constraints(node.name, node.roles, settings)
        self._issuer = self._certificates.issuer(node.name, wanted, self._clock.now_s())
        self._names = (rules.listener_name(node.name, node.roles, settings),)
        if self.door is not None:
            self.door.follow(node)

    def serving(self) -> Issued:
        if not self._names:
            raise NotPermitted(
                "no revision is accepted yet, so this node has no name to serve under",
                remedy="holdfast apply a fleet that names it, then wait until it checked in",
                code="no_issuer",
            )
        return self._certificates.serving(self._names, self._clock.now_s())

    async def renew(self) -> str:
        """Somebody asked: a fresh one now, whether or not the old one is due."""
        if not self._names:
            return "no revision is accepted yet, so there is no certificate to renew"
        made = self._certificates.serving(self._names, self._clock.now_s(), anew=True)
        if self.door is not None:
            self.door.refresh()
        return f"issued anew for {', '.join(self._names)}: {made.facts.digest[:12]}…"

    def shown(self) -> tuple[bytes, str]:
        return self._issuer, self.door.shown if self.door is not None else ""
