"""The keeper of route certificates: watches their age, drops those of routes that left, asks for renewals in time."""

import asyncio
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.keeper import Revision, Stage
from holdfast.agent.traffic.certificates.route_certificates import RouteCertificates
from holdfast.agent.traffic.proxy_writer import ProxyWriter
from holdfast.model.report import CertificateState


class CertificatesReport(Struct, frozen=True, omit_defaults=True):
    certificates: tuple[CertificateState, ...] = ()  # of internal names; those of public ones are with their edge

    def shorter(self, stage: Stage) -> "CertificatesReport":
        match stage:
            case "certificates":
                return replace(self, certificates=tuple(one for one in self.certificates if one.trouble))
            case "nothing":
                return CertificatesReport()
        return self


class CertificatesKeeper:
    """`public` answers the public hostnames of this edge; `due` is called when a certificate is to be renewed."""

    name = "route-certificates"

    def __init__(
        self,
        certificates: RouteCertificates,
        board: ProxyWriter,
        public: Callable[[], set[str]],
        due: Callable[[], None],
    ) -> None:
        self._certificates = certificates
        self._board = board
        self._public = public
        self._due = due
        self._named: frozenset[str] | None = None  # every name that the manifest has here; None: not read yet
        self._section = CertificatesReport()

    def follow(self, revision: Revision) -> None:
        self._certificates.follow(revision.document.settings)
        manifest = revision.manifest
        here = (*manifest.services.values(), *manifest.standby.values())
        self._named = frozenset(name for entry in here for name in entry.names) | manifest.edge.keys()

    def looked(self) -> None:
        """After each look at the proxy: only then it is known which certificates it shows."""
        self._tidy()
        self._certificates.watch()
        if self._certificates.due():
            self._due()

    def _tidy(self) -> None:
        """Certificates of routes that left are dropped (M-85)."""
        if self._named is None:
            return
        routed = [route for found in self._board.services().values() for route in found]
        names = {name for route in (*routed, *self._board.edge().values()) for name in route.hostnames}
        self._certificates.forget_all_but(names | self._named | self._public())

    def section(self) -> CertificatesReport:
        names = {route.hostnames[0] for found in self._board.services().values() for route in found}
        states = (self._certificates.state(name) for name in sorted(names))
        found = tuple(state for state in states if state is not None)
        if found != self._section.certificates:
            self._section = CertificatesReport(found)
        return self._section

    async def run(self) -> None:
        """The keeper of the proxy calls `looked`: there is nothing else to wait for."""
        await asyncio.Event().wait()
