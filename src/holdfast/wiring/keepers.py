"""Build the agent out of ports: each class gets exactly what it uses. There is no policy here.

The tuple of keepers is the seam: a new part of a node is one more entry. Its order is the order of their fields in a
report, and the order in which they follow a revision.
"""

from collections.abc import Callable

from msgspec import Struct

from holdfast.agent.acceptance.accept import Accepting
from holdfast.agent.acceptance.anchors import Anchors, Store
from holdfast.agent.acceptance.catch_up import CatchUp
from holdfast.agent.acceptance.chain_walk import ChainWalk
from holdfast.agent.acceptance.documents import Documents
from holdfast.agent.acceptance.log import AcceptanceLog
from holdfast.agent.acceptance.parked import ParkedNotes
from holdfast.agent.acceptance.rules_note import RulesNote
from holdfast.agent.acceptance.vouching import Vouching
from holdfast.agent.agent import Agent
from holdfast.agent.figures.keeper import Figures
from holdfast.agent.findings import Findings
from holdfast.agent.keeper import Act, Keeper, acts_of
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
from holdfast.agent.link.pulse import Pulses, Stamps
from holdfast.agent.link.report import Reporter
from holdfast.agent.membership import Membership
from holdfast.agent.orders.crash_recovery import CrashRecovery
from holdfast.agent.orders.order_gate import OrderGate
from holdfast.agent.orders.order_horizon import OrderHorizon
from holdfast.agent.orders.order_journal import OrderJournal
from holdfast.agent.orders.order_life import OrderLife
from holdfast.agent.orders.orders import Orders
from holdfast.agent.orders.refusing import Refusing
from holdfast.agent.orders.running import Running
from holdfast.agent.orders.stream_orders import StreamOrders
from holdfast.agent.orders.streams import Streams
from holdfast.agent.services.agenda import Agendas
from holdfast.agent.services.data.undeclared import Undeclared
from holdfast.agent.services.deployments import Deployments
from holdfast.agent.services.door import Door, Vouch
from holdfast.agent.services.keeper import Services
from holdfast.agent.services.observe_mode import ObserveMode
from holdfast.agent.services.orders import ServiceOrders
from holdfast.agent.services.orphans import Orphans
from holdfast.agent.services.pacing import Pacing
from holdfast.agent.services.passes import Passes, Survey
from holdfast.agent.services.records import Records
from holdfast.agent.services.rest import Rest
from holdfast.agent.services.rollout.attempts import Attempts
from holdfast.agent.services.rollout.containers import Containers
from holdfast.agent.services.rollout.crash_loops import CrashLoops
from holdfast.agent.services.rollout.data_here import HereWithData
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
from holdfast.wiring import data, schedules
from holdfast.wiring.agent_parts import Common, Ports, ServiceSide


class Built(Struct, frozen=True):
    """An agent, and the parts of it that tests look at."""

    agent: Agent
    services: Services
    orders: ServiceOrders
    inventory: ContainerInventory
    images: Images
    reporter: Reporter
    life: OrderLife


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
    anchored: Store = lambda vouched, accepted: None,
) -> Built:
    """`certificates` is the keeper of the node's own certificates, which wiring builds with the listener."""
    time = time or NodeTime(ports.clock, ports.journal)
    findings = findings or Findings(time.now_s)
    keeping = Keeping(findings, ports.say)
    common = Common(member, time, findings, keeping, Lanes(), Pace(ports.random), Wake(), Wake())
    folding = AuditFolding(ports.audit, ports.clock)
    accepting = _accepting(ports, common, folding, anchored)
    traffic = _traffic(ports, common)
    services = _services(ports, common, traffic, Vouching(accepting, ports.acceptance).of)
    keepers: tuple[Keeper, ...] = (
        certificates,
        services.keeper,
        traffic.proxy,
        traffic.edges,
        traffic.certificates,
        traffic.dns,
        schedules.keeper(ports, common, services),
        _figures(ports, common, services),
    )
    agent, reporter, life = _agent(ports, common, accepting, folding, keepers, services.inventory, streams, confirmed)
    return Built(agent, services.keeper, services.orders, services.inventory, services.images, reporter, life)


def _figures(ports: Ports, common: Common, services: ServiceSide) -> Figures:
    figures = Figures(
        storage=ports.storage,
        journal=ports.journal,
        clock=ports.clock,
        lanes=common.lanes,
        states=lambda: services.keeper.section().services,
        report=common.report,
    )
    common.lanes.freed.connect(figures.wake)
    return figures


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


class Parts(Struct, frozen=True):
    """What several classes of the services use."""

    changed: Wake  # called when the section of the services changed
    felt: Wake  # called when the health of a container changed
    pacing: Pacing
    host_ports: HostPorts
    records: Records
    attempts: Attempts
    inventory: ContainerInventory
    health_checks: HealthChecks
    outcomes: Outcomes
    crashes: CrashLoops
    images: Images
    networks: Networks
    data: data.Kept
    door: Door
    vouch: Vouch


def _parts(ports: Ports, common: Common, vouch: Vouch) -> Parts:
    fleet, findings, changed, felt = common.member.fleet, common.findings, Wake(), Wake()
    door = Door(ports.runtime, ports.journal, vouch, common.member.node)
    return Parts(
        changed=changed,
        felt=felt,
        pacing=Pacing(),
        host_ports=HostPorts(),
        records=Records(ports.journal, changed),
        attempts=Attempts(common.time.now_s, changed),
        inventory=ContainerInventory(ports.runtime, ports.journal, fleet, changed),
        health_checks=HealthChecks(ports.prober, ports.clock, door.probes, felt, common.pace.start_s),
        outcomes=Outcomes(findings, ports.say),
        crashes=CrashLoops(ports.clock, findings),
        images=Images(ports.runtime),
        networks=Networks(ports.runtime, door, fleet),
        data=data.kept(ports, common, vouch, door, changed),
        door=door,
        vouch=vouch,
    )


def _services(ports: Ports, common: Common, traffic: Traffic, vouch: Vouch) -> ServiceSide:
    lanes, parts = common.lanes, _parts(ports, common, vouch)
    containers = _containers(ports, common, traffic, parts)
    here = _here(common, traffic, parts)
    rollouts = _rollouts(ports, common, traffic, parts, containers, here)
    deployments = Deployments(
        records=parts.records,
        attempts=parts.attempts,
        outcomes=parts.outcomes,
        pacing=parts.pacing,
        lanes=lanes,
        crashes=parts.crashes,
        inventory=parts.inventory,
    )
    wanted = _wanted(ports, common, parts, deployments)
    rest = Rest(parts.pacing, lanes)
    status = Status(
        containers=ContainerStatus(parts.inventory, parts.health_checks, common.member.fleet),
        records=parts.records,
        attempts=parts.attempts,
        rest=rest,
        retired=parts.data.retired,
        wanted=lambda: wanted.frozen,
        report=common.report,
    )
    orders = ServiceOrders(
        wanted=wanted.read,
        deployments=deployments,
        records=parts.records,
        rollouts=rollouts,
        observe=_observe(common, traffic, parts, containers, here),
        containers=containers,
        wake=common.services,
    )
    services = Services(
        wanted=wanted,
        passes=Passes(
            survey=_survey(ports, common, traffic, parts, containers, here, deployments),
            work=_lane_work(ports, common, parts, rollouts),
            lanes=lanes,
            pacing=parts.pacing,
            crashes=parts.crashes,
            findings=common.findings,
            changed=parts.changed,
        ),
        rest=rest,
        status=status,
        retired=parts.data.retired,
        records=parts.records,
        acts={**orders.acts, **data.acts(ports, common, parts.data, orders, wanted, deployments, parts.records)},
    )
    parts.changed.connect(status.changed)
    parts.felt.connect(status.changed, rest.felt)
    lanes.worked.connect(status.changed)
    lanes.freed.connect(status.tell_rest)
    common.services.connect(rest.wake)
    return ServiceSide(services, orders, parts.inventory, parts.images, wanted, parts.records, containers, parts.door)


def _containers(ports: Ports, common: Common, traffic: Traffic, parts: Parts) -> Containers:
    return Containers(
        door=parts.door,
        inventory=parts.inventory,
        health_checks=parts.health_checks,
        secrets=ports.secrets,
        volumes=parts.data.volumes,
        dns=traffic.dns.servers,
        lanes=common.lanes,
        fleet=common.member.fleet,
    )


def _here(common: Common, traffic: Traffic, parts: Parts) -> HereWithData:
    inner = HereBuilder(
        inventory=parts.inventory,
        health_checks=parts.health_checks,
        records=parts.records,
        images=parts.images,
        networks=parts.networks,
        routes=traffic.routes,
        crashes=parts.crashes,
    )
    return HereWithData(inner, parts.data.volumes, Undeclared(parts.images, common.findings))


def _rollouts(
    ports: Ports, common: Common, traffic: Traffic, parts: Parts, containers: Containers, here: HereWithData
) -> Rollouts:
    container_steps = ContainerSteps(
        containers=containers,
        inventory=parts.inventory,
        health_checks=parts.health_checks,
        images=parts.images,
        ports=parts.host_ports,
        crashes=parts.crashes,
        lanes=common.lanes,
    )
    route_steps = RouteSteps(
        routes=traffic.routes,
        here=here,
        records=parts.records,
        inventory=parts.inventory,
        runtime=ports.runtime,
        outcomes=parts.outcomes,
        volumes=parts.data.volumes,
    )
    data_steps = DataSteps(
        storage=ports.storage,
        volumes=parts.data.volumes,
        checkpoints=parts.data.checkpoints,
        journal=ports.journal,
        time=common.time,
        lanes=common.lanes,
        node=common.member.node,
    )
    return Rollouts(
        performers={
            **ImageSteps(ports.runtime, parts.images, parts.networks).performers,
            **container_steps.performers,
            **route_steps.performers,
            **data_steps.performers,
            **HookSteps(containers, parts.records, parts.outcomes).performers,
        },
        here=here,
        records=parts.records,
        operations=Operations(
            journal=ports.journal,
            audit=ports.audit,
            random=ports.random,
            time=common.time,
            lanes=common.lanes,
            findings=common.findings,
            say=ports.say,
        ),
        attempts=parts.attempts,
        containers=containers,
        outcomes=parts.outcomes,
    )


def _wanted(ports: Ports, common: Common, parts: Parts, deployments: Deployments) -> Wanted:
    return Wanted(
        acceptance=ports.acceptance,
        standby=Standby(ports.journal, common.findings, ports.say),
        deployments=deployments,
        volumes=parts.data.volumes,
        ports=parts.host_ports,
        lanes=common.lanes,
        findings=common.findings,
        fleet=common.member.fleet,
        data_dir=ports.data_dir,
        address=common.member.address,
    )


def _observe(common: Common, traffic: Traffic, parts: Parts, containers: Containers, here: HereWithData) -> ObserveMode:
    return ObserveMode(
        containers=containers,
        inventory=parts.inventory,
        health_checks=parts.health_checks,
        lanes=common.lanes,
        records=parts.records,
        here=here,
        routes=traffic.routes,
    )


def _survey(
    ports: Ports,
    common: Common,
    traffic: Traffic,
    parts: Parts,
    containers: Containers,
    here: HereWithData,
    deployments: Deployments,
) -> Survey:
    orphans = Orphans(
        inventory=parts.inventory,
        containers=containers,
        vouch=parts.vouch,
        audit=ports.audit,
        findings=common.findings,
        fleet=common.member.fleet,
        node=common.member.node,
    )
    agendas = Agendas(
        here=here,
        inventory=parts.inventory,
        records=parts.records,
        deployments=deployments,
        pacing=parts.pacing,
        lanes=common.lanes,
        say=ports.say,
    )
    return Survey(
        inventory=parts.inventory,
        containers=containers,
        records=parts.records,
        health_checks=parts.health_checks,
        orphans=orphans,
        agendas=agendas,
        now_s=ports.clock.monotonic_s,
    )


def _lane_work(ports: Ports, common: Common, parts: Parts, rollouts: Rollouts) -> LaneWork:
    return LaneWork(
        lanes=common.lanes,
        rollouts=rollouts,
        pacing=parts.pacing,
        clock=ports.clock,
        findings=common.findings,
        keeping=common.keeping,
        say=ports.say,
    )


# ---- the conversation with the hub


def _agent(
    ports: Ports,
    common: Common,
    accepting: Accepting,
    folding: AuditFolding,
    keepers: tuple[Keeper, ...],
    inventory: ContainerInventory,
    streams: Streams | None,
    confirmed: Callable[[], None],
) -> tuple[Agent, Reporter, OrderLife]:
    member = common.member
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
    life = _life(ports, common)
    acts = {**reporter.acts, **life.acts, **acts_of(keepers)}
    orders = _orders(ports, common, accepting, results, life, acts, folding, streams)
    messages = _messages(ports, common, accepting, reporter, results, life, inventory, folding)
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
    return agent, reporter, life


def _accepting(ports: Ports, common: Common, folding: AuditFolding, anchored: Store) -> Accepting:
    member = common.member
    return Accepting(
        acceptance=ports.acceptance,
        walk=ChainWalk(ports.link, member.fleet, Anchors(member.head, member.accepted, anchored)),
        catch_up=CatchUp(
            link=ports.link,
            acceptance=ports.acceptance,
            rules=RulesNote(ports.journal),
            clock=ports.clock,
            fleet=member.fleet,
            node=member.node,
        ),
        documents=Documents(ports.acceptance),
        parked=ParkedNotes(ports.journal, ports.clock),
        log=AcceptanceLog(
            audit=ports.audit,
            folding=folding,
            findings=common.findings,
            say=ports.say,
            fleet=member.fleet,
            node=member.node,
        ),
        fleet=member.fleet,
        node=member.node,
    )


def _life(ports: Ports, common: Common) -> OrderLife:
    return OrderLife(
        journal=ports.journal,
        time=common.time,
        findings=common.findings,
        random=ports.random,
        key=ports.key,
        say=ports.say,
        fleet=common.member.fleet,
        node=common.member.node,
    )


def _messages(
    ports: Ports,
    common: Common,
    accepting: Accepting,
    reporter: Reporter,
    results: OrderResults,
    life: OrderLife,
    inventory: ContainerInventory,
    folding: AuditFolding,
) -> Messages:
    member = common.member
    return Messages(
        reporter=reporter,
        pulses=Pulses(
            stamps=Stamps(ports.journal, life),
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


def _orders(
    ports: Ports,
    common: Common,
    accepting: Accepting,
    results: OrderResults,
    life: OrderLife,
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
        gate=OrderGate(
            journal=ports.journal,
            storage=ports.storage,
            accepting=accepting,
            horizon=horizon,
            life=life,
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
