"""Build the agent out of ports: each class gets exactly what it uses. There is no policy here.

The tuple of keepers is the seam: a new part of a node is one more entry. Its order is the order of their fields in a
report, and the order in which they follow a revision.
"""

from collections.abc import Callable

from msgspec import Struct

from holdfast.agent.acceptance.accept import Accepting
from holdfast.agent.acceptance.catch_up import CatchUp
from holdfast.agent.acceptance.log import AcceptanceLog
from holdfast.agent.agent import Agent
from holdfast.agent.findings import Findings
from holdfast.agent.keeper import Act, Keeper, Say, acts_of
from holdfast.agent.keeping import Keeping
from holdfast.agent.lanes import Lanes
from holdfast.agent.link import report
from holdfast.agent.link.audit_copy import AuditCopy
from holdfast.agent.link.audit_folding import AuditFolding
from holdfast.agent.link.check_in import CheckIns
from holdfast.agent.link.joining import Joining
from holdfast.agent.link.messages import Messages
from holdfast.agent.link.order_results import OrderResults
from holdfast.agent.link.pace import Pace
from holdfast.agent.link.pulse import Pulses
from holdfast.agent.link.report import Reporter
from holdfast.agent.membership import Membership
from holdfast.agent.orders.crash_recovery import CrashRecovery
from holdfast.agent.orders.order_gate import OrderGate
from holdfast.agent.orders.order_horizon import OrderHorizon
from holdfast.agent.orders.order_journal import OrderJournal
from holdfast.agent.orders.orders import Orders
from holdfast.agent.orders.refusing import Refusing
from holdfast.agent.orders.running import Running
from holdfast.agent.orders.stream_orders import StreamOrders
from holdfast.agent.orders.streams import Streams
from holdfast.agent.services.agenda import Agendas, DriftLog
from holdfast.agent.services.deployments import Deployments
from holdfast.agent.services.keeper import Services
from holdfast.agent.services.observe_mode import ObserveMode
from holdfast.agent.services.orders import ServiceOrders
from holdfast.agent.services.orphans import Orphans
from holdfast.agent.services.pacing import Pacing
from holdfast.agent.services.passes import Passes, Survey
from holdfast.agent.services.records import Records
from holdfast.agent.services.rest import Rest
from holdfast.agent.services.retired_data import Purge, Retired
from holdfast.agent.services.rollout.attempts import Attempts
from holdfast.agent.services.rollout.containers import Containers, SecretDelivery
from holdfast.agent.services.rollout.crash_loops import CrashLoops
from holdfast.agent.services.rollout.driver import Rollouts
from holdfast.agent.services.rollout.health_checks import HealthChecks
from holdfast.agent.services.rollout.here import HereBuilder
from holdfast.agent.services.rollout.host_ports import Ports as HostPorts
from holdfast.agent.services.rollout.images import Images
from holdfast.agent.services.rollout.inventory import ContainerInventory
from holdfast.agent.services.rollout.lane_work import LaneWork
from holdfast.agent.services.rollout.networks import Networks
from holdfast.agent.services.rollout.operations import Operations
from holdfast.agent.services.rollout.outcomes import Outcomes
from holdfast.agent.services.rollout.steps.containers import ContainerSteps
from holdfast.agent.services.rollout.steps.data import DataSteps
from holdfast.agent.services.rollout.steps.hooks import HookSteps
from holdfast.agent.services.rollout.steps.images import ImageSteps
from holdfast.agent.services.rollout.steps.routes import RouteSteps
from holdfast.agent.services.standby import Standby
from holdfast.agent.services.status import ContainerStatus, Status
from holdfast.agent.services.wanted import Wanted
from holdfast.agent.time import NodeTime
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
from holdfast.ports.acceptance import Acceptance
from holdfast.ports.audit_log import AuditLog
from holdfast.ports.certificate_store import CertificateStore
from holdfast.ports.certificates import Certificates
from holdfast.ports.clock import Clock
from holdfast.ports.fleet_link import FleetLink
from holdfast.ports.handshake import Handshake
from holdfast.ports.identity_key import IdentityKey
from holdfast.ports.journal import Journal
from holdfast.ports.machine import Machine
from holdfast.ports.name_server import NameServer, Resolver
from holdfast.ports.prober import Prober
from holdfast.ports.proxy import Proxy
from holdfast.ports.public_authority import PublicAuthority
from holdfast.ports.random_source import RandomSource
from holdfast.ports.runtime import Runtime
from holdfast.ports.storage import Storage


class Ports(Struct, frozen=True, kw_only=True):
    """Everything outside of the agent, for the functions of this module only: no class of the agent gets it."""

    link: FleetLink
    journal: Journal
    acceptance: Acceptance
    storage: Storage
    audit: AuditLog
    machine: Machine
    key: IdentityKey
    clock: Clock
    random: RandomSource
    runtime: Runtime
    proxy: Proxy
    prober: Prober
    secrets: SecretDelivery
    issuer: Certificates
    shelf: CertificateStore
    authority: PublicAuthority
    handshake: Handshake
    name_server: NameServer
    resolver: Resolver
    data_dir: str
    say: Say


class Common(Struct, frozen=True):
    """What this module builds first and hands to several classes."""

    member: Membership
    time: NodeTime
    findings: Findings
    keeping: Keeping
    lanes: Lanes
    pace: Pace
    report: Wake  # called when something in the report changed
    services: Wake  # called when the services are to be looked at


class Built(Struct, frozen=True):
    """An agent, and the parts of it that tests look at."""

    agent: Agent
    services: Services
    orders: ServiceOrders
    inventory: ContainerInventory
    images: Images
    reporter: Reporter


class Traffic(Struct, frozen=True):
    proxy: ProxyKeeper
    edges: EdgesKeeper
    certificates: CertificatesKeeper
    dns: DnsKeeper
    routes: InternalRoutes


def build(
    ports: Ports,
    member: Membership,
    certificates: Keeper,
    *,
    time: NodeTime | None = None,
    findings: Findings | None = None,
    streams: Streams | None = None,
    confirmed: Callable[[], None] = lambda: None,
) -> Built:
    """`certificates` is the keeper of the node's own certificates, which wiring builds with the listener."""
    time = time or NodeTime(ports.clock, ports.journal)
    findings = findings or Findings(time.now_s)
    keeping = Keeping(findings, ports.say)
    common = Common(member, time, findings, keeping, Lanes(), Pace(ports.random), Wake(), Wake())
    traffic = _traffic(ports, common)
    services, service_orders, inventory, images = _services(ports, common, traffic)
    keepers: tuple[Keeper, ...] = (
        certificates,
        services,
        traffic.proxy,
        traffic.edges,
        traffic.certificates,
        traffic.dns,
    )
    agent, reporter = _agent(ports, common, keepers, inventory, streams, confirmed)
    return Built(agent, services, service_orders, inventory, images, reporter)


# ---- traffic


def _traffic(ports: Ports, common: Common) -> Traffic:
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


# ---- services


def _services(
    ports: Ports, common: Common, traffic: Traffic
) -> tuple[Services, ServiceOrders, ContainerInventory, Images]:
    member, lanes, findings = common.member, common.lanes, common.findings
    changed, felt = Wake(), Wake()
    pacing, host_ports = Pacing(), HostPorts()
    records = Records(ports.journal, changed)
    attempts = Attempts(common.time.now_s, changed)
    inventory = ContainerInventory(ports.runtime, ports.journal, member.fleet, changed)
    health_checks = HealthChecks(ports.prober, ports.clock, felt, common.pace.start_s)
    outcomes, crashes = Outcomes(findings, ports.say), CrashLoops(ports.clock, findings)
    images, networks = Images(ports.runtime), Networks(ports.runtime, member.fleet)
    containers = Containers(
        runtime=ports.runtime,
        inventory=inventory,
        health_checks=health_checks,
        secrets=ports.secrets,
        storage=ports.storage,
        dns=traffic.dns.servers,
        fleet=member.fleet,
        data_dir=ports.data_dir,
    )
    here = HereBuilder(
        inventory=inventory,
        health_checks=health_checks,
        records=records,
        images=images,
        networks=networks,
        routes=traffic.routes,
        crashes=crashes,
    )
    rollouts = Rollouts(
        performers={
            **ImageSteps(ports.runtime, images, networks).performers,
            **ContainerSteps(
                containers=containers,
                inventory=inventory,
                health_checks=health_checks,
                images=images,
                ports=host_ports,
                crashes=crashes,
                lanes=lanes,
            ).performers,
            **RouteSteps(
                routes=traffic.routes,
                here=here,
                records=records,
                inventory=inventory,
                runtime=ports.runtime,
                outcomes=outcomes,
            ).performers,
            **DataSteps(storage=ports.storage, journal=ports.journal, time=common.time, node=member.node).performers,
            **HookSteps(containers, records, outcomes).performers,
        },
        here=here,
        records=records,
        operations=Operations(
            journal=ports.journal,
            audit=ports.audit,
            random=ports.random,
            time=common.time,
            lanes=lanes,
            findings=findings,
            say=ports.say,
        ),
        attempts=attempts,
        containers=containers,
        outcomes=outcomes,
    )
    deployments = Deployments(
        records=records,
        attempts=attempts,
        outcomes=outcomes,
        pacing=pacing,
        lanes=lanes,
        crashes=crashes,
        inventory=inventory,
    )
    wanted = Wanted(
        acceptance=ports.acceptance,
        standby=Standby(ports.journal, findings, ports.say),
        deployments=deployments,
        ports=host_ports,
        lanes=lanes,
        findings=findings,
        fleet=member.fleet,
        data_dir=ports.data_dir,
        address=member.address,
    )
    rest = Rest(pacing, lanes)
    retired = Retired(ports.storage, ports.clock, changed)
    status = Status(
        containers=ContainerStatus(inventory, health_checks, member.fleet),
        records=records,
        attempts=attempts,
        rest=rest,
        retired=retired,
        wanted=lambda: wanted.frozen,
        report=common.report,
    )
    observe = ObserveMode(
        containers=containers,
        inventory=inventory,
        health_checks=health_checks,
        lanes=lanes,
        records=records,
        here=here,
        routes=traffic.routes,
    )
    orders = ServiceOrders(
        wanted=wanted.read,
        deployments=deployments,
        records=records,
        rollouts=rollouts,
        observe=observe,
        containers=containers,
        wake=common.services,
    )
    survey = Survey(
        inventory=inventory,
        containers=containers,
        records=records,
        health_checks=health_checks,
        orphans=Orphans(
            runtime=ports.runtime,
            inventory=inventory,
            containers=containers,
            journal=ports.journal,
            audit=ports.audit,
            findings=findings,
            fleet=member.fleet,
            node=member.node,
        ),
        agendas=Agendas(
            here=here,
            inventory=inventory,
            records=records,
            deployments=deployments,
            pacing=pacing,
            lanes=lanes,
            drift=DriftLog(traffic.routes, ports.say),
        ),
        clock=ports.clock,
    )
    work = LaneWork(
        lanes=lanes,
        rollouts=rollouts,
        pacing=pacing,
        clock=ports.clock,
        findings=findings,
        keeping=common.keeping,
        say=ports.say,
    )
    purge = Purge(ports.storage, ports.journal, ports.clock, retired)
    services = Services(
        wanted=wanted,
        passes=Passes(
            survey=survey, work=work, lanes=lanes, pacing=pacing, crashes=crashes, findings=findings, changed=changed
        ),
        rest=rest,
        status=status,
        retired=retired,
        records=records,
        acts={**orders.acts, **purge.acts},
    )
    changed.connect(status.changed)
    felt.connect(status.changed, rest.felt)
    lanes.worked.connect(status.changed)
    lanes.freed.connect(status.tell_rest)
    common.services.connect(rest.wake)
    return services, orders, inventory, images


# ---- the conversation with the hub


def _agent(
    ports: Ports,
    common: Common,
    keepers: tuple[Keeper, ...],
    inventory: ContainerInventory,
    streams: Streams | None,
    confirmed: Callable[[], None],
) -> tuple[Agent, Reporter]:
    member = common.member
    folding = AuditFolding(ports.audit, ports.clock)
    accepting = Accepting(
        acceptance=ports.acceptance,
        journal=ports.journal,
        catch_up=CatchUp(
            link=ports.link, acceptance=ports.acceptance, clock=ports.clock, fleet=member.fleet, node=member.node
        ),
        clock=ports.clock,
        log=AcceptanceLog(
            audit=ports.audit,
            folding=folding,
            findings=common.findings,
            say=ports.say,
            fleet=member.fleet,
            node=member.node,
        ),
        member=member,
    )
    arch = ports.machine.arch()
    reporter = Reporter(
        keepers=keepers,
        accepting=accepting,
        findings=common.findings,
        lanes=common.lanes,
        audit=ports.audit,
        about=report.about(member.fleet, member.node, arch, member.address),
    )
    results = OrderResults(ports.journal)
    acts = {**reporter.acts, **acts_of(keepers)}
    orders = _orders(ports, common, accepting, results, acts, folding, streams)
    messages = Messages(
        reporter=reporter,
        pulses=Pulses(
            journal=ports.journal,
            time=common.time,
            accepting=accepting,
            machine=ports.machine,
            key=ports.key,
            results=results,
            running=inventory.running,
            fleet=member.fleet,
            node=member.node,
        ),
        accepting=accepting,
        results=results,
        audit_copy=AuditCopy(ports.audit, folding),
        pace=common.pace,
        clock=ports.clock,
        node=member.node,
        address=member.address,
    )
    check_ins = CheckIns(
        link=ports.link,
        messages=messages,
        orders=orders,
        keepers=keepers,
        time=common.time,
        findings=common.findings,
        say=ports.say,
        joined=member.joined,
    )
    common.report.connect(check_ins.tell)
    joining = Joining(
        link=ports.link, acceptance=ports.acceptance, member=member, arch=arch, say=ports.say, confirmed=confirmed
    )
    agent = Agent(
        keepers=keepers,
        accepting=accepting,
        orders=orders,
        lanes=common.lanes,
        check_ins=check_ins,
        joining=joining,
        keeping=common.keeping,
    )
    return agent, reporter


def _orders(
    ports: Ports,
    common: Common,
    accepting: Accepting,
    results: OrderResults,
    acts: dict[str, Act],
    folding: AuditFolding,
    streams: Streams | None,
) -> Orders:
    member = common.member
    journal = OrderJournal(journal=ports.journal, audit=ports.audit, findings=common.findings, say=ports.say)
    horizon = OrderHorizon(ports.journal, ports.clock, common.time, member.enrolment.invite)
    running = Running(
        acts=acts,
        journal=journal,
        lanes=common.lanes,
        results=results,
        time=common.time,
        random=ports.random,
    )
    return Orders(
        horizon=horizon,
        gate=OrderGate(
            journal=ports.journal,
            storage=ports.storage,
            accepting=accepting,
            horizon=horizon,
            time=common.time,
            acts=acts,
            fleet=member.fleet,
            node=member.node,
        ),
        results=results,
        opening=StreamOrders(
            journal=ports.journal,
            audit=ports.audit,
            results=results,
            time=common.time,
            hurry=common.report,
            streams=streams,
        ),
        running=running,
        refusing=Refusing(results=results, folding=folding, findings=common.findings, time=common.time, say=ports.say),
        recovery=CrashRecovery(
            journal=journal,
            accepting=accepting,
            running=running,
            results=results,
            acts=acts,
            clock=ports.clock,
            say=ports.say,
            fleet=member.fleet,
            node=member.node,
        ),
    )
