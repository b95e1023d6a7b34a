"""Build the agent around its keepers: acceptance, orders, messages to the hub. There is no policy here."""

from collections.abc import Callable

from holdfast.agent.acceptance.accept import Accepting
from holdfast.agent.acceptance.anchors import Anchors, Store
from holdfast.agent.acceptance.catch_up import CatchUp
from holdfast.agent.acceptance.chain_walk import ChainWalk
from holdfast.agent.acceptance.documents import Documents
from holdfast.agent.acceptance.log import AcceptanceLog
from holdfast.agent.acceptance.parked import ParkedNotes
from holdfast.agent.acceptance.rules_note import RulesNote
from holdfast.agent.agent import Agent
from holdfast.agent.keeper import Act, Keepers, Revision
from holdfast.agent.keeper_group import KeeperGroup
from holdfast.agent.link import report
from holdfast.agent.link.audit_copy import AuditCopy
from holdfast.agent.link.audit_folding import AuditFolding
from holdfast.agent.link.check_in import CheckIns
from holdfast.agent.link.followed_hub import FollowedHub
from holdfast.agent.link.joining import Joining
from holdfast.agent.link.messages import Messages
from holdfast.agent.link.order_results import OrderResults
from holdfast.agent.link.pulse import Pulses, Stamps
from holdfast.agent.link.report import Reporter
from holdfast.agent.link.succession import Succession
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
from holdfast.agent.services.rollout.inventory import ContainerInventory
from holdfast.model.manifest import NodeManifest
from holdfast.wiring.agent_parts import Common, Ports


def agent_of(
    ports: Ports,
    common: Common,
    accepting: Accepting,
    folding: AuditFolding,
    keepers: Keepers,
    inventory: ContainerInventory,
    streams: Streams | None,
    effective: Callable[[Revision], Revision],
    succession: Succession,
    confirmed: Callable[[], None],
    life: OrderLife,
) -> tuple[Agent, Reporter]:
    member = common.member
    arch = ports.machine.arch()
    reporter = Reporter(
        parts=keepers.reports,
        accepting=accepting,
        findings=common.findings,
        lanes=common.lanes,
        audit=ports.audit,
        about=report.about(member.fleet, member.node, arch, member.address),
    )
    results = OrderResults(ports.journal)
    acts = {**reporter.acts, **life.acts, **keepers.acts()}
    orders = _orders(ports, common, accepting, results, life, acts, folding, streams)
    messages = _messages(ports, common, accepting, reporter, results, life, inventory, folding)
    hub = FollowedHub(
        ports.link, facts=ports.journal, findings=common.findings, accepting=accepting, fleet=member.fleet
    )
    check_ins = CheckIns(
        link=hub,
        messages=messages,
        orders=orders,
        hint_takers=keepers.hint_takers,
        time=common.time,
        findings=common.findings,
        say=ports.say,
        joined=member.joined,
    )
    common.report.connect(check_ins.tell)
    joining = Joining(
        link=hub,
        acceptance=ports.acceptance,
        member=member,
        arch=arch,
        say=ports.say,
        confirmed=confirmed,
        succession=succession,
    )
    group = KeeperGroup(
        every=keepers.every,
        followers=keepers.followers,
        settlers=keepers.settlers,
        accepting=accepting,
        effective=lambda revision: effective(succession.of(revision)),
        keeping=common.keeping,
    )
    common.follow.connect(group.follow)
    agent = Agent(
        keepers=group,
        accepting=accepting,
        orders=orders,
        lanes=common.lanes,
        check_ins=check_ins,
        joining=joining,
        keeping=common.keeping,
    )
    return agent, reporter


def accepting_of(
    ports: Ports,
    common: Common,
    folding: AuditFolding,
    anchored: Store,
    leaving: Callable[[NodeManifest | None, NodeManifest | None], None],
) -> Accepting:
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
        leaving=leaving,
        fleet=member.fleet,
        node=member.node,
    )


def life_of(ports: Ports, common: Common) -> OrderLife:
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
