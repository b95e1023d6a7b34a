"""A whole fleet in one thread: a hub, many agents, weather and a nemesis, in virtual time. One seed is one history.

`python -m tests.fleets.simulation --seeds 100` is what `make sim` runs: every promise is checked at the end of each.
"""

import argparse
import asyncio
import sys
import time
from hashlib import sha256
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.agent import Agent
from holdfast.errors import Unreachable
from holdfast.model.alert_codes import RECOVERY_OF
from holdfast.model.fleet import Dns, Fleet
from holdfast.model.order import NAMESPACE, SignedOrder
from holdfast.model.revision import Head
from holdfast.trust import orders
from tests.fleets import virtual
from tests.fleets.agents import DirectLink, Machine, cut_lanes
from tests.fleets.build import ALICE_SIGNER, small_fleet
from tests.fleets.desks import OPERATOR, Rig, key_of
from tests.fleets.lives import pulse_of
from tests.fleets.virtual import VirtualLoop
from tests.fleets.weather import CALM, STORM, Network, Weather, WeatheredLink

MANY = 10  # nodes
DATA = {"precious": {"a": b"only copy"}, "retired-1": {"b": b"old"}, "retired-2": {"c": b"older"}}


class MemorySignature:
    """A node's key whose signatures cost nothing: nobody in this process verifies a pulse."""

    def __init__(self, node: str) -> None:
        self.line = key_of(node).line

    def sign(self, message: bytes) -> bytes:
        return sha256(message).digest() * 2


class Wiped(Struct, frozen=True):
    """A purge the operator ordered, and on which node."""

    node: str
    name: str
    id: str


class Simulation:
    def __init__(self, loop: VirtualLoop, seed: int, nodes: int, weather: Weather) -> None:
        self.loop = loop
        self.random = Random(seed)
        self.names = tuple(f"n{number}" for number in range(nodes))
        self.version = 1
        self.rig = Rig(loop, self._fleet(1))
        self.network = Network(self.random, CALM)
        self.weather = weather
        self.machines: dict[str, Machine] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.agents: dict[str, Agent] = {}
        self.hub_task: asyncio.Task[None] | None = None
        self.hub_up = True
        self.trace: list[tuple[float, str, str]] = []
        self.ordered: list[Wiped] = []
        self.counters: dict[str, int] = {}
        self.highest: dict[str, Head] = {}
        self.broken: list[str] = []
        self.skewed: set[str] = set()

    def _fleet(self, version: int) -> Fleet:
        """Many nodes have no DNS server: each is looked at every few seconds, which fills a simulated day with nothing
        else."""
        fleet = small_fleet({"web": version}, self.names)
        return fleet if len(self.names) <= MANY else replace(fleet, dns=Dns("none"))

    def note(self, what: str, about: str = "") -> None:
        self.trace.append((round(self.loop.time(), 6), what, about))

    @property
    def fingerprint(self) -> str:
        return sha256(repr(self.trace).encode()).hexdigest()

    # ---- the hub

    def start_hub(self) -> None:
        self.hub_up = True
        self.hub_task = self.loop.create_task(self.rig.desk.run())
        self.note("hub starts")

    def kill_hub(self) -> None:
        """Everything in memory is gone; the ledger stays, and whoever was held open hears nothing more."""
        assert self.hub_task is not None
        self.hub_up = False
        self.hub_task.cancel()
        for member in self.rig.registry.members.values():
            member.bell.ring()
        self.rig = self.rig.restarted()
        for machine in self.machines.values():
            machine.rig = self.rig
            assert isinstance(machine.link, Guarded)
            machine.link.direct.rig = self.rig
        self.note("hub killed")

    # ---- agents

    async def join_all(self, cheap: bool) -> None:
        for name in self.names:
            machine = Machine(self.rig, name)
            machine.link = Guarded(self, name, DirectLink(self.rig, key_of(name)))
            machine.storage.contents |= {directory: dict(files) for directory, files in DATA.items()}
            self.machines[name] = machine
            await machine.start().join()
            if cheap:
                machine.key = MemorySignature(name)  # type: ignore[assignment]

    def start_agent(self, name: str) -> None:
        agent = self.machines[name].start()
        self.agents[name] = agent
        self.tasks[name] = self.loop.create_task(agent.run())
        self.note("agent starts", name)

    def kill_agent(self, name: str) -> None:
        agent = self.agents[name]
        self.tasks[name].add_done_callback(lambda _: cut_lanes(agent))
        self.tasks[name].cancel()
        self.note("agent killed", name)

    # ---- the operator

    def apply(self) -> None:
        self.version += 1
        head = self.rig.commit(self._fleet(self.version))
        self.note("applied", str(head.number))

    async def purge(self, node: str, name: str) -> None:
        counter = self.counters[node] = self.counters.get(node, 0) + 1
        id = sha256(f"{node} {name} {counter}".encode()).hexdigest()[:32]
        now_s = self.rig.clock.now_s()
        order, arguments = orders.draft(
            self.rig.fleet_id,
            node,
            f"data.{name}",
            "purge",
            {"now": "yes"},
            counter,
            id,
            id,
            now_s,
            now_s + 7 * 86_400,
            pulse_of(self.rig.fleet_id, node, key_of(node), now_s),
        )
        signed = SignedOrder(order, arguments, (ALICE_SIGNER.sign(order, NAMESPACE),))
        await self.rig.desk.submit(OPERATOR, signed)
        self.ordered.append(Wiped(node, name, id))
        self.note("ordered purge", f"{node} {name}")

    # ---- the nemesis

    async def torment(self, until_s: float, every_s: float) -> None:
        deeds = (self._cut, self._crash, self._crash_hub, self._apply, self._order, self._skew)
        while True:
            pause_s = self.random.expovariate(1 / every_s)
            if self.loop.time() + pause_s > until_s:
                return
            await asyncio.sleep(pause_s)
            await self.random.choice(deeds)()

    async def _cut(self) -> None:
        name, seconds = self.random.choice(self.names), self.random.expovariate(1 / 120)
        self.network.cut.add(name)
        self.note("cut", name)
        self.loop.call_later(seconds, self._heal, name)

    def _heal(self, name: str) -> None:
        self.network.cut.discard(name)
        self.note("healed", name)

    async def _crash(self) -> None:
        name = self.random.choice(self.names)
        if self.tasks[name].done() or self.tasks[name].cancelling():
            return
        self.kill_agent(name)
        self.loop.call_later(self.random.expovariate(1 / 30), self.start_agent, name)

    async def _crash_hub(self) -> None:
        if self.hub_up:
            self.kill_hub()
            self.loop.call_later(self.random.expovariate(1 / 20), self.start_hub)

    async def _apply(self) -> None:
        if self.hub_up:
            self.apply()

    async def _order(self) -> None:
        name = self.random.choice(self.names)
        left = [d for d in ("retired-1", "retired-2") if not any(w.node == name and w.name == d for w in self.ordered)]
        if left and self.hub_up:
            await self.purge(name, left[0])

    async def _skew(self) -> None:
        """A clock that jumps and is set right again."""
        name = self.random.choice(self.names)
        self.skewed.add(name)
        clock = self.machines[name].clock
        clock.skew_s = self.random.choice((-300.0, 300.0, -86_400.0, 10 * 365 * 86_400.0))
        self.loop.call_later(self.random.expovariate(1 / 60), setattr, clock, "skew_s", 0.0)

    # ---- promises

    def watch_head(self, name: str) -> None:
        """Called with every check-in: what a node has accepted never goes back (W14)."""
        seen, before = self.agents[name].accepting.seen, self.highest.get(name)
        if before is not None and seen.number < before.number:
            self.broken.append(f"{name} went back from {before.number} to {seen.number}")
        self.highest[name] = seen

    def promises(self) -> list[str]:
        """Everything that must hold once the storm is over; empty when it does."""
        broken = list(self.broken)
        for name, machine in self.machines.items():
            agent = self.agents[name]
            if agent.accepting.seen != self.rig.head:
                broken.append(f"{name} is at {agent.accepting.seen.number}, the fleet at {self.rig.head.number}")
            late = self._expired(name)
            wanted = sorted(w.name for w in self.ordered if w.node == name and w.id not in late)
            if sorted(machine.storage.destroyed) != wanted:
                broken.append(f"{name}: ordered {wanted}, destroyed {machine.storage.destroyed}")
            if machine.storage.contents.get("precious") != DATA["precious"]:
                broken.append(f"{name} lost data nobody ordered it to destroy")
            if machine.journal.unfinished():
                broken.append(f"{name} has unfinished operations")
            machine.audit.verify()
        for view in self.rig.desk.nodes().nodes:
            if view.status != "healthy":
                broken.append(f"{view.name} is {view.status} after everything was healed")
        return broken + self._alerts()

    def _expired(self, name: str) -> set[object]:
        """By a clock that was years ahead when the order came: rightly refused, and never carried out."""
        said = [fields for event, fields in self.machines[name].said if event == "order_refused"]
        return {fields["order"] for fields in said if fields["code"] == "expired" and name in self.skewed}

    def _alerts(self) -> list[str]:
        """I-30: of each kind and node alarms and recoveries take turns, and the last word is a recovery."""
        told: dict[tuple[str, str], list[str]] = {}
        for alert in self.rig.told.alerts:
            told.setdefault((alert.address, RECOVERY_OF[alert.code] or alert.code), []).append(alert.level)
        return [
            f"the alerts {code} about {address} do not take turns: {said}"
            for (address, code), said in told.items()
            if address.startswith(("node.", "certificate.")) and said != ["alarm", "recovery"] * (len(said) // 2)
        ]


class Guarded(DirectLink):
    """A direct line through the weather, to a hub that may be down."""

    def __init__(self, simulation: Simulation, node: str, direct: DirectLink) -> None:
        super().__init__(direct.rig, direct.key)
        self.direct = direct
        self._simulation = simulation
        self._weathered = WeatheredLink(node, direct, simulation.network)
        self.join = self._weathered.join  # type: ignore[method-assign]
        self.links = self._weathered.links  # type: ignore[method-assign]
        self.blob = self._weathered.blob  # type: ignore[method-assign]

    async def is_there(self) -> bool:
        return self._simulation.hub_up and await self._weathered.is_there()

    async def check_in(self, message):  # type: ignore[no-untyped-def]
        simulation = self._simulation
        if not simulation.hub_up:
            raise Unreachable("connection refused", remedy="try again")
        before = simulation.rig
        answer = await self._weathered.check_in(message)
        if simulation.rig is not before:
            raise Unreachable("the hub died while it held this", remedy="try again")
        simulation.watch_head(message.node)
        return answer


class Outcome(Struct, frozen=True):
    fingerprint: str
    broken: tuple[str, ...]
    events: int
    lost: int
    doubled: int
    revisions: int
    purges: int
    alarms: int


async def _day(loop: VirtualLoop, seed: int, nodes: int, hours: float, weather: Weather, every_s: float) -> Outcome:
    simulation = Simulation(loop, seed, nodes, weather)
    await simulation.join_all(cheap=True)
    simulation.start_hub()
    for name in simulation.names:
        simulation.start_agent(name)
    simulation.network.weather = weather
    storm_s = hours * 3600 - 900
    if every_s:
        await simulation.torment(storm_s, every_s)
    await asyncio.sleep(max(0.0, storm_s - loop.time()))
    simulation.network.weather = CALM
    await asyncio.sleep(900)  # the last fault heals, back-off ends, everybody catches up
    simulation.note("over", ",".join(f"{n}:{h.number}" for n, h in sorted(simulation.highest.items())))
    return Outcome(
        simulation.fingerprint,
        tuple(simulation.promises()),
        len(simulation.trace),
        simulation.network.lost,
        simulation.network.doubled,
        simulation.rig.head.number,
        len(simulation.ordered),
        sum(alert.level == "alarm" for alert in simulation.rig.told.alerts),
    )


def day(seed: int, nodes: int = 8, hours: float = 6.0, weather: Weather = STORM, every_s: float = 120.0) -> Outcome:
    return virtual.run(lambda loop: _day(loop, seed, nodes, hours, weather, every_s))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--hours", type=float, default=24.0)
    args = parser.parse_args()
    bad = 0
    for seed in range(args.first, args.first + args.seeds):
        start_s = time.perf_counter()
        found = day(seed, args.nodes, args.hours)
        took_s = time.perf_counter() - start_s
        bad += bool(found.broken)
        print(
            f"seed {seed}: {found.events} events, {found.revisions} revisions, {found.purges} purges, "
            f"{found.alarms} alarms, {found.lost} lost, {found.doubled} doubled, {took_s:.1f} s"
            + "".join(f"\n  BROKEN: {text}" for text in found.broken),
            flush=True,
        )
    print(f"{args.seeds} seeds, {bad} broken")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
