"""The certificates of this node, as the accepted revision wants them: its issuer, and what its listener shows."""

from collections.abc import Callable

from holdfast.errors import NotPermitted
from holdfast.model.certificate import Issued
from holdfast.model.fleet import Node, Settings
from holdfast.ports.certificates import Certificates
from holdfast.ports.clock import Clock
from holdfast.trust import certificates as rules


class CertificateKeeper:
    """`shows` is told when the listener should look again."""

    def __init__(self, certificates: Certificates, clock: Clock) -> None:
        self._certificates = certificates
        self._clock = clock
        self._names: tuple[str, ...] = ()
        self._issuer = b""
        self._forced: Issued | None = None
        self.shows: Callable[[], object] = lambda: None
        self.serving_digest: Callable[[], str] = lambda: ""

    def follow(self, node: Node, settings: Settings) -> None:
        """After every accepted revision, and at every start."""
        wanted = rules.constraints(node.name, node.roles, settings)
        self._issuer = self._certificates.issuer(node.name, wanted, self._clock.now_s())
        names = (rules.listener_name(node.name, node.roles, settings),)
        if names != self._names:
            self._names, self._forced = names, None
        self.shows()

    def serving(self) -> Issued:
        if not self._names:
            raise NotPermitted(
                "no revision is accepted yet, so this node has no name to serve under",
                remedy="holdfast apply a fleet that names it, then wait until it checked in",
                code="no_issuer",
            )
        if self._forced is not None:
            return self._forced
        return self._certificates.serving(self._names, self._clock.now_s())

    async def renew(self) -> str:
        """Somebody asked: a fresh one now, whether or not the old one is due."""
        if not self._names:
            return "no revision is accepted yet, so there is no certificate to renew"
        self._forced = self._certificates.issue(self._names, self._clock.now_s())
        self.shows()
        return f"issued anew for {', '.join(self._names)}: {self._forced.facts.digest[:12]}…"

    def shown(self) -> tuple[bytes, str]:
        return self._issuer, self.serving_digest()
