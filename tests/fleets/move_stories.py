"""Moves of a service with data between three workers, in virtual time: one seed is one story.

The operator moves and takes back, agents and the hub are killed, lines are cut, clocks jump, orders stop and start the
service. A witness writes rising numbers into the running copy and reads them again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from copy import deepcopy
from inspect import iscoroutinefunction
from random import Random
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.adapters.backup_target.memory import MemoryTarget
from holdfast.adapters.runtime.memory import Behaviour
from holdfast.agent.agent import Agent
from holdfast.errors import HoldfastError, Unreachable
from holdfast.hub.backups.store import BackupStore
from holdfast.hub.moves import access, word_rule
from holdfast.model import backup_key
from holdfast.model.backup_key import BackupKey
from holdfast.model.checkin import CheckIn, CheckInAnswer
from holdfast.model.fleet import Fleet, Health, Service, Volume
from holdfast.model.move import EPOCH, LAST
from holdfast.model.principal import Principal
from holdfast.model.revision import Entry
from holdfast.planning.move_target import Wish
from holdfast.planning.moving import plan_abort, plan_move
from holdfast.planning.plan import plan
from holdfast.ports.backup_objects import StoreRoom
from holdfast.ports.backup_target import Prunable, StoredObject, TargetState
from holdfast.reconcile.moves import Into
from holdfast.wiring.agent_parts import Ports
from tests.fleets import virtual
from tests.fleets.agents import DirectLink, Machine, cut_lanes, services_of
from tests.fleets.build import signed, small_fleet, small_service
from tests.fleets.desks import OPERATOR, Rig, key_of
from tests.fleets.dying import Dead, Dying
from tests.fleets.virtual import VirtualLoop

NODES = ("w1", "w2", "w3")
PAGE = "book/page"
JOURNAL = ("set_aside", "drop_fact", "begin", "steps", "finish", "note_made", "forget_made")
CALM_S = 60.0


def notes(version: int = 1) -> Service:
    plain = small_service("web", version)
    health = Health("http", path="/health", port=8080, start_period="8s")
    part = replace(plain.components[0], routes=(), health=health, volumes=(Volume("book", "/book", protect="backup"),))
    return replace(plain, components=(part,))


def keyed(services: dict[str, Service]) -> Fleet:
    """Its nodes have joined. A service without routes: no certificate is invalid while a clock is wrong."""
    made = small_fleet(services, NODES)
    return replace(made, nodes={name: replace(node, key=key_of(name).line) for name, node in made.nodes.items()})


class MemoryObjects:
    """What the hub's mailbox has on its disk."""

    def __init__(self) -> None:
        self.found: dict[str, bytes] = {}

    def put(self, key: BackupKey, content: bytes | bytearray) -> bool:
        is_new = key.text not in self.found
        self.found.setdefault(key.text, bytes(content))
        return is_new

    def read(self, key: BackupKey, first: int, at_most: int) -> bytes | None:
        found = self.found.get(key.text)
        return None if found is None else found[first : first + at_most]

    def has(self, keys: Collection[str]) -> set[str]:
        return set(keys) & self.found.keys()

    def listed(self, prefix: str) -> Sequence[StoredObject]:
        return [StoredObject(key, len(self.found[key])) for key in sorted(self.found) if key.startswith(prefix)]

    def remove(self, key: BackupKey) -> int:
        return len(self.found.pop(key.text, b""))

    def room(self) -> StoreRoom:
        return StoreRoom(1 << 40, 1 << 39)


class MailboxLine:
    """The mailbox as one node reaches it: through the network, by the rules of the hub."""

    def __init__(self, story: "MoveStory", node: str) -> None:
        self._story = story
        self._me = Principal("node", node, key_of(node).line, ("worker",))

    async def _reach(self) -> None:
        await asyncio.sleep(self._story.random.uniform(0.005, self._story.slow_s))
        self._story.check_line(self._me.name)

    def _answered(self) -> None:
        """The hub has acted, and sometimes its answer is lost."""
        self._story.check_line(self._me.name)
        if self._story.is_stormy and self._story.random.random() < 0.02:
            raise Unreachable("the answer was lost", remedy="try again")

    def _may_read(self, key: BackupKey) -> None:
        access.moving(access.check_fleet(self._story.rig.hub.applied(), key.fleet), self._me.name, key.service)

    async def put(self, key: str, content: bytes) -> None:
        await self._reach()
        parsed = backup_key.parse(key)
        access.check_put(access.check_fleet(self._story.rig.hub.applied(), parsed.fleet), self._me, parsed)
        self._story.mailbox.put(parsed, content, self._me, (parsed.service,), 1)
        self._answered()

    async def get(self, key: str) -> bytes | None:
        await self._reach()
        parsed = backup_key.parse(key)
        self._may_read(parsed)
        return self._story.mailbox.part(parsed, 0, 1 << 30)

    async def has(self, keys: Collection[str]) -> set[str]:
        await self._reach()
        for key in keys:
            self._may_read(backup_key.parse(key))
        return self._story.mailbox.present(keys)

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        await self._reach()
        applied = access.check_fleet(self._story.rig.hub.applied(), prefix.split("/")[0])
        access.moving(applied, self._me.name, backup_key.service_of(prefix))
        return self._story.mailbox.listed(prefix)

    async def delete(self, key: str, proof: Prunable) -> None:
        assert proof.key == key
        await self._reach()
        parsed = backup_key.parse(key)
        self._may_read(parsed)
        self._story.mailbox.delete(parsed, self._me)
        self._answered()

    async def look(self) -> TargetState:
        return TargetState("attached")

    async def close(self) -> None:
        """Nothing was opened."""


class Process:
    """One life of an agent. After its end no call of it has an effect, as after kill -9."""

    def __init__(self) -> None:
        self.is_over = False

    def check(self) -> None:
        if self.is_over:
            raise Dead("the process is gone")


class Living:
    """A port, as long as the process lives."""

    def __init__(self, port: Any, process: Process) -> None:
        self._port = port
        self._process = process

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if not callable(found):
            return found
        if iscoroutinefunction(found):
            return self._later(found)

        def call(*given: Any, **named: Any) -> Any:
            self._process.check()
            return found(*given, **named)

        return call

    def _later(self, act: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*given: Any, **named: Any) -> Any:
            self._process.check()
            answer = await act(*given, **named)
            self._process.check()
            return answer

        return call


class StoryLink(DirectLink):
    def __init__(self, story: "MoveStory", node: str) -> None:
        super().__init__(story.rig, key_of(node))
        self._story = story
        self._node = node

    def _try(self) -> None:
        self._story.check_line(self._node)

    async def check_in(self, message: CheckIn) -> CheckInAnswer:
        before = self._story.rig
        answer = await super().check_in(message)
        if self._story.rig is not before:
            raise Unreachable("the hub died while it held this", remedy="try again")
        return answer

    async def is_there(self) -> bool:
        return self._story.hub_up and self._node not in self._story.cut


class Behaviours(dict[Any, Behaviour]):
    """Every image starts and stops alike."""

    def __init__(self, every: Behaviour) -> None:
        super().__init__()
        self._every = every

    def __contains__(self, key: object) -> bool:
        return True

    def __getitem__(self, key: Any) -> Behaviour:
        return self._every


class StoryMachine(Machine):
    """`process` is the newest life of its agent."""

    def __init__(self, story: "MoveStory", node: str) -> None:
        super().__init__(story.rig, node)
        self.process = Process()
        self.link = StoryLink(story, node)
        self.backups = replace(self.backups, target=story.backups, passage=MailboxLine(story, node))
        self.runtime.behaviours = Behaviours(Behaviour(start_s=0.3, stop_s=story.random.choice((0.0, 1.0))))
        begin = self.runtime._begin

        def begun(kept: Any, restarts: int) -> None:
            begin(kept, restarts)
            story.began(node)

        self.runtime._begin = begun  # type: ignore[method-assign]

    def ports(self) -> Ports:
        own, whole = self.process, super().ports()
        return replace(
            whole,
            link=Living(whole.link, own),
            journal=Living(whole.journal, own),
            acceptance=Living(whole.acceptance, own),
            storage=Living(whole.storage, own),
            runtime=Living(whole.runtime, own),
            backups=replace(
                whole.backups,
                archiver=Living(whole.backups.archiver, own),
                passage=Living(whole.backups.passage, own),
            ),
        )

    def start(self) -> Agent:
        self.process = Process()
        return super().start()

    @property
    def running(self) -> list[str]:
        """Containers of the service."""
        kept = self.runtime._kept.values()
        return [one.seen.name for one in kept if one.seen.running and one.seen.service == "web"]

    @property
    def page(self) -> int:
        return _number(self.storage.contents.get("web", {}))

    @property
    def newest(self) -> int:
        """In any whole copy on this node."""
        return max((_number(files) for name, files in self.storage.contents.items() if "web" in name), default=0)

    def arrived(self, epoch: int) -> bool:
        text = self.journal.fact("moves/into/web")
        into = msgspec.json.decode(text, type=Into) if text is not None else None
        return into is not None and into.epoch == epoch and into.has_arrived


def _unless_dead(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What ended with a process is no trouble."""
    if not isinstance(context.get("exception"), Dead):
        loop.default_exception_handler(context)


def _number(files: dict[str, bytes]) -> int:
    return int(files.get(PAGE, b"0"))


class MoveStory:
    """`puts_back`: machines boot with older states of their agents, too. Then two copies never run and no write is
    lost, but a service may wait for its operator: with a finding."""

    def __init__(self, loop: VirtualLoop, seed: int, puts_back: bool = False) -> None:
        self.loop = loop
        self.puts_back = puts_back
        loop.set_exception_handler(_unless_dead)
        self.random = Random(seed)
        self.mailbox_objects = MemoryObjects()
        self.mailbox = BackupStore(self.mailbox_objects, word_rule.check, lambda key: True)
        self.backups = MemoryTarget()  # of all nodes
        self.version = 1
        self.rig = Rig(loop, keyed({"web": notes()}), mailbox=self.mailbox)
        self.cut: set[str] = set()
        self.hub_up = False
        self.hub_task: asyncio.Task[None] | None = None
        self.is_stormy = False
        self.slow_s = self.random.choice((0.02, 0.1, 0.5))  # the longest way to the hub
        self.machines = {name: StoryMachine(self, name) for name in NODES}
        self.agents: dict[str, Agent] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.snapshots: dict[str, tuple[Any, Any]] = {}
        self.dying: set[str] = set()  # nodes whose agent ends with one of its next writes
        self.counters = dict.fromkeys(NODES, 0)
        self.written = 0  # the last number that the service acknowledged
        self.moves = 0
        self.broken: list[str] = []
        self.trace: list[str] = []

    def note(self, text: str) -> None:
        self.trace.append(f"{self.loop.time():8.2f} {text}")

    def breaks(self, text: str) -> None:
        self.note(f"BROKEN {text}")
        self.broken.append(text)

    # ---- the world

    def check_line(self, node: str) -> None:
        if not self.hub_up or node in self.cut:
            raise Unreachable("no answer", remedy="try again")

    def start_hub(self) -> None:
        if not self.hub_up:
            self.hub_up = True
            self.hub_task = self.loop.create_task(self.rig.desk.run())
            self.note("hub starts")

    def kill_hub(self) -> None:
        assert self.hub_task is not None
        self.hub_up = False
        self.hub_task.cancel()
        for member in self.rig.registry.members.values():
            member.bell.ring()
        self.rig = self.rig.restarted()
        for machine in self.machines.values():
            machine.rig = machine.link.rig = self.rig
        self.note("hub killed")

    def start_agent(self, node: str) -> None:
        if node not in self.tasks or self.tasks[node].done():
            self.agents[node] = self.machines[node].start()
            self.tasks[node] = self.loop.create_task(self.agents[node].run())
            self.note(f"{node} starts")

    async def kill_agent(self, node: str, power: bool) -> None:
        """`power`: its containers go down, too."""
        self.note(f"{node} killed{' with its machine' if power else ''}")
        self.machines[node].process.is_over = True
        self.tasks[node].cancel()
        await asyncio.gather(self.tasks[node], return_exceptions=True)
        await asyncio.gather(*cut_lanes(self.agents[node]), return_exceptions=True)
        if power:
            self.machines[node].runtime.power_cut()
            self.machines[node].hardware.booted += " again"

    # ---- the service

    @property
    def entry(self) -> Entry:
        applied = self.rig.hub.applied()
        assert applied is not None
        return applied.table.entries["service.web"]

    def began(self, node: str) -> None:
        self.note(f"runs on {node}, which has {self.machines[node].page} of {self.written}")
        running = [(name, one) for name, machine in self.machines.items() for one in machine.running]
        if len(running) > 1:
            self.breaks(f"two copies run: {running}")

    def tick(self) -> None:
        """The running copy writes the next number; all that was written before is in it."""
        for node, machine in self.machines.items():
            if machine.running:
                if machine.page < self.written:
                    self.breaks(f"{node} runs with {machine.page}, and {self.written} was written")
                self.written = max(self.written, machine.page) + 1
                machine.storage.contents["web"][PAGE] = b"%d" % self.written
        if all(machine.newest < self.written for machine in self.machines.values()):
            self.breaks(f"no copy has {self.written}")

    async def witness(self) -> None:
        while True:
            self.tick()
            await asyncio.sleep(0.3)

    # ---- the operator

    def commit(self, made: Any) -> None:
        self.rig.hub.commit(signed(made))
        self.rig.desk.committed()

    def is_moving(self) -> bool:
        """The node that it is placed on does not have its data yet."""
        return self.entry.move is not UNSET and not self.machines[str(self.entry.node)].arrived(self.entry.epoch)

    async def move(self) -> None:
        """Planning refuses a move while another one is under way: it is taken back first."""
        target = self.random.choice([node for node in NODES if node != self.entry.node])
        if self.hub_up and not self.is_moving():
            applied = self.rig.hub.applied()
            assert applied is not None
            self.commit(plan_move(Wish("web", target, aside=True), applied, self.rig.desk.observations()))
            self.moves += 1
            self.note(f"moves to {target}, epoch {self.entry.epoch}")

    async def abort(self) -> None:
        applied = self.rig.hub.applied()
        if self.hub_up and applied is not None:
            self.commit(plan_abort("web", applied))
            self.note(f"is taken back to {self.entry.node}, epoch {self.entry.epoch}")

    async def deploy(self) -> None:
        applied = self.rig.hub.applied()
        if self.hub_up and applied is not None:
            self.version += 1
            self.commit(plan(keyed({"web": notes(self.version)}), applied))
            self.note(f"version {self.version}")

    async def order(self) -> None:
        if self.hub_up:
            action = self.random.choice(("stop", "start", "start", "restart"))
            node = self.random.choice(NODES) if self.random.random() < 0.3 else str(self.entry.node)
            if self.random.random() < 0.4 and self.entry.move is not UNSET:
                node = self.entry.move.source
            await self.ordered(node, action)

    async def ordered(self, node: str, action: str, target: str = "service.web", **given: str) -> str:
        """The id of the order."""
        self.counters[node] += 1
        order = self.rig.order(node, self.counters[node], action, 900, target, **given)
        self.note(f"{node} is ordered to {action}")
        return await self.rig.desk.submit(OPERATOR, order)

    # ---- the nemesis

    async def crash(self) -> None:
        node = self.random.choice(NODES)
        if not self.machines[node].process.is_over:
            await self.kill_agent(node, self.random.random() < 0.4)
            self.loop.call_later(self.random.expovariate(1 / 10), self.start_agent, node)

    async def snapshot(self) -> None:
        """Of what an agent keeps."""
        node = self.random.choice(NODES)
        if node not in self.dying:
            machine = self.machines[node]
            self.snapshots[node] = deepcopy(machine.journal), deepcopy(machine.acceptance)
            self.note(f"snapshot of {node}")

    async def put_back(self) -> None:
        """A machine boots with the state of its snapshot, and reaches its hub."""
        node = self.random.choice(NODES)
        if node in self.dying or node not in self.snapshots or self.machines[node].process.is_over:
            return
        await self.kill_agent(node, power=True)
        machine = self.machines[node]
        machine.journal, machine.acceptance = self.snapshots.pop(node)
        self.note(f"{node} is put back")
        self.start_hub()
        self.cut.discard(node)
        self.start_agent(node)
        await asyncio.sleep(5)

    async def crash_at_a_write(self) -> None:
        """Into its journal, before or after it."""
        node = self.random.choice(NODES)
        if self.machines[node].process.is_over or node in self.dying:
            return
        dying = Dying(self.random.randint(1, 8), self.random.choice(("before", "after")), lambda first: True)
        dying.watch(self.machines[node].journal, *JOURNAL)
        self.dying.add(node)
        self.loop.create_task(self._die(node, dying, self.loop.time() + 20))

    async def _die(self, node: str, dying: Dying, end_s: float) -> None:
        process = self.machines[node].process
        while not dying.at and not process.is_over and self.loop.time() < end_s:
            await asyncio.sleep(0.02)
        if dying.at and not process.is_over:
            await self.kill_agent(node, self.random.random() < 0.3)
            self.loop.call_later(self.random.expovariate(1 / 5), self.start_agent, node)
        dying.revive()
        self.dying.discard(node)

    async def crash_hub(self) -> None:
        if self.hub_up:
            self.kill_hub()
            self.loop.call_later(self.random.expovariate(1 / 10), self.start_hub)

    async def cut_off(self) -> None:
        node = self.random.choice(NODES)
        self.cut.add(node)
        self.note(f"{node} is cut off")
        self.loop.call_later(self.random.expovariate(1 / 20), self.cut.discard, node)

    async def skew(self) -> None:
        node = self.random.choice(NODES)
        self.machines[node].clock.skew_s = self.random.choice((-7200.0, -600.0, 600.0, 7200.0))
        self.note(f"the clock of {node} jumps by {self.machines[node].clock.skew_s}")

    async def storm(self, for_s: float, every_s: float) -> None:
        deeds = (
            *(self.move,) * 4,
            *(self.abort,) * 2,
            *(self.crash,) * 2,
            *(self.crash_at_a_write,) * 3,
            *(self.order,) * 2,
            *(self.cut_off,) * 2,
            *((self.snapshot, self.put_back) * 2 if self.puts_back else ()),
            self.crash_hub,
            self.skew,
            self.deploy,
        )
        self.is_stormy = True
        end_s = self.loop.time() + for_s
        while self.loop.time() < end_s:
            is_soon = self.is_moving() and self.random.random() < 0.8
            await asyncio.sleep(self.random.uniform(0, 2) if is_soon else self.random.expovariate(1 / every_s))
            try:
                await self.random.choice(deeds)()
            except HoldfastError as trouble:
                self.note(f"refused: {trouble.message[:100]}")

    async def calm(self) -> None:
        self.is_stormy = False
        while self.dying:
            await asyncio.sleep(0.5)
        self.cut.clear()
        self.start_hub()
        for node, machine in self.machines.items():
            machine.clock.skew_s = 0.0
            self.start_agent(node)
        self.note("calm")

    # ---- promises

    def running(self) -> dict[str, int]:
        return {name: len(machine.running) for name, machine in self.machines.items() if machine.running}

    def is_held(self) -> bool:
        return services_of(self.agents[str(self.entry.node)]).records.of("web").held

    async def settles(self, what: str) -> None:
        """One copy runs, where it is placed."""
        end_s = self.loop.time() + CALM_S
        while self.running() != {str(self.entry.node): 1} and not self.is_held_at_rest():
            if self.loop.time() > end_s:
                self.breaks(f"{what} {CALM_S:.0f} s after the storm: runs {self.running()}, placed {self.entry.node}")
                return
            await asyncio.sleep(0.5)

    def is_held_at_rest(self) -> bool:
        return self.running() == {} and not self.is_moving() and self.is_held()

    async def end(self) -> None:
        await self.calm()
        if self.puts_back:
            await self.end_put_back()
            return
        await self.settles("not settled")
        await asyncio.sleep(30)
        if self.is_held_at_rest():
            await self.ordered(str(self.entry.node), "start")
            await asyncio.sleep(20)
        await self.settles("not settled after a start")
        if self.running() != {str(self.entry.node): 1}:
            self.breaks(f"runs {self.running()}, placed {self.entry.node}")
        await asyncio.sleep(40)
        self.check_left()

    async def end_put_back(self) -> None:
        await asyncio.sleep(3 * CALM_S)
        told = [one.code for agent in self.agents.values() for one in agent.findings.all()]
        if self.running() != {str(self.entry.node): 1} and not self.is_held_at_rest() and "move_waits" not in told:
            self.breaks(f"runs {self.running()}, placed {self.entry.node}, and no finding says why: {told}")

    def left(self) -> list[str]:
        """In the mailbox, but for the closing word of the last move."""
        applied = self.rig.hub.applied()
        entry = applied.table.entries.get("service.web") if applied is not None else None
        closing = f"/receipts/{entry.epoch * EPOCH + LAST:08}-" if entry is not None else "none"
        return sorted(key for key in self.mailbox_objects.found if closing not in key)

    def check_left(self) -> None:
        left = self.left()  # a word whose answer was lost may be said after the end
        if len(left) > 1 or any("/receipts/" not in key for key in left):
            self.breaks(f"the mailbox has {left}")
        for node, machine in self.machines.items():
            if machine.storage.incoming:
                self.breaks(f"{node} has half a copy: {sorted(machine.storage.incoming)}")
            homes = sorted(machine.backups.archiver.homes)  # type: ignore[attr-defined]
            if any("move" in home for home in homes):
                self.breaks(f"the archiver of {node} keeps {homes}")
            found = [(one.code, one.message) for one in self.agents[node].findings.all()]
            if any(code in ("internal_error", "move_waits") for code, _ in found):
                self.breaks(f"{node} has findings: {found}")


async def _story(loop: VirtualLoop, seed: int, storm_s: float, every_s: float, puts_back: bool) -> MoveStory:
    story = MoveStory(loop, seed, puts_back)
    await story.calm()
    while story.running() != {"w1": 1}:
        await asyncio.sleep(0.5)
    witness = loop.create_task(story.witness())
    await story.storm(storm_s, every_s)
    await story.end()
    witness.cancel()
    return story


def tell(seed: int, storm_s: float = 200.0, every_s: float = 6.0, puts_back: bool = False) -> MoveStory:
    return virtual.run(lambda loop: _story(loop, seed, storm_s, every_s, puts_back))
