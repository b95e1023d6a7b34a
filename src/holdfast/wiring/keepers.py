"""Build the agent out of ports: each class gets exactly what it uses. There is no policy here.

The tuples of keepers are the seam: a new part of a node is one more entry in those of the Protocols that it has
(agent/keeper.py).
"""

from collections.abc import Callable

from msgspec import Struct

from holdfast.adapters.calendar.cronsim import CronCalendar
from holdfast.agent.acceptance.accept import Accepting
from holdfast.agent.acceptance.anchors import Store
from holdfast.agent.acceptance.vouching import Vouching
from holdfast.agent.agent import Agent
from holdfast.agent.booting.keeper import BootWait
from holdfast.agent.disks.keeper import Disks
from holdfast.agent.drills.books import Books
from holdfast.agent.figures.keeper import Figures
from holdfast.agent.findings import Findings
from holdfast.agent.hub_silence.keeper import HubSilence
from holdfast.agent.hub_silence.targets import Targets
from holdfast.agent.keeper import Keepers
from holdfast.agent.keeping import Keeping
from holdfast.agent.lanes import Lanes
from holdfast.agent.link.audit_folding import AuditFolding
from holdfast.agent.link.pace import Pace
from holdfast.agent.link.report import Reporter
from holdfast.agent.link.succession import Succession
from holdfast.agent.membership import Membership
from holdfast.agent.moves.books import Books as MoveBooks
from holdfast.agent.moves.effective import Effective
from holdfast.agent.orders.order_life import OrderLife
from holdfast.agent.orders.streams import Streams
from holdfast.agent.services.data.left import LeftBook
from holdfast.agent.services.keeper import Services
from holdfast.agent.services.orders import ServiceOrders
from holdfast.agent.services.rollout.images import Images
from holdfast.agent.services.rollout.inventory import ContainerInventory
from holdfast.agent.time import NodeTime
from holdfast.agent.traffic.certificates.node import NodeCertificates
from holdfast.agent.wake import Wake
from holdfast.model.manifest import NodeManifest
from holdfast.wiring import backups, drills, moves, needs, schedules
from holdfast.wiring.agent_link import accepting_of, agent_of, life_of
from holdfast.wiring.agent_parts import Common, Ports, ServiceSide
from holdfast.wiring.needs import NeedSide
from holdfast.wiring.services import service_side
from holdfast.wiring.traffic import traffic_side


class Built(Struct, frozen=True):
    """An agent, and the parts of it that tests look at."""

    agent: Agent
    services: Services
    orders: ServiceOrders
    inventory: ContainerInventory
    images: Images
    reporter: Reporter
    life: OrderLife
    keepers: Keepers
    needs: NeedSide


def build(
    ports: Ports,
    member: Membership,
    certificates: NodeCertificates,
    *,
    time: NodeTime | None = None,
    findings: Findings | None = None,
    streams: Streams | None = None,
    confirmed: Callable[[], None] = lambda: None,
    anchored: Store = lambda vouched, accepted: None,
) -> Built:
    """`certificates` is the keeper of the node's own certificates, which wiring builds with the listener."""
    time = time or NodeTime(ports.clock, ports.journal)
    findings = findings or Findings(time.now_s, ports.say)
    keeping = Keeping(findings, ports.say)
    common = Common(member, time, findings, keeping, Lanes(), Pace(ports.random), Wake(), Wake(), Wake())
    folding = AuditFolding(ports.audit, ports.clock)
    moved = Wake()
    move_books = MoveBooks(ports.journal, moved, member.restores)
    left = LeftBook(ports.journal, move_books.out, time.now_s)

    def leaving(before: NodeManifest | None, after: NodeManifest | None) -> None:
        move_books.leaving(before, after, is_live=accepting.was_level)
        left.leaving(before, after)

    accepting = accepting_of(ports, common, folding, anchored, leaving)
    traffic = traffic_side(ports, common)
    vouch = Vouching(accepting, ports.acceptance).of
    life = life_of(ports, common)
    wants = needs.books_of(ports)
    services = service_side(ports, common, traffic, vouch, left, wants.mounts)
    need = needs.side(ports, common, services, wants, life)
    (schedule, plans), figures = schedules.keeper(ports, common, services), _figures(ports, common, services)
    drilled = Wake()
    books = Books(ports.journal, drilled)
    stored = backups.side(ports, common, accepting, services, vouch, books.proven)
    backup, targets, drill = stored.keeper, stored.watch, drills.keeper(ports, common, services, stored, books, drilled)
    move, ways = moves.keeper(ports, common, services, stored, plans, move_books, moved, vouch)
    silence, disks = _hub_silence(ports, common, accepting), _disks(ports, common)
    boot = _boot_wait(ports, common, services, lambda: accepting.is_level and move.is_sure())
    proxy, edges, routes, dns = traffic.proxy, traffic.edges, traffic.certificates, traffic.dns
    effective = Effective(move_books, services.passports, ports.storage, ports.acceptance.blob)
    keepers = Keepers(
        every=(
            *(certificates, services.keeper, proxy, edges, routes, dns, schedule, backup, drill, targets, figures),
            *(ways, move, silence, disks, boot, need.needs, need.grants),
        ),
        followers=(
            *(ways, move, certificates, services.keeper, proxy, edges, routes, dns, schedule, backup, drill, figures),
            *(silence, need.needs, need.grants),
        ),
        hint_takers=(services.keeper, dns, silence),
        reports=(
            certificates,
            services.keeper,
            proxy,
            edges,
            routes,
            dns,
            schedule,
            backup,
            drill,
            figures,
            move,
            need.needs,
            need.grants,
        ),
        settlers=(services.keeper,),
        actors=(certificates, services.keeper, schedule, backup, drill, need.grants),
    )
    succession = _succession(ports, common, accepting)
    agent, reporter = agent_of(
        *(ports, common, accepting, folding, keepers, services.inventory, streams, effective.of, succession, confirmed),
        life,
    )
    parts = services.keeper, services.orders, services.inventory, services.images
    return Built(agent, *parts, reporter, life, keepers, need)


def _succession(ports: Ports, common: Common, accepting: Accepting) -> Succession:
    return Succession(
        facts=ports.journal,
        accepting=accepting,
        member=common.member,
        key=ports.key.line,
        say=ports.say,
        follow=common.follow,
    )


def _hub_silence(ports: Ports, common: Common, accepting: Accepting) -> HubSilence:
    return HubSilence(
        targets=Targets(ports.acceptance, ports.secrets.value, ports.notifier, CronCalendar()),
        journal=ports.journal,
        time=common.time,
        pace=common.pace,
        findings=common.findings,
        is_level=lambda: accepting.is_level,
        report=common.report,
        node=common.member.node,
    )


def _boot_wait(ports: Ports, common: Common, services: ServiceSide, is_level: Callable[[], bool]) -> BootWait:
    return BootWait(
        facts=ports.journal,
        findings=common.findings,
        pacing=services.pacing,
        is_level=is_level,
        wanted=services.wanted.read,
        wake=common.services,
        pace=common.pace,
        boot=ports.machine.boot(),
        node=common.member.node,
    )


def _disks(ports: Ports, common: Common) -> Disks:
    return Disks(
        look=ports.machine.disks,
        facts=ports.journal,
        findings=common.findings,
        report=common.report,
        node=common.member.node,
    )


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
