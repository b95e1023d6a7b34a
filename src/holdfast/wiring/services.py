"""Build what keeps the services of a node. There is no policy here."""

from msgspec import Struct

from holdfast.agent.services.agenda import Agendas
from holdfast.agent.services.container_status import ContainerStatus
from holdfast.agent.services.data.left import LeftBook
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
from holdfast.agent.services.rollout.containers import Containers, SecretDelivery
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
from holdfast.agent.services.status import Status
from holdfast.agent.services.wanted import Wanted
from holdfast.agent.wake import Wake
from holdfast.wiring import data
from holdfast.wiring.agent_parts import Common, Ports, ServiceSide
from holdfast.wiring.traffic import Traffic


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


def _parts(ports: Ports, common: Common, vouch: Vouch, left: LeftBook) -> Parts:
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
        health_checks=HealthChecks(
            ports.prober, ports.clock, door.probes, ports.runtime.is_alive, felt, common.pace.start_s
        ),
        outcomes=Outcomes(findings, ports.say),
        crashes=CrashLoops(ports.clock, findings, ports.journal, changed),
        images=Images(ports.runtime),
        networks=Networks(ports.runtime, door, fleet),
        data=data.kept(ports, common, vouch, door, left, changed),
        door=door,
        vouch=vouch,
    )


def service_side(
    ports: Ports, common: Common, traffic: Traffic, vouch: Vouch, left: LeftBook, secrets: SecretDelivery
) -> ServiceSide:
    lanes, parts = common.lanes, _parts(ports, common, vouch, left)
    containers = _containers(common, traffic, parts, secrets)
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
        containers=ContainerStatus(parts.inventory, parts.health_checks, parts.crashes, common.member.fleet),
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
    restore = data.restore_of(ports, common, parts.data, orders, wanted, parts.records)
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
        acts={**orders.acts, **data.acts(ports, common, parts.data, restore, wanted, deployments)},
    )
    parts.changed.connect(status.changed)
    parts.felt.connect(status.changed, rest.felt)
    lanes.worked.connect(status.changed)
    lanes.freed.connect(status.tell_rest)
    common.services.connect(rest.wake)
    return ServiceSide(
        services,
        orders,
        parts.inventory,
        parts.images,
        wanted,
        parts.records,
        containers,
        parts.door,
        parts.data.checkpoints,
        restore,
        parts.data.passports,
        parts.data.volumes,
        parts.pacing,
        parts.changed,
    )


def _containers(common: Common, traffic: Traffic, parts: Parts, secrets: SecretDelivery) -> Containers:
    return Containers(
        door=parts.door,
        inventory=parts.inventory,
        health_checks=parts.health_checks,
        secrets=secrets,
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
        lanes=common.lanes,
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
