"""Whole agents over memory adapters, on a direct line to a hub's fleet desk. Nothing is random, nothing is opened."""

import asyncio
from collections.abc import Callable
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import replace

from holdfast.adapters.acceptance.memory import MemoryAcceptance
from holdfast.adapters.audit_log.memory import MemoryAuditLog
from holdfast.adapters.certificate_store.memory import MemoryShelf
from holdfast.adapters.certificates.memory import MemoryCertificates
from holdfast.adapters.clock.loop import LoopClock
from holdfast.adapters.handshake.memory import Listener, MemoryHandshake
from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.adapters.machine.memory import MemoryMachine
from holdfast.adapters.name_server.memory import MemoryNameServer
from holdfast.adapters.notifier.memory import MemoryNotifiers
from holdfast.adapters.prober.memory import MemoryProber
from holdfast.adapters.proxy.memory import MemoryProxy
from holdfast.adapters.public_authority.memory import MemoryPublicAuthority
from holdfast.adapters.resolver.memory import MemoryResolver
from holdfast.adapters.runtime.memory import Image, MemoryRuntime
from holdfast.adapters.sealing.memory import MemoryOpener
from holdfast.adapters.secret_files.memory import MemorySecretFiles
from holdfast.adapters.storage.memory import ROOT, MemoryStorage
from holdfast.agent.agent import Agent
from holdfast.agent.grants.keeper import Grants
from holdfast.agent.membership import Membership, decode, enrol
from holdfast.agent.membership_file import MembershipFile
from holdfast.agent.services.keeper import Services
from holdfast.agent.services.rollout.containers import SecretDelivery
from holdfast.agent.services.secrets import unbound
from holdfast.agent.services.secrets.delivery import Secrets
from holdfast.agent.traffic.certificates.node import NodeCertificates
from holdfast.errors import HoldfastError
from holdfast.hub.ledger.salvage import Salvage
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.audit import AuditEntry, Event
from holdfast.model.checkin import CheckIn, CheckInAnswer, JoinAnswer, JoinRequest
from holdfast.model.invite import Enrolment, JoinToken, SignedInvite
from holdfast.model.order import Delivered
from holdfast.model.principal import Principal
from holdfast.model.record import Link
from holdfast.model.revision import Candidate, Head, decode_header, decode_table
from holdfast.model.salvage import SalvageAnswer, SalvagePart
from holdfast.model.trust import Trust
from holdfast.ports.acceptance import Acceptance
from holdfast.ports.identity_key import IdentityKey
from holdfast.ports.journal import Journal
from holdfast.wiring import keepers
from holdfast.wiring.agent_parts import Ports
from holdfast.wiring.keepers import Built
from tests.fleets import backing_up, need_net
from tests.fleets.build import START_S
from tests.fleets.desks import Rig, key_of
from tests.fleets.lives import LifeRandom, life_of
from tests.fleets.need_net import NeedNet
from tests.fleets.virtual import VirtualLoop

Filter = Callable[[CheckInAnswer], CheckInAnswer]


class DirectLink:
    """The desk of whichever hub is up; `down` cuts the line, `bend` lets a hub lie."""

    def __init__(self, rig: Rig, key: MemoryIdentityKey) -> None:
        self.rig = rig
        self.key = key
        self.down: Exception | None = None
        self.bend: Filter | None = None
        self.blobs: Callable[[str], bytes | None] | None = None
        self.said: list[CheckIn] = []
        self.said_at_s: list[float] = []
        self.keep = False

    def _principal(self) -> Principal:
        return self.rig.desk.node_of_key(self.key.line) or Principal("joining", "", self.key.line)

    def _try(self) -> None:
        if self.down is not None:
            raise self.down

    async def join(self, request: JoinRequest) -> JoinAnswer:
        self._try()
        return await self.rig.desk.join(self._principal(), request, "192.0.2.7")

    async def check_in(self, message: CheckIn) -> CheckInAnswer:
        self._try()
        if self.keep:
            self.said.append(message)
            self.said_at_s.append(self.rig.loop.time())
        answer = await self.rig.desk.check_in(self._principal(), message, "192.0.2.7")
        self._try()
        return self.bend(answer) if self.bend is not None else answer

    async def links(self, first: int, last: int) -> list[Link]:
        self._try()
        return list(self.rig.hub.links(first, last))

    async def blob(self, digest: str) -> bytes | None:
        self._try()
        if self.blobs is not None:
            return self.blobs(digest)
        applied = self.rig.hub.applied()
        return applied.contents.get(digest) if applied is not None else None

    async def salvage(self, part: SalvagePart) -> SalvageAnswer:
        self._try()
        return Salvage(self.rig.store).take(part)

    async def is_there(self) -> bool:
        return self.down is None

    async def close(self) -> None:
        """Nothing was opened."""


class PaperHub:
    """A hub that hands out whatever chain it is given, checked by nobody: what a stolen hub could send."""

    def __init__(self, *candidates: Candidate) -> None:
        self.candidates = list(candidates)
        self.lost: set[str] = set()  # digests it does not hand out
        self.lies: dict[str, bytes] = {}
        self.said: list[CheckIn] = []
        self.orders: list[Delivered] = []
        self.time_s: Callable[[], float] = lambda: START_S
        self.hold = True
        self.bend: Filter | None = None

    @property
    def head(self) -> Head:
        newest = self.candidates[-1]
        return Head(decode_header(newest.header).number, canonical.digest(newest.header))

    def _blobs(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for candidate in self.candidates:
            found |= candidate.blobs
        return found

    def link(self, candidate: Candidate) -> Link:
        return Link(candidate.header, candidate.signatures, self._blobs()[decode_header(candidate.header).trust])

    async def join(self, request: JoinRequest) -> JoinAnswer:
        return JoinAnswer(True, self.head, self.time_s())

    async def check_in(self, message: CheckIn) -> CheckInAnswer:
        self.said.append(message)
        orders, self.orders = tuple(self.orders), []
        if message.seen == self.head and not orders and message.wait_s:
            await asyncio.sleep(message.wait_s)
        links = [link for link in map(self.link, self.candidates) if link.header.number > message.seen.number]
        header = decode_header(self.candidates[-1].header)
        manifest = self._blobs().get(header.manifests.get(message.node, ""), b"")
        taken = tuple(result.id for result in message.results)
        answer = CheckInAnswer(self.head, self.time_s(), tuple(links[:100]), manifest, orders, taken)
        return self.bend(answer) if self.bend is not None else answer

    async def links(self, first: int, last: int) -> list[Link]:
        found = map(self.link, self.candidates)
        return [link for link in found if first <= link.header.number <= last][:100]

    async def blob(self, digest: str) -> bytes | None:
        return self.lies.get(digest) or (None if digest in self.lost else self._blobs().get(digest))

    async def salvage(self, part: SalvagePart) -> SalvageAnswer:
        raise AssertionError("nothing was lost")

    async def is_there(self) -> bool:
        return True

    async def close(self) -> None:
        """Nothing was opened."""


def applied_after(candidate: Candidate, before: Applied | None) -> Applied:
    """What is applied once this candidate is, without asking any hub."""
    header = decode_header(candidate.header)
    contents = {**(dict(before.contents) if before else {}), **candidate.blobs}
    head = Head(header.number, canonical.digest(candidate.header))
    trust = msgspec.json.decode(contents[header.trust], type=Trust)
    return Applied(head, header, decode_table(candidate.table), trust, contents)


def token(rig: Rig, node: str, head: Head | None = None, **changed: Any) -> JoinToken:
    once = f"once {node}"
    seed = key_seed(once)
    return JoinToken(
        rig.invite(node, once, **changed), seed, "https://hub.test:9555", key_of("hub").line, head or rig.head
    )


def key_seed(name: str) -> bytes:
    return sha256(f"key of {name}".encode()).digest()


def membership(rig: Rig, node: str, head: Head | None = None) -> Membership:
    return enrol(token(rig, node, head), key_of(f"once {node}"), key_of(node), rig.clock.now_s(), "")


class AnyImage(dict[str, Image]):
    """A registry that has everything; what is put into it by name behaves as written there."""

    def get(self, reference: str, default: Any = None) -> Image:
        return super().get(reference) or Image()


def listener(proxy: MemoryProxy) -> Listener:
    """What a proxy in memory shows on one of its ports to whoever asks for a name."""

    def shown(port: int, name: str) -> bytes | None:
        if proxy.listening is None or not proxy.applied:
            return None
        for route in proxy.told:
            if route.mode == "l7" and route.listener == port and name in route.hostnames:
                return proxy.applied[-1].certificates[route.certificate].chain
        return None

    return shown


class Wires(dict[str, Listener]):
    """Where a node of this rig reaches proxies: its own on loopback too, every other one by its overlay address."""

    def __init__(self, own: MemoryProxy, everybody: list[MemoryProxy]) -> None:
        super().__init__()
        self._own = own
        self._everybody = everybody

    def _at(self, address: object) -> MemoryProxy | None:
        if address == "127.0.0.1":
            return self._own
        found = (one for one in self._everybody if one.listening is not None and one.listening.internal == address)
        return next(found, None)

    def __contains__(self, address: object) -> bool:
        return self._at(address) is not None

    def __getitem__(self, address: str) -> Listener:
        found = self._at(address)
        assert found is not None
        return listener(found)


_PROXIES: "WeakKeyDictionary[Rig, list[MemoryProxy]]" = WeakKeyDictionary()
_NETS: "WeakKeyDictionary[Rig, NeedNet]" = WeakKeyDictionary()


def _secrets(acceptance: Acceptance, key: IdentityKey, files: MemorySecretFiles, journal: Journal) -> Secrets:
    return Secrets(acceptance, MemoryOpener(key.line), files, unbound.noted(journal, acceptance))


class Machine:
    """What survives a restart of an agent: its disk and its key. `start` is the next process."""

    def __init__(self, rig: Rig, node: str, head: Head | None = None, clock: LoopClock | None = None) -> None:
        self.rig = rig
        self.node = node
        self.key = key_of(node)
        self.clock = clock or LoopClock(rig.loop, rig.clock.now_s())
        self.link: Any = DirectLink(rig, self.key)
        self.journal = MemoryJournal()
        self.acceptance = MemoryAcceptance()
        self.storage = MemoryStorage(node)
        self.targets = backing_up.MemoryTargets()
        self.backups = backing_up.ports_of(self.storage, self.key.line, others=self.targets)
        self.drills = backing_up.drills_of(self.backups)
        self.needs = _NETS.setdefault(rig, NeedNet()).ports(node, self.key.line, lambda: self.grants)
        self.audit = MemoryAuditLog(self.clock)
        self.data_dir = ROOT
        self.hardware = MemoryMachine()
        self.runtime = MemoryRuntime(self.clock)
        self.runtime.images = AnyImage()
        self.runtime.files = self.backups.archiver.dumps  # type: ignore[attr-defined]
        self.proxy = MemoryProxy(self.clock)
        self.prober = MemoryProber()
        self.secret_files = MemorySecretFiles()
        self.secrets: SecretDelivery | None = None  # another one than the agent's own
        self.issuer = MemoryCertificates()
        self.shelf = MemoryShelf()
        self.authority = MemoryPublicAuthority(self.clock.now_s)
        self.name_server = MemoryNameServer()
        self.resolver = MemoryResolver()
        self.notifiers = MemoryNotifiers()
        self.handshake = MemoryHandshake(self.clock)
        everybody = _PROXIES.setdefault(rig, [])
        everybody.append(self.proxy)
        self.handshake.listeners = Wires(self.proxy, everybody)
        self.membership = membership(rig, node, head)
        self.said: list[tuple[str, dict[str, object]]] = []
        self.built: Built  # the newest start
        self.starts = 0
        self.own_lives = False

    @property
    def grants(self) -> Grants | None:
        return self.built.needs.grants if self.starts else None

    @property
    def life(self) -> str:
        return life_of(self.node, self.starts if self.own_lives else 0)

    def ports(self) -> Ports:
        return Ports(
            link=self.link,
            journal=self.journal,
            acceptance=self.acceptance,
            storage=self.storage,
            audit=self.audit,
            machine=self.hardware,
            key=self.key,
            clock=self.clock,
            random=LifeRandom(f"agent {self.node} {self.starts}", self.life),
            runtime=self.runtime,
            proxy=self.proxy,
            prober=self.prober,
            secrets=self.secrets or _secrets(self.acceptance, self.key, self.secret_files, self.journal),
            issuer=self.issuer,
            shelf=self.shelf,
            authority=self.authority,
            handshake=self.handshake,
            name_server=self.name_server,
            resolver=self.resolver,
            notifier=self.notifiers,
            backups=self.backups,
            drills=self.drills,
            needs=self.needs,
            data_dir=self.data_dir,
            say=lambda name, fields: self.said.append((name, fields)),
        )

    def start(self) -> Agent:
        self.starts += 1
        kept = MembershipFile(self.membership, self.keep_membership)
        certificates = NodeCertificates(self.issuer, self.clock)
        self.built = keepers.build(
            self.ports(), self.membership, certificates, confirmed=kept.confirmed, anchored=kept.anchored
        )
        self.membership = replace(self.membership, joined=True)
        return self.built.agent

    def keep_membership(self, content: bytes) -> None:
        """What another start reads."""
        self.membership = replace(decode(content, "identity.json"), joined=True)

    def audited(self) -> list[tuple[str, str, str]]:
        lines = [msgspec.json.decode(line, type=AuditEntry).event for line in self.audit.lines(0, 10_000)]
        return [(event.action, event.target, event.result) for event in lines]


async def until(rig: Rig, true: Callable[[], bool], at_most_s: float = 120.0) -> None:
    """Virtual seconds until something holds; bounded."""
    end_s = rig.loop.time() + at_most_s
    while not true():
        assert rig.loop.time() < end_s, "it never came true"
        await asyncio.sleep(0.05)


async def kill(agent: Agent, run: asyncio.Task[None]) -> None:
    """End an agent as the end of its process does: the work in its lanes ends too. `run` is the task of its loop."""
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    await asyncio.gather(*cut_lanes(agent), return_exceptions=True)


def cut_lanes(agent: Agent) -> list[asyncio.Task[None]]:
    """Of an agent whose loop has ended, so that no new work comes: `Agent.run` leaves its lanes running."""
    left = list(agent.lanes.running)
    for task in left:
        task.cancel()
    return left


class Lone:
    """One machine in front of a hub of paper; what is on its disk survives `start`."""

    def __init__(self, loop: VirtualLoop, hub: PaperHub, node: str = "w1", head: Head | None = None) -> None:
        self.loop = loop
        self.hub = hub
        self.node = node
        self.key = key_of(node)
        self.clock = LoopClock(loop, START_S)
        hub.time_s = lambda: START_S + loop.time()
        self.journal: Any = MemoryJournal()
        self.acceptance: Any = MemoryAcceptance()
        self.storage = MemoryStorage(node)
        self.backups = backing_up.ports_of(self.storage, self.key.line)
        self.drills = backing_up.drills_of(self.backups)
        self.needs = need_net.alone()
        self.audit: Any = MemoryAuditLog(self.clock)
        self.issuer = MemoryCertificates()
        self.certificates: Any = NodeCertificates(self.issuer, self.clock)
        self.proxy = MemoryProxy(self.clock)
        self.handshake = MemoryHandshake(self.clock)
        self.handshake.listeners = Wires(self.proxy, [self.proxy])
        self.data_dir = ROOT
        self.runtime = MemoryRuntime(self.clock)
        self.runtime.images = AnyImage()
        self.runtime.files = self.backups.archiver.dumps  # type: ignore[attr-defined]
        self.secret_files = MemorySecretFiles()
        self.notifiers = MemoryNotifiers()
        self.said: list[tuple[str, dict[str, object]]] = []
        self.built: Built  # the newest start
        self.starts = 0
        fleet = decode_header(hub.candidates[0].header).fleet
        enrolment = Enrolment(SignedInvite(b"", ()), b"", "", "")
        self.membership = Membership(
            fleet, node, ("worker",), "https://hub.test", "", head or hub.head, enrolment, joined=True
        )

    def start(self) -> Agent:
        self.starts += 1
        ports = Ports(
            link=self.hub,
            journal=self.journal,
            acceptance=self.acceptance,
            storage=self.storage,
            audit=self.audit,
            machine=MemoryMachine(),
            key=self.key,
            clock=self.clock,
            random=LifeRandom(f"lone {self.starts}", life_of(self.node)),
            runtime=self.runtime,
            proxy=self.proxy,
            prober=MemoryProber(),
            secrets=_secrets(self.acceptance, self.key, self.secret_files, self.journal),
            issuer=self.issuer,
            shelf=MemoryShelf(),
            authority=MemoryPublicAuthority(self.clock.now_s),
            handshake=self.handshake,
            name_server=MemoryNameServer(),
            resolver=MemoryResolver(),
            notifier=self.notifiers,
            backups=self.backups,
            drills=self.drills,
            needs=self.needs,
            data_dir=self.data_dir,
            say=lambda name, fields: self.said.append((name, fields)),
        )
        self.built = keepers.build(ports, self.membership, self.certificates)
        return self.built.agent

    async def turned(self, times: int = 1) -> Agent:
        """An agent that had so many turns; what a turn complains about is for its findings to tell."""
        agent = self.start()
        agent.keepers.follow()  # as `run` does first
        for _ in range(times):
            await turn(agent)
        return agent

    def audited(self) -> list[tuple[str, str, str]]:
        return [(e.action, e.target, e.result) for e in self.events()]

    def events(self) -> list[Event]:
        return [msgspec.json.decode(line, type=AuditEntry).event for line in self.audit.lines(0, 100_000)]


async def turn(agent: Agent) -> HoldfastError | None:
    try:
        await agent.turn()
    except HoldfastError as trouble:
        return trouble
    return None


def services_of(agent: Agent) -> Services:
    found = next(keeper for keeper in agent.keepers.every if keeper.name == "services")
    assert isinstance(found, Services)
    return found
