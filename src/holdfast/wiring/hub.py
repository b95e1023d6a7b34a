"""Build a hub: its fleet with the tuples of watchers, and the parts of its process. No policy."""

import asyncio
import os
import shlex
from collections.abc import Callable, Sequence
from functools import partial

from holdfast.adapters.agent_link.http import HttpAgentLink
from holdfast.adapters.audit_log.file import FileAuditLog
from holdfast.adapters.audit_log.memory import MemoryAuditLog
from holdfast.adapters.backup_target.store_directory import StoreDirectory
from holdfast.adapters.calendar.cronsim import CronCalendar
from holdfast.adapters.hub_files.command import CommandedHubFile
from holdfast.adapters.identity_key import file as key_file
from holdfast.adapters.ledger_store.memory import MemoryStore
from holdfast.adapters.machine.addresses import own_names
from holdfast.adapters.machine.linux import LinuxMachine
from holdfast.adapters.nonces.memory import MemoryNonces
from holdfast.adapters.nonces.sqlite import SqliteNonces
from holdfast.adapters.notifier.command import CommandNotifier
from holdfast.cli.tools import Serving
from holdfast.errors import Invalid
from holdfast.hub import hub_key
from holdfast.hub.alerts.alarms import Alarms
from holdfast.hub.alerts.finding_watch import FindingWatch
from holdfast.hub.alerts.own_disk import OwnDisk
from holdfast.hub.alerts.service_watch import ServiceWatch
from holdfast.hub.alerts.writer import AlertWriter
from holdfast.hub.backups.deletion import Deletion
from holdfast.hub.backups.receipt_rule import ReceiptRule
from holdfast.hub.backups.store import BackupStore
from holdfast.hub.commit_audit import CommitAudit
from holdfast.hub.finding_log import FindingLog, Say
from holdfast.hub.fleet_views import FleetViews
from holdfast.hub.generations.check_ins import GenerationCheckIns
from holdfast.hub.http.limiter import for_pace
from holdfast.hub.http.refusals import Refusals
from holdfast.hub.http.tokens import Tokens
from holdfast.hub.hub_time import HubTime
from holdfast.hub.ledger import reading
from holdfast.hub.ledger.legacy import LegacySource
from holdfast.hub.ledger.salvage import Salvage
from holdfast.hub.moves import word_rule
from holdfast.hub.moves.sweeping import Sweeping
from holdfast.hub.nodes import newcomer
from holdfast.hub.nodes.call_node import Dialling
from holdfast.hub.nodes.check_in import CheckInHandler
from holdfast.hub.nodes.intake import Intake
from holdfast.hub.nodes.joining import Joining
from holdfast.hub.nodes.link_cache import LinkCache
from holdfast.hub.nodes.liveness import Knock, Liveness
from holdfast.hub.nodes.registry import Registry
from holdfast.hub.nodes.report_changes import ReportChanges
from holdfast.hub.nodes.revocation import Revocations
from holdfast.hub.orders.submission import Orders
from holdfast.hub.watch_loop import WatchLoop
from holdfast.hub.watched_fleet import WatchedFleet
from holdfast.hub.watchers.convergence import Convergence
from holdfast.hub.watchers.deployments import Deployments
from holdfast.hub.watchers.dns_withdrawals import DnsWithdrawals
from holdfast.hub.watchers.edge_reports import EdgeReports
from holdfast.hub.watchers.fleet_findings import FleetFindings
from holdfast.hub.watchers.missing_backups import MissingBackups
from holdfast.hub.watchers.move_releases import MoveReleases
from holdfast.hub.watchers.standby import Standby
from holdfast.model.cadence import FAST, NORMAL, Cadence
from holdfast.model.disk_room import DiskRoom
from holdfast.ports.audit_log import AuditLog
from holdfast.ports.clock import Clock
from holdfast.ports.disk import Disk
from holdfast.ports.hub_link import HubLink, HubReader
from holdfast.ports.ledger_store import LedgerStore
from holdfast.ports.nonces import Nonces
from holdfast.ports.notifier import MakeNotifier, Notifier
from holdfast.ports.random_source import RandomSource
from holdfast.wiring import hub_identity
from holdfast.wiring.events import stderr_event
from holdfast.wiring.hub_http import HubFleet, Parts, plain_host
from holdfast.wiring.notifiers import notifier_of

# ---- the fleet


def fleet(
    *,
    hub: HubReader,
    store: LedgerStore,
    clock: Clock,
    random: RandomSource,
    audit: AuditLog,
    pace: Cadence = NORMAL,
    make_notifier: MakeNotifier | None = None,
    notifiers: Sequence[Notifier] = (),
    knock: Knock | None = None,
    disks: Callable[[], Sequence[DiskRoom]] = lambda: (),
    mailbox: BackupStore | None = None,
    backups: BackupStore | None = None,
    say: Say = lambda event, fields: None,
) -> HubFleet:
    """`mailbox` has the objects of moves, `backups` those of backups."""
    time, wake = HubTime(clock), asyncio.Event()
    registry = Registry(hub, store, pace, partial(newcomer.load, store, time))
    alarms = Alarms(store, clock, make_notifier, notifiers, CronCalendar())
    alerts = AlertWriter(registry=registry, store=store, random=random, alarms=alarms, time=time)
    deployments, edges = Deployments(registry), EdgeReports(registry, time)
    changes = ReportChanges(time.now_s())
    convergence = Convergence(registry, store, time, deployments)
    standby = Standby(registry, store, time, edges)
    services = ServiceWatch(registry, store, alerts, deployments, time)
    traffic = FindingWatch(registry, store, alerts, time)
    own_disk = OwnDisk(disks, store, alerts)
    moves, withdrawals = MoveReleases(registry, edges), DnsWithdrawals(registry, time)
    sweeping = (Sweeping(mailbox),) if mailbox is not None else ()
    missing = (MissingBackups(registry, backups),) if backups is not None else ()
    watched = WatchedFleet(
        registry=registry,
        commits=(standby, alarms, services, convergence, moves, withdrawals, CommitAudit(hub, audit), *sweeping),
        reports=(standby, changes, services, traffic, own_disk, convergence, moves, withdrawals),
        hints=(standby, moves, withdrawals),
        findings=(FleetFindings(registry, time, standby), standby, own_disk, alarms, *missing),
        time=time,
        wake=wake,
    )
    liveness = Liveness(fleet=watched, store=store, random=random, alerts=alerts, knock=knock, time=time)
    log = FindingLog(watched.findings, say, time)
    loop = WatchLoop(fleet=watched, liveness=liveness, alarms=alarms, log=log, time=time, wake=wake)
    return _served(hub, store, audit, watched, registry, liveness, convergence, changes, standby, loop, time)


def _served(
    hub: HubReader,
    store: LedgerStore,
    audit: AuditLog,
    watched: WatchedFleet,
    registry: Registry,
    liveness: Liveness,
    convergence: Convergence,
    changes: ReportChanges,
    standby: Standby,
    loop: WatchLoop,
    time: HubTime,
) -> HubFleet:
    """What nodes and operators ask of a watched fleet."""
    refusals = Refusals(audit)
    check_ins = GenerationCheckIns(
        CheckInHandler(
            registry=registry,
            fleet=watched,
            liveness=liveness,
            intake=Intake(store, audit, refusals),
            links=LinkCache(hub),
            refusals=refusals,
            time=time,
        ),
        fleet=watched,
        store=store,
        audit=audit,
        refusals=refusals,
    )
    joining = Joining(
        fleet=watched, registry=registry, liveness=liveness, store=store, audit=audit, refusals=refusals, time=time
    )
    views = FleetViews(
        fleet=watched,
        registry=registry,
        convergence=convergence,
        changes=changes,
        store=store,
        audit=audit,
        time=time,
    )
    return HubFleet(
        watched=watched,
        check_ins=check_ins,
        joining=joining,
        orders=Orders(fleet=watched, registry=registry, store=store, audit=audit, refusals=refusals, time=time),
        revocations=Revocations(fleet=watched, registry=registry, store=store, audit=audit, refusals=refusals),
        views=views,
        loop=loop,
        registry=registry,
        standby=standby,
    )


# ---- the process


class HubParts:
    """Builds the parts of a hub process. `served` is the ledger it serves, None for a fleet directory; each opened
    thing gives `ends_with` a call that closes it."""

    def __init__(
        self,
        *,
        disk: Disk,
        clock: Clock,
        random: RandomSource,
        served: LedgerStore | None,
        ends_with: Callable[[Callable[[], None]], None],
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._random = random
        self._served = served
        self._ends_with = ends_with

    def build(self, hub: HubLink, serving: Serving) -> Parts:
        pace = FAST if serving.fast else NORMAL
        in_state = os.path.join(serving.state_dir, hub_identity.KEY_FILE) if serving.state_dir is not None else None
        path = serving.key_file or in_state
        if path is not None and serving.state_dir is not None:
            _check_key(hub, path, serving.state_dir)
        key, private = hub_identity.identity(path, self._disk, self._random)
        names = (*own_names(plain_host(serving.host)), *serving.names)
        store, nonces, audit = self._state(serving.state_dir)
        pinned, mailbox, backups = reading.pin(store), _moves(serving.state_dir), _backups(hub, serving.state_dir)
        made = fleet(
            hub=hub,
            store=store,
            clock=self._clock,
            random=self._random,
            audit=audit,
            pace=pace,
            make_notifier=partial(notifier_of, serving.alert_networks),
            notifiers=_commanded(serving.alert_command),
            knock=Dialling(hub, store, HttpAgentLink(key, self._clock, self._random)).knock,
            disks=_disks(serving.state_dir),
            mailbox=mailbox,
            backups=backups,
            say=stderr_event,
        )
        return Parts(
            hub=hub,
            key=key,
            shown=hub_identity.tls(private, serving.state_dir, names, self._clock, self._disk),
            nonces=nonces,
            audit=audit,
            tokens=Tokens(store, self._clock, self._random),
            fleet=made,
            clock=self._clock,
            salvage=Salvage(store) if serving.state_dir is not None else None,
            rates=for_pace(pace),
            founding=pinned.fleet if pinned is not None else "",
            declared=hub.trust if isinstance(hub, LegacySource) else None,
            backups=backups,
            moves=mailbox,
            own_file=self._own_file(serving.state_dir),
        )

    def _own_file(self, state_dir: str | None) -> CommandedHubFile | None:
        if state_dir is None:
            return None
        made = CommandedHubFile(state_dir, self._clock.monotonic_s)
        self._ends_with(made.close)
        return made

    def _state(self, state_dir: str | None) -> tuple[LedgerStore, Nonces, AuditLog]:
        """What a hub keeps beside its revisions; in memory if it serves a fleet directory."""
        if state_dir is None or self._served is None:
            return MemoryStore(), MemoryNonces(self._clock), MemoryAuditLog(self._clock)
        nonces = SqliteNonces(os.path.join(state_dir, "nonces.db"), self._clock)
        self._ends_with(nonces.close)
        lines, head = os.path.join(state_dir, "audit.jsonl"), os.path.join(state_dir, "audit.head")
        audit = FileAuditLog(lines, head, self._clock, self._disk)
        self._ends_with(audit.close)
        return self._served, nonces, audit


def _check_key(hub: HubLink, path: str, state_dir: str) -> None:
    """Before a missing key is made: the fleet may know this hub by another key."""
    known = key_file.load(path)
    hub_key.check(hub.applied(), known.line if known is not None else None, path, state_dir)


def _disks(state_dir: str | None) -> Callable[[], Sequence[DiskRoom]]:
    """Of a hub that has a ledger."""
    here = os.path.abspath(state_dir or "/")
    return LinuxMachine(here, disks={"state": here} if state_dir is not None else {}).disks


def _backups(hub: HubReader, state_dir: str | None) -> BackupStore | None:
    if state_dir is None:
        return None
    objects = StoreDirectory(os.path.join(state_dir, "backups"))
    return BackupStore(objects, ReceiptRule(hub), Deletion(hub, objects))


def _moves(state_dir: str | None) -> BackupStore | None:
    """Any object of a move may be deleted by its nodes: the source has the data."""
    if state_dir is None:
        return None
    return BackupStore(StoreDirectory(os.path.join(state_dir, "moves")), word_rule.check, lambda key: True)


def _commanded(alert_command: str) -> tuple[Notifier, ...]:
    try:
        argv = shlex.split(alert_command)
    except ValueError as trouble:
        raise Invalid(
            f"--alert-command cannot be read: {trouble}",
            remedy="close every quote: --alert-command 'logger -t holdfast'",
        ) from None
    return (CommandNotifier(argv),) if argv else ()
