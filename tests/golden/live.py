"""A hub and five agents over memory in virtual time: one story that leaves every kind of report, fact and record."""

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.adapters.runtime.memory import Behaviour
from holdfast.adapters.sealing.memory import MemorySealer
from holdfast.agent.agent import Agent
from holdfast.agent.membership import enrol
from holdfast.agent.services.secrets import unbound
from holdfast.errors import TryLater, Unreachable
from holdfast.hub.http.tokens import Tokens
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.checkin import CheckIn, CheckInAnswer
from holdfast.model.container import Container
from holdfast.model.fleet import (
    Acme,
    AlertTarget,
    Component,
    Fleet,
    Health,
    Hooks,
    Node,
    Resources,
    Route,
    SecretRef,
    Service,
    Volume,
)
from holdfast.model.order import NAMESPACE, Delivered, HubOrder, SignedOrder
from holdfast.model.principal import Principal
from holdfast.model.revision import Candidate, NodeIdentity
from holdfast.planning.plan import Inputs, plan
from holdfast.ports.prober import Verdict
from holdfast.trust import orders
from tests.fleets import virtual
from tests.fleets.agents import Lone, Machine, PaperHub, applied_after, token, turn
from tests.fleets.build import ALICE, ALICE_SIGNER, digest_pinned, edge_fleet, operator_signer, signed, small_fleet
from tests.fleets.desks import OPERATOR, Rig, key_of
from tests.fleets.lives import pulse_of
from tests.fleets.virtual import VirtualLoop

HEALTH = Health("http", path="/health", port=8080, start_period="8s")
WORKERS, EDGES = ("w1", "w2", "w3"), ("e1", "e2")
BROKEN = digest_pinned("broken:1")


class Story(Struct):
    """What is left of it: reports by moment and node, facts and operations by node, records of the ledger."""

    reports: dict[str, dict[str, Any]] = field(default_factory=dict)
    check_ins: list[CheckIn] = field(default_factory=list)
    facts: dict[str, bytes] = field(default_factory=dict)
    operations: list[Any] = field(default_factory=list)
    ledger: dict[str, bytes] = field(default_factory=dict)
    audit: list[bytes] = field(default_factory=list)
    containers: list[Container] = field(default_factory=list)
    specs: dict[str, bytes] = field(default_factory=dict)
    alerts: list[Any] = field(default_factory=list)
    events: dict[str, set[str]] = field(default_factory=dict)


def services(without: tuple[str, ...] = ()) -> dict[str, Service]:
    shop = Component(
        "shop",
        digest_pinned("shop:1"),
        routes=(Route("http", 8080, public=True),),
        volumes=(Volume("rows", "/data", "none"),),
        health=HEALTH,
        cmd=("serve", "--all"),
        env={"LANG": "C"},
        resources=Resources(cpu="0.5", memory="64Mi"),
        secrets=(SecretRef("password", env="PASSWORD"), "tls"),
        hooks=Hooks(pre_deploy=("migrate",), post_deploy=("warm-up",)),
    )
    api = Component("api", digest_pinned("api:1"), routes=(Route("http", 8080),), replicas=2)
    broken = Component("broken", BROKEN, routes=(Route("http", 8080, public=True),), health=HEALTH)
    stream = Component("sql", digest_pinned("sql:1"), routes=(Route("sql", 8443, mode="l4", public=True),))
    found = {
        "shop": Service((shop,), node="w1"),
        "api": Service((api,), node="w2", failover=("w3",)),
        "broken": Service((broken,), node="w1"),
        "sql": Service((stream,), node="w3"),
    }
    return {name: service for name, service in found.items() if name not in without}


def fleet(without: tuple[str, ...] = ()) -> Fleet:
    base = edge_fleet(services(without), WORKERS, EDGES)
    nodes = dict(base.nodes)
    nodes["w3"] = replace(nodes["w3"], orphans="report")
    nodes["quiet"] = Node("quiet", ("worker",), "100.64.0.99")  # never joins
    acme = Acme("https://acme.example.test/directory", terms_agreed=True, domains=("example.org",))
    alerts = {"chat": AlertTarget("chat", webhook="https://chat.example.test/hook")}
    sealer = MemorySealer(SeededRandom("secrets"))
    secrets = {name: sealer.seal(name.encode(), [key_of("w1").line]) for name in ("password", "tls")}
    return replace(base, nodes=nodes, acme=acme, alerts=alerts, secrets=secrets)


class RememberingJournal(MemoryJournal):
    """Notes every fact, also one that is dropped or written over later."""

    def __init__(self, node: str, noted: dict[str, bytes]) -> None:
        super().__init__()
        self._node, self._noted = node, noted

    def set_aside(self, name: str, value: bytes) -> None:
        self._noted[f"{self._node} {len(self._noted):04d} {name}"] = value
        super().set_aside(name, value)


class Stage:
    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.story = Story()
        self.rig = Rig(loop, fleet())
        self.machines = {name: Machine(self.rig, name) for name in (*WORKERS, *EDGES)}
        self.agents: dict[str, Agent] = {}
        self.tasks = [asyncio.ensure_future(self.rig.desk.run())]
        for name, machine in self.machines.items():
            machine.link.keep = True
            roles = ("edge",) if name in EDGES else ("worker",)
            invited = token(self.rig, name, roles=roles)
            once, address = key_of(f"once {name}"), fleet().nodes[name].address
            machine.membership = enrol(invited, once, machine.key, self.rig.clock.now_s(), address)
            machine.runtime.behaviours[BROKEN] = Behaviour(exit_after_s=0.01, exit_code=1)
            machine.prober.script(BROKEN, Verdict(False, "ill"))
            machine.journal = RememberingJournal(name, self.story.facts)
        # Its secrets are of a release before purposes, and were applied before w1 was upgraded.
        uses = sorted(("service.shop", canonical.digest(sealed)) for sealed in fleet().secrets.values())
        self.machines["w1"].journal.set_aside(unbound.FACT, msgspec.json.encode(uses))

    async def watch(self) -> None:
        """Every record the ledger has at some time, also those that go again."""
        while True:
            self.story.ledger |= {record.key: record.value for record in self.rig.store.scan("")}
            await asyncio.sleep(0.5)

    def start(self) -> None:
        self.tasks.append(asyncio.ensure_future(self.watch()))
        for name, machine in self.machines.items():
            self.agents[name] = machine.start()
            self.tasks.append(asyncio.ensure_future(self.agents[name].run()))

    def commit(self, without: tuple[str, ...] = ()) -> None:
        known = {name: self._identity(machine) for name, machine in self.machines.items()}
        planned = plan(fleet(without), self.rig.hub.applied(), Inputs(identities=known))
        self.rig.hub.commit(signed(planned))
        self.rig.desk.committed()
        records: dict[str, Sequence[str]] = {name: (address,) for name, address in self._records().items()}
        for machine in self.machines.values():
            machine.resolver.known = {"": {}, **{f"100.64.0.{at}": records for at in range(1, 9)}}

    def _identity(self, machine: Machine) -> NodeIdentity:
        certificate = machine.issuer.current()
        return NodeIdentity(machine.key.line, canonical.digest(certificate), certificate)

    def _records(self) -> dict[str, str]:
        applied = self.rig.hub.applied()
        assert applied is not None
        addresses = {a.removeprefix("node."): e.address for a, e in applied.table.entries.items()}
        return {name: addresses[str(e.node)] for e in applied.table.entries.values() for name in e.names}

    async def order(self, node: str, action: str, target: str, counter: int) -> None:
        now_s, id = self.rig.clock.now_s(), canonical.digest(f"{node} {counter}".encode())[:32]
        order, arguments = orders.draft(
            self.rig.fleet_id,
            node,
            target,
            action,
            {},
            counter,
            id,
            id,
            now_s,
            now_s + 900,
            pulse_of(self.rig.fleet_id, node, key_of(node), now_s),
        )
        await self.rig.desk.submit(OPERATOR, SignedOrder(order, arguments, (ALICE_SIGNER.sign(order, NAMESPACE),)))

    def ask(self, node: str, action: str) -> None:
        """As the hub itself, once."""
        link = self.machines[node].link

        def bend(answer: CheckInAnswer) -> CheckInAnswer:
            link.bend = None
            return replace(answer, orders=(*answer.orders, Delivered(1, hub=HubOrder("f00d", node, action))))

        link.bend = bend

    async def inspect(self) -> None:
        """Containers as their runtimes show them, and the specs that the journals keep of them."""
        for machine in self.machines.values():
            self.story.containers += await machine.runtime.containers()
            for name, value in machine.journal.facts("service/").items():
                for part in (msgspec.json.decode(value).get("serving") or {"parts": []})["parts"]:
                    self.story.specs[f"{name} {part['spec']['component']}"] = canonical.encode(part["spec"])

    def look(self, moment: str) -> None:
        for name, machine in self.machines.items():
            said = [message.report for message in machine.link.said if message.report]
            assert said, f"{name} reported nothing"
            self.story.reports.setdefault(moment, {})[name] = msgspec.json.decode(said[-1])

    def end(self) -> Story:
        story = self.story
        for machine in self.machines.values():
            story.check_ins += machine.link.said
            story.operations += machine.journal.entries(1000)
            story.audit += machine.audit.lines(0, 10_000)
            for event, fields in machine.said:
                story.events.setdefault(event, set()).update(fields)
        story.audit += self.rig.audit.lines(0, 10_000)
        story.alerts = [msgspec.json.decode(msgspec.json.encode(alert)) for alert in self.rig.told.alerts]
        return story


async def _tell(loop: VirtualLoop) -> Story:
    stage = Stage(loop)
    stage.start()
    await asyncio.sleep(20)
    stage.commit()
    await asyncio.sleep(90)
    stage.look("running")
    await stage.inspect()
    stage.machines["w1"].runtime.place(
        Container("f" * 64, "theirs", "running", True, {"holdfast.service": "ghost"}, "example.test/foreign:1", 77)
    )
    await stage.order("w1", "restart", "service.shop", 1)
    await stage.order("w1", "stop", "service.shop", 2)
    await stage.order("quiet", "ping", "node.quiet", 1)
    stage.ask("w1", "renew-certificate")
    stage.rig.told.failures = [TryLater("the chat is away", remedy="wait")] * 3
    stage.machines["w2"].link.down = Unreachable("connection refused", remedy="try again")
    stage.machines["w2"].runtime.power_cut()
    await asyncio.sleep(300)
    stage.look("one stopped, one silent")
    await stage.order("w1", "start", "service.shop", 3)
    stage.machines["w2"].link.down = None
    stage.machines["e1"].proxy.lose()
    stage.machines["w3"].name_server.freeze()
    Tokens(stage.rig.store, stage.rig.clock, _Fixed()).create(Principal("operator", "alice"), "laptop", 3600)
    await asyncio.sleep(120)
    stage.commit(without=("shop", "broken", "sql"))
    await asyncio.sleep(120)
    stage.look("three gone")
    await stage.rig.desk.revoke(OPERATOR, stage.rig.revocation("w3", key_of("w3").line), "192.0.2.1")
    await asyncio.sleep(60)
    found = stage.end()
    for task in stage.tasks:
        task.cancel()
    await asyncio.gather(*stage.tasks, return_exceptions=True)
    return found


async def _park(loop: VirtualLoop) -> Story:
    """A revision that takes a volume away, signed with too low a grade: one node parks it."""
    carol, carol_signer = operator_signer("carol", "apply")
    story, candidates = Story(), list[Candidate]()
    applied: Applied | None = None
    for volumes, signer in (((Volume("rows", "/rows", "backup"),), ALICE_SIGNER), ((), carol_signer)):
        service = Service((Component("main", digest_pinned("db:1"), volumes=volumes),))
        planned = plan(small_fleet({"db": service}, operators=(ALICE, carol)), applied)
        candidates.append(signed(planned, signer))
        applied = applied_after(candidates[-1], applied)
    hub = PaperHub(candidates[0])
    lone = Lone(loop, hub)
    agent = await lone.turned()
    hub.candidates = candidates
    await turn(agent)
    story.facts = {f"w1 {at:04d} {name}": value for at, (name, value) in enumerate(lone.journal.facts("").items())}
    said = [message.report for message in hub.said if message.report]
    story.reports = {"one parked": {"w1": msgspec.json.decode(said[-1])}}
    return story


class _Fixed:
    def token(self, length: int) -> bytes:
        return bytes(range(length))


@lru_cache(maxsize=1)
def story() -> Story:
    """The same every time, hence told once."""
    whole, parked = virtual.run(_tell), virtual.run(_park)
    whole.facts |= {f"parked {name}": value for name, value in parked.facts.items()}
    whole.reports |= parked.reports
    return whole
