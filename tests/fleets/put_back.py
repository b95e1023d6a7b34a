"""A fleet on files whose parts are put back to older copies: the agent's state, the ledger, the operator's directory.

The hub, two nodes and the command line are the real ones in one process and virtual time; w1 has a real journal and the
hub a real ledger. The hub may be owned: then it sends every order that it ever saw again, with every answer.
"""

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.adapters.acceptance.sqlite import SqliteAcceptance
from holdfast.adapters.audit_log.file import FileAuditLog
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.journal.sqlite import SqliteJournal
from holdfast.adapters.ledger_store.sqlite.store import SqliteStore
from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.adapters.sealing.memory import MemorySealer
from holdfast.adapters.sqlite.agent_file import AgentFile
from holdfast.agent.agent import Agent
from holdfast.agent.membership import decode, encode
from holdfast.cli import main
from holdfast.model import trust
from holdfast.model.checkin import CheckInAnswer
from holdfast.model.fleet import Fleet, SecretRef, Service
from holdfast.model.order import Delivered, SignedOrder, decode_order
from holdfast.model.order_view import OrderView
from holdfast.model.purpose import Purpose, wrapped
from holdfast.model.report import Report
from holdfast.model.revision import Head
from holdfast.ports.ledger_store import Transaction
from tests.fleets.agents import Machine, kill
from tests.fleets.build import small_fleet, small_service
from tests.fleets.desks import OPERATOR, Puppet, Rig, key_of
from tests.fleets.directories import files
from tests.fleets.tools import HUB, HUB_KEY, Box
from tests.fleets.virtual import VirtualLoop
from tests.specs.hub_fleet.test_verbs import Wire, at_once

TOLD_S = 10.0
PARTS = ("state", "agent.db", "secrets", "ledger", "fleet.lock")


class WaitingStore(SqliteStore):
    """Virtual time does not pass while its thread writes."""

    def submit(self, tx: Transaction) -> "Future[int]":
        writing = super().submit(tx)
        wait([writing])
        return writing


class FileMachine(Machine):
    """w1, with its state in files. Every start is another life."""

    def __init__(self, rig: Rig, node: str, state: Path) -> None:
        super().__init__(rig, node)
        state.mkdir(parents=True)
        self.state = state
        self.own_lives = True
        self.link.keep = True
        self.keep_membership(encode(self.membership))

    def keep_membership(self, content: bytes) -> None:
        (self.state / "identity.json").write_bytes(content)

    def start(self) -> Agent:
        file = AgentFile(str(self.state / "agent.db"))
        self.journal, self.acceptance = SqliteJournal(file), SqliteAcceptance(file)  # type: ignore[assignment]
        names = (str(self.state / "audit.jsonl"), str(self.state / "audit.head"))
        self.audit = FileAuditLog(*names, self.clock, PosixDisk())  # type: ignore[assignment]
        self.membership = decode((self.state / "identity.json").read_bytes(), "identity.json")
        return super().start()

    def close(self) -> None:
        self.audit.close()
        self.journal.close()


class OrderWire(Wire):
    """The hub of the command line; it remembers every order."""

    def __init__(self, rig: Rig, sent: list[SignedOrder]) -> None:
        super().__init__(rig)
        self.sent = sent

    def submit(self, order: SignedOrder) -> str:
        self.sent.append(order)
        return at_once(self.rig.desk.submit(OPERATOR, order))

    def orders(self, node: str = "", limit: int = 20) -> Sequence[OrderView]:
        return self.rig.desk.orders(node or None, limit).orders

    def commit(self, candidate: Any) -> Head:
        head = self.rig.hub.commit(candidate)
        self.rig.watched.follow()
        return head


class World:
    def __init__(self, loop: VirtualLoop, home: Path) -> None:
        self.loop, self.home = loop, home
        self.directory = home / "fleet"
        self.version = 1
        (home / "hub").mkdir()
        self.seal(1)
        self.rig = Rig(loop, self.fleet(), store=self._ledger(create=True))
        self.machine = FileMachine(self.rig, "w1", home / "w1")
        self.w2 = Puppet(self.rig, "w2")
        self.sent: list[SignedOrder] = []
        self.owned = False
        self.withholds = False
        self.accepted: dict[int, set[str]] = {}  # digests that w1 accepted, by number
        self.task: asyncio.Task[None] | None = None
        self.agent: Agent
        self.machine.link.bend = self._bend
        self._connect()

    # ---- the fleet directory

    def seal(self, version: int) -> None:
        base = small_fleet()
        purpose = Purpose(trust.digest(trust.of(base.operators, base.thresholds)), "pw", ("service.web",))
        plain = wrapped(b"%d" % version, purpose)
        sealed = MemorySealer(SeededRandom(f"secret {version}")).seal(plain, [key_of("w1").line])
        (self.directory / "secrets").mkdir(parents=True, exist_ok=True)
        (self.directory / "secrets" / "pw.age").write_bytes(sealed)

    def fleet(self) -> Fleet:
        web: Service = small_service("web", self.version)
        (main_component,) = web.components
        web = replace(web, node="w1", components=(replace(main_component, secrets=(SecretRef("pw"),)),))
        base = small_fleet({"web": web}, ("w1", "w2"))
        sealed = (self.directory / "secrets" / "pw.age").read_bytes()
        return replace(base, settings=replace(base.settings, hub_key=HUB_KEY), secrets={"pw": sealed})

    def write(self) -> None:
        for path, text in files(self.fleet()).items():
            (self.directory / path).parent.mkdir(parents=True, exist_ok=True)
            (self.directory / path).write_bytes(text)

    # ---- the hub

    def _ledger(self, create: bool = False) -> WaitingStore:
        store = WaitingStore.open(str(self.home / "hub" / "ledger.db"), create)
        assert isinstance(store, WaitingStore)
        return store

    def _connect(self) -> None:
        self.hub_task = self.loop.create_task(self.rig.desk.run())
        self.machine.rig = self.machine.link.rig = self.w2.rig = self.rig
        self.box = Box(self.home, OrderWire(self.rig, self.sent), self.rig.clock)

    def stop_hub(self) -> None:
        self.hub_task.cancel()
        for member in self.rig.registry.members.values():
            member.bell.ring()
        self.rig.store.close()

    def start_hub(self) -> None:
        self.rig = Rig(self.loop, before=self.rig, store=self._ledger())
        self._connect()

    def _bend(self, answer: CheckInAnswer) -> CheckInAnswer:
        if self.withholds:
            answer = replace(answer, own_pulse=None)
        if self.owned:
            answer = replace(answer, orders=(*answer.orders, *(Delivered(9, one) for one in self.sent)))
        return answer

    # ---- the nodes

    async def start_agent(self) -> None:
        self.agent = self.machine.start()
        self.task = self.loop.create_task(self.agent.run())
        await asyncio.sleep(0)

    async def stop_agent(self) -> None:
        assert self.task is not None
        self._note()
        await kill(self.agent, self.task)
        self.machine.close()

    def _note(self) -> None:
        seen = self.agent.accepting.seen
        self.accepted.setdefault(seen.number, set()).add(seen.digest)

    async def both_follow(self) -> None:
        """w1 and w2 accept the head and report it."""
        await self.until(lambda: self.agent.accepting.seen == self.rig.head)
        self._note()
        await self.w2_reports()
        await asyncio.sleep(1)

    async def w2_reports(self) -> None:
        if self.rig.head.number > self.w2.seen.number:
            self.w2.seen = self.rig.head
        await self.w2.beat(self.w2.a_report())

    # ---- what happens

    async def until(self, true: Any, at_most_s: float = 120.0) -> None:
        end_s = self.loop.time() + at_most_s
        while not true():
            assert self.loop.time() < end_s, "it never came true"
            await asyncio.sleep(0.05)

    def ran(self) -> Counter[str]:
        """How often each order ran to its end, over all starts."""
        return Counter(str(fields["order"]) for event, fields in self.machine.said if event == "order_ended")

    def lasting(self) -> set[str]:
        return {order.id for order in map(_order, self.sent) if order.after_restart}

    async def ordered(self, *words: str) -> str:
        """A command that submits one order; waits until its node answered. The outcome and code."""
        before = len(self.sent)
        self.does(*words)
        (signed,) = self.sent[before:]
        id = decode_order(signed.order).id
        await self.until(lambda: self.view(id).result is not None)
        result = self.view(id).result
        assert result is not None
        return result.code or result.outcome

    def view(self, id: str) -> OrderView:
        return next(view for view in self.rig.desk.orders("w1", 200).orders if view.id == id)

    def findings(self) -> set[str]:
        """Codes in the newest report that w1 signed."""
        said = [message.report for message in self.machine.link.said if message.report]
        report = msgspec.json.decode(said[-1], type=Report) if said else None
        return {finding.code for finding in report.findings} if report is not None else set()

    async def told(self, code: str) -> None:
        await self.until(lambda: code in self.findings(), TOLD_S)

    # ---- commands

    def does(self, *words: str, code: int = 0) -> str:
        self.write()
        for stream in (self.box.out, self.box.err):
            stream.seek(0)
            stream.truncate()
        found = main.run([*words, "--fleet", str(self.directory), "--hub", HUB, "--yes"], self.box)
        assert found == code, (words, found, self.box.out.getvalue(), self.box.err.getvalue())
        return self.box.out.getvalue()

    def fails(self, code: int, *words: str) -> dict[str, str]:
        self.does(*words, "--json", code=code)
        trouble: dict[str, str] = json.loads(self.box.err.getvalue().strip().splitlines()[-1])
        assert trouble["remedy"]
        return trouble

    # ---- copies

    def _paths(self, part: str) -> list[Path]:
        hub, state = self.home / "hub", self.home / "w1"
        return {
            "state": [state],
            "agent.db": [state / f"agent.db{end}" for end in ("", "-wal", "-shm")],
            "secrets": [self.directory / "secrets"],
            "ledger": [hub],
            "fleet.lock": [self.directory / "fleet.lock"],
        }[part]

    def copy(self, name: str, parts: Sequence[str] = PARTS) -> None:
        """Of files that no process has open."""
        for part in parts:
            for path in self._paths(part):
                target = self.home / "copies" / name / part / path.name
                target.parent.mkdir(parents=True, exist_ok=True)
                if path.is_dir():
                    shutil.copytree(path, target)
                elif path.exists():
                    shutil.copy2(path, target)

    def put_back(self, name: str, parts: Sequence[str]) -> None:
        for part in parts:
            for path in self._paths(part):
                source = self.home / "copies" / name / part / path.name
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
                if source.is_dir():
                    shutil.copytree(source, path)
                elif source.exists():
                    shutil.copy2(source, path)


def _order(signed: SignedOrder) -> Any:
    return decode_order(signed.order)
