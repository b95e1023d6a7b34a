"""The keeper of this node's DNS server: reads the revision, and reports the names that are served."""

import asyncio

from msgspec import Struct

from holdfast.agent.keeper import Hints, Revision, Stage
from holdfast.agent.services.rollout.host_ports import own_address
from holdfast.agent.traffic.dns.records import Answers, DnsRecords
from holdfast.model.report import NamesState
from holdfast.model.route import LISTENERS, zone_of
from holdfast.ports.handshake import Handshake
from holdfast.ports.name_server import Serving

ASKED_S = 1.0


class DnsReport(Struct, frozen=True, omit_defaults=True):
    names: NamesState | None = None

    def shorter(self, stage: Stage) -> "DnsReport":
        return self


class DnsKeeper:
    """`address` is the one that this node joined with."""

    name = "dns"

    def __init__(self, records: DnsRecords, address: str) -> None:
        self._records = records
        self._address = address
        self._servers: tuple[str, ...] = ()
        self._section = DnsReport()

    def servers(self) -> tuple[str, ...]:
        """The DNS servers that containers of this node ask; () where there is none."""
        return self._servers

    def servers_of(self, revision: Revision) -> tuple[str, ...]:
        """The same once this revision is followed. A server that was started goes on when its last name leaves: that
        name stays for a while, and containers ask for other names, too."""
        manifest, dns = revision.manifest, revision.document.dns
        has_dns = manifest.own.dns and dns.driver != "none" and (bool(manifest.names) or bool(self._servers))
        return (own_address(revision.node.address, self._address),) if has_dns else ()

    def follow(self, revision: Revision) -> None:
        self._servers = self.servers_of(revision)
        serving = None
        if self._servers:
            document = revision.document
            serving = Serving(self._servers[0], zone_of(document.settings), document.dns.upstream)
        self._records.follow(serving, revision.manifest.records, revision.node.reconcile == "observe")

    def hinted(self, hints: Hints) -> None:
        self._records.withdraw(hints.get("withdrawn", ()))

    def section(self) -> DnsReport:
        state = self._records.state()
        if state is not self._section.names:
            self._section = DnsReport(state)
        return self._section

    async def run(self) -> None:
        await self._records.run()


def answers_of(handshake: Handshake) -> Answers:
    """Asks whether a proxy at an address answers to a name. Clients verify the certificate themselves."""

    async def answers(name: str, address: str) -> bool:
        asked = (handshake.shown(address, port, name, b"", ASKED_S) for port in LISTENERS)
        return any(shown.leaf for shown in await asyncio.gather(*asked))

    return answers
