"""A hub's fleet desk over memory, and nodes that are nothing but a key: for tests of the hub's side alone."""

import asyncio
from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.adapters.audit_log.memory import MemoryAuditLog
from holdfast.adapters.clock.loop import LoopClock
from holdfast.adapters.high_water.memory import MemoryHighWater
from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.adapters.ledger_store.memory import MemoryStore
from holdfast.adapters.notifier.memory import MemoryNotifiers
from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.hub.backups.store import BackupStore
from holdfast.hub.ledger.boot import boot
from holdfast.hub.ledger.revisions import Revisions
from holdfast.hub.nodes.liveness import Knock
from holdfast.model import canonical
from holdfast.model.alert import Alert
from holdfast.model.audit import AuditEntry
from holdfast.model.cadence import NORMAL, Cadence
from holdfast.model.checkin import CheckIn, CheckInAnswer, JoinAnswer, JoinRequest
from holdfast.model.disk_room import DiskRoom
from holdfast.model.fleet import Fleet
from holdfast.model.invite import (
    INVITE_NAMESPACE,
    JOIN_NAMESPACE,
    REVOKE_NAMESPACE,
    Enrolment,
    Invite,
    Joining,
    Revocation,
    SignedInvite,
    SignedRevocation,
)
from holdfast.model.order import FORMAT, NAMESPACE, Order, OrderResult, SignedOrder
from holdfast.model.principal import Principal
from holdfast.model.report import PULSE_NAMESPACE, Pulse, Report, SignedPulse
from holdfast.model.revision import NO_HEAD, Head
from holdfast.ports.ledger_store import LedgerStore
from holdfast.ports.signer import Signer
from holdfast.trust import own_signature
from holdfast.wiring import hub as wiring
from holdfast.wiring.hub_http import HubFleet
from tests.fleets.build import ALICE_SIGNER, START_S, next_candidate, small_fleet
from tests.fleets.lives import life_of, pulse_of
from tests.fleets.virtual import VirtualLoop

OPERATOR = Principal("operator", "alice", "", (), "root")


def key_of(name: str) -> MemoryIdentityKey:
    return MemoryIdentityKey(sha256(f"key of {name}".encode()).digest())


class Told:
    """A notifier that remembers; it can be made to fail."""

    name = "told"

    def __init__(self) -> None:
        self.alerts: list[Alert] = []
        self.at_s: list[float] = []
        self.failures: list[Exception] = []
        self.loop: VirtualLoop | None = None

    async def send(self, alert: Alert) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.alerts.append(alert)
        self.at_s.append(self.loop.time() if self.loop is not None else 0.0)

    @property
    def said(self) -> list[tuple[str, str]]:
        return [(alert.code, alert.address) for alert in self.alerts]


class Desk:
    """The calls to the hub's side of the fleet that tests make, by one name each."""

    def __init__(self, fleet: HubFleet) -> None:
        # on the event loop
        self.node_of_key = fleet.watched.node_of_key
        self.join = fleet.joining.join
        self.check_in = fleet.check_ins.check_in
        self.submit = fleet.orders.submit
        self.cancel = fleet.orders.cancel
        self.revoke = fleet.revocations.revoke
        self.news = fleet.views.news
        self.run = fleet.loop.run
        # from any thread
        self.committed = fleet.watched.committed
        self.status_findings = fleet.watched.findings
        self.orders = fleet.orders.newest
        self.nodes = fleet.views.nodes
        self.observations = fleet.views.observations
        self.converged = fleet.views.converged
        self.audit_lines = fleet.views.audit_lines
        self.audit_entries = fleet.views.audit_entries


class Rig:
    """One hub process; `restarted` is the next one, over the same ledger and the same audit log."""

    def __init__(
        self,
        loop: VirtualLoop,
        fleet: Fleet | None = None,
        pace: Cadence = NORMAL,
        before: "Rig | None" = None,
        knock: Knock | None = None,
        store: LedgerStore | None = None,
        mailbox: BackupStore | None = None,
    ) -> None:
        self.loop = loop
        self.mailbox: BackupStore | None = mailbox or (before.mailbox if before else None)  # of moves
        self.clock: LoopClock = before.clock if before else LoopClock(loop, START_S)
        self.store: LedgerStore = store or (before.store if before else MemoryStore())
        self.audit: MemoryAuditLog = before.audit if before else MemoryAuditLog(self.clock)
        self.starts: int = before.starts + 1 if before else 0  # each process has its own random numbers
        self.told: Told = before.told if before else Told()
        self.told.loop = loop
        self.notifiers: MemoryNotifiers = before.notifiers if before else MemoryNotifiers()  # of declared targets
        self.rooms: list[DiskRoom] = before.rooms if before else []  # on the hub's own disk
        self.logged: list[tuple[str, dict[str, object]]] = []  # events of this process
        booted = boot(self.store, MemoryHighWater(), strict=False)
        self.hub = Revisions(
            self.store, self.clock, SeededRandom("hub"), MemoryHighWater(), booted.loaded, booted.findings
        )
        if before is None:
            self.commit(fleet or small_fleet(nodes=("w1", "w2", "e1")))
        built = wiring.fleet(
            hub=self.hub,
            store=self.store,
            clock=self.clock,
            random=SeededRandom(f"desk {self.starts}" if self.starts else "desk"),
            audit=self.audit,
            pace=pace,
            make_notifier=self.notifiers,
            notifiers=(self.told,),
            knock=knock,
            disks=lambda: tuple(self.rooms),
            mailbox=self.mailbox,
            say=lambda event, fields: self.logged.append((event, fields)),
        )
        self.desk, self.watched, self.check_ins = Desk(built), built.watched, built.check_ins
        self.registry, self.standby = built.registry, built.standby

    def restarted(self, pace: Cadence = NORMAL) -> "Rig":
        return Rig(self.loop, pace=pace, before=self)

    def commit(self, fleet: Fleet, *signers: Signer) -> Head:
        head = self.hub.commit(next_candidate(fleet, self.hub.applied(), *signers))
        if hasattr(self, "desk"):
            self.desk.committed()
        return head

    @property
    def fleet_id(self) -> str:
        applied = self.hub.applied()
        assert applied is not None
        return applied.fleet_id

    @property
    def head(self) -> Head:
        applied = self.hub.applied()
        assert applied is not None
        return applied.head

    def now_s(self) -> int:
        return int(self.clock.now_s())

    def audited(self) -> list[AuditEntry]:
        return [msgspec.json.decode(line, type=AuditEntry) for line in self.audit.lines(0, 10_000)]

    # ---- statements of operators

    def invite(self, node: str, once: str = "once", signer: Signer = ALICE_SIGNER, **changed: Any) -> SignedInvite:
        whole: dict[str, Any] = {
            "fleet": self.fleet_id,
            "id": once,
            "node": node,
            "roles": ("worker",),
            "once": key_of(once).line,
            "issued_s": self.now_s(),
            "expires_s": self.now_s() + 3600,
        }
        content = canonical.encode(Invite(**(whole | changed)))
        return SignedInvite(content, (signer.sign(content, INVITE_NAMESPACE),))

    def enrolment(
        self, invite: SignedInvite, node: str, key: MemoryIdentityKey, once: str = "once", **changed: Any
    ) -> Enrolment:
        whole: dict[str, Any] = {
            "fleet": self.fleet_id,
            "invite": canonical.digest(invite.invite),
            "node": node,
            "key": key.line,
            "joined_s": self.now_s(),
        }
        content = canonical.encode(Joining(**(whole | changed)))
        return Enrolment(
            invite,
            content,
            own_signature.armoured(key_of(once), content, JOIN_NAMESPACE),
            own_signature.armoured(key, content, JOIN_NAMESPACE),
        )

    def revocation(self, node: str, key: str) -> SignedRevocation:
        content = canonical.encode(Revocation(self.fleet_id, node, key, self.now_s()))
        return SignedRevocation(content, (ALICE_SIGNER.sign(content, REVOKE_NAMESPACE),))

    def order(
        self,
        node: str,
        counter: int = 1,
        action: str = "ping",
        expires_s: int = 900,
        target: str = "",
        **given: str,
    ) -> SignedOrder:
        arguments = canonical.encode(given)
        id = sha256(f"{node} {counter} {action}".encode()).hexdigest()[:32]
        order = Order(
            FORMAT,
            self.fleet_id,
            id,
            node,
            target or f"node.{node}",
            action,
            canonical.digest(arguments),
            counter,
            id,
            self.now_s(),
            self.now_s() + expires_s,
            pulse_of(self.fleet_id, node, key_of(node), self.now_s()),
        )
        content = canonical.encode(order)
        return SignedOrder(content, arguments, (ALICE_SIGNER.sign(content, NAMESPACE),))

    async def joined(self, *names: str) -> "list[Puppet]":
        puppets = [Puppet(self, name) for name in names]
        for puppet in puppets:
            await puppet.join()
        return puppets


class Puppet:
    """A node without an agent: says what the test wants it to say."""

    def __init__(self, rig: Rig, name: str, key: str = "") -> None:
        self.rig = rig
        self.name = name
        self.key = key_of(key or name)
        self.seen = NO_HEAD
        self.sequence = 0
        self.cut = False  # nothing it says arrives, and no answer comes back

    @property
    def principal(self) -> Principal:
        return self.rig.desk.node_of_key(self.key.line) or Principal("joining", "", self.key.line)

    async def join(self, once: str = "", address: str = "", **changed: Any) -> JoinAnswer:
        once = once or f"once {self.name}"
        enrolment = self.rig.enrolment(self.rig.invite(self.name, once, **changed), self.name, self.key, once)
        request = JoinRequest(enrolment, self.name, ("worker",), address)
        return await self.rig.desk.join(self.principal, request, "192.0.2.1")

    def pulse(self, report: bytes = b"", **changed: Any) -> SignedPulse:
        self.sequence += 1
        digest = canonical.digest(report) if report else ""
        whole = Pulse(
            self.rig.fleet_id,
            self.name,
            self.sequence,
            self.rig.clock.now_s(),
            self.seen,
            report=digest,
            life=life_of(self.name),
        )
        content = msgspec.json.encode(replace(whole, **changed))
        return SignedPulse(content, own_signature.armoured(self.key, content, PULSE_NAMESPACE))

    def a_report(self, **said: Any) -> bytes:
        whole: dict[str, Any] = {"fleet": self.rig.fleet_id, "node": self.name, "version": "1"}
        return msgspec.json.encode(Report(**(whole | said)))

    async def says(self, **said: Any) -> CheckInAnswer:
        whole: dict[str, Any] = {"node": self.name, "seen": self.seen}
        message = CheckIn(**(whole | said))
        return await self.rig.desk.check_in(self.principal, message, "192.0.2.1")

    async def follows(self) -> CheckInAnswer:
        """Check in until it has seen everything there is."""
        answer = await self.says()
        self.seen = answer.head
        return answer

    async def beat(self, report: bytes = b"", wait_s: float = 0.0, send_report: bool = True) -> CheckInAnswer:
        return await self.says(
            heartbeat=True,
            pulse=self.pulse(report),
            report=report if send_report else b"",
            wait_s=wait_s,
            clock_s=self.rig.clock.now_s(),
        )

    async def lives(self, poll_s: float = 10.0, heartbeat_s: float = 30.0) -> None:
        """As an idle agent does, until cancelled."""
        beat_s = -heartbeat_s
        while True:
            due = self.rig.loop.time() - beat_s >= heartbeat_s
            if due:
                beat_s = self.rig.loop.time()
            answer = await (self.beat(wait_s=poll_s) if due else self.says(wait_s=poll_s))
            if self.cut:
                await asyncio.sleep(1_000_000)
            if answer.registered:
                self.seen = answer.head
            results = tuple(
                OrderResult(d.hub.id if d.hub else "", d.attempt, "done") for d in answer.orders if d.hub is not None
            )
            if results:
                await self.says(results=results)
