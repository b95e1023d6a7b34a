"""Build what carries traffic on a node: proxy, edges, certificates of routes, names. There is no policy here."""

from msgspec import Struct

from holdfast.agent.traffic.certificates.keeper import CertificatesKeeper
from holdfast.agent.traffic.certificates.route_certificates import RouteCertificates
from holdfast.agent.traffic.dns.keeper import DnsKeeper, answers_of
from holdfast.agent.traffic.dns.records import DnsRecords
from holdfast.agent.traffic.edges.findings import EdgeFindings
from holdfast.agent.traffic.edges.keeper import EdgesKeeper
from holdfast.agent.traffic.edges.routes import Edges
from holdfast.agent.traffic.edges.steps import EdgeSteps
from holdfast.agent.traffic.internal_routes import InternalRoutes
from holdfast.agent.traffic.keeper import ProxyKeeper
from holdfast.agent.traffic.proxy_writer import ProxyWriter
from holdfast.agent.wake import Wake
from holdfast.wiring.agent_parts import Common, Ports


class Traffic(Struct, frozen=True):
    proxy: ProxyKeeper
    edges: EdgesKeeper
    certificates: CertificatesKeeper
    dns: DnsKeeper
    routes: InternalRoutes


def traffic_side(ports: Ports, common: Common) -> Traffic:
    recalled, looked = Wake(), Wake()
    certificates = RouteCertificates(
        ports.issuer, ports.shelf, ports.authority, common.time.now_s, common.findings, ports.say
    )
    board = ProxyWriter(ports.proxy, lambda route: certificates.kept(route.hostnames), recalled)
    routes = InternalRoutes(board, certificates, ports.handshake)
    records = DnsRecords(
        ports.name_server, common.findings, ports.clock, ports.say, common.report, answers_of(ports.handshake)
    )
    dns = DnsKeeper(records, common.member.address)
    edges = Edges(
        steps=EdgeSteps(board, certificates, ports.handshake, ports.resolver, ports.clock),
        clock=ports.clock,
        now_s=common.time.now_s,
        findings=EdgeFindings(common.findings),
        keeping=common.keeping,
        say=ports.say,
        changed=common.report,
    )
    edges_keeper = EdgesKeeper(edges, dns.servers_of, common.report)
    kept = CertificatesKeeper(certificates, board, lambda: {one.hostname for one in edges.states()}, common.services)
    proxy = ProxyKeeper(
        proxy=ports.proxy,
        board=board,
        routes=routes,
        findings=common.findings,
        say=ports.say,
        looked=looked,
        changed=common.report,
        address=common.member.address,
    )
    recalled.connect(edges_keeper.recalled)
    looked.connect(kept.looked)
    return Traffic(proxy, edges_keeper, kept, dns, routes)
