"""Orders at the agent: verified, gated, durable before acting, run once whatever is replayed, lost or restarted."""

import asyncio
from collections.abc import Callable, Coroutine
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.agent.agent import Agent
from holdfast.agent.traffic.certificates.node import NodeCertificates
from holdfast.errors import Failed, NotPermitted
from holdfast.model import canonical
from holdfast.model.audit import Event
from holdfast.model.order import (
    ACTIONS,
    FORMAT,
    NAMESPACE,
    Delivered,
    HubOrder,
    Order,
    OrderResult,
    SignedOrder,
    VerifiedOrder,
)
from holdfast.model.report import Report, SignedPulse
from tests.fleets.agents import Lone, PaperHub, turn
from tests.fleets.build import ALICE, ALICE_SIGNER, START_S, operator_signer, small_fleet
from tests.fleets.desks import key_of
from tests.fleets.lives import pulse_of
from tests.fleets.virtual import VirtualLoop, run
from tests.scenarios.test_agent_accepts import chain

CAROL, CAROL_SIGNER = operator_signer("carol", "apply")
CANDIDATES = chain((small_fleet({"web": 1}, ("w1",), (ALICE, CAROL)), ALICE_SIGNER))
RESUMED = {  # actions that a crash does not end
    "stop",
    "force-cleanup",
    "purge",
    "adopt",
    "resync",
    "restore-checkpoint",
    "delete-checkpoint",
    "restore-retired",
    "restore",
    "fetch-backup",
    "revoke-grant",
}
FLEET = canonical.digest(CANDIDATES[0].blobs[msgspec.json.decode(CANDIDATES[0].header)["trust"]])


def order(
    action: str = "purge",
    target: str = "data.old",
    counter: int = 1,
    signer: Any = ALICE_SIGNER,
    at_s: float = START_S,
    expires_s: float = 900,
    node: str = "w1",
    pulse: SignedPulse | None = None,
    after_restart: bool = False,
) -> SignedOrder:
    arguments = canonical.encode({"now": "yes"} if action == "purge" else {})
    name = sha256(f"{node} {action} {target} {counter}".encode()).hexdigest()[:32]
    content = canonical.encode(
        Order(
            FORMAT, FLEET, name, node, target, action, canonical.digest(arguments), counter, name, int(at_s),
            int(at_s + expires_s), pulse or pulse_of(FLEET, node, key_of(node), at_s), after_restart,
        )
    )  # fmt: skip
    return SignedOrder(content, arguments, (signer.sign(content, NAMESPACE),))


def id_of(signed: SignedOrder) -> str:
    return str(msgspec.json.decode(signed.order)["id"])


class Scene:
    """A node that has accepted the fleet and keeps data of `old` and `db`, which are not applied."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.hub = PaperHub(*CANDIDATES)
        self.lone = Lone(loop, self.hub)
        self.lone.storage.contents = {"old": {"a": b"1", "b": b"22"}, "db": {"c": b"3"}}

    async def ready(self) -> Agent:
        return await self.lone.turned()

    @property
    def data(self) -> dict[str, dict[str, bytes]]:
        return self.lone.storage.contents

    def results(self, order: str) -> list[OrderResult]:
        return [result for message in self.hub.said for result in message.results if result.id == order]


def play(scene: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        await scene(Scene(loop))

    run(main)


async def deliver(agent: Agent, scene: Scene, *orders: SignedOrder | HubOrder, attempt: int = 1) -> None:
    for one in orders:
        hub = one if isinstance(one, HubOrder) else None
        scene.hub.orders.append(Delivered(attempt, one if isinstance(one, SignedOrder) else None, hub))
    await turn(agent)
    await turn(agent)


def test_a_signed_purge_destroys_that_data_and_nothing_else() -> None:
    async def scene(s: Scene) -> None:
        agent = await s.ready()
        purge = order()
        await deliver(agent, s, purge)
        assert s.data == {"db": {"c": b"3"}} and s.lone.storage.destroyed == ["old"]
        assert [r.outcome for r in s.results(id_of(purge))][:1] == ["done"]
        assert [e for e in s.lone.audited() if e[0] == "purge"] == [
            ("purge", "data.old", "begun"),
            ("purge", "data.old", "done"),
        ]
        assert [step.name for step in s.lone.journal.entries()[0].steps] == ["measured", "condemned", "destroyed"]
        assert s.lone.journal.unsent(10) == []  # the hub has it; it is not sent for ever

    play(scene)


def test_the_same_order_a_thousand_times_fifty_at_once_has_one_effect() -> None:
    """S08, I-03, I-27: also after a restart, and under every lease number; each time the kept result."""

    async def scene(s: Scene) -> None:
        agent = await s.ready()
        purge = order()
        await deliver(agent, s, *(purge for _ in range(50)))
        s.data["old"] = {"made": b"later"}
        for attempt in range(2, 22):
            await deliver(agent, s, *(purge for _ in range(50)), attempt=attempt)
            if attempt == 10:
                agent = await s.lone.turned()
        assert s.lone.storage.destroyed == ["old"]
        assert s.data["old"] == {"made": b"later"}
        answered = s.results(id_of(purge))
        assert {r.outcome for r in answered} == {"done"} and answered[-1].attempt == 21
        assert len([e for e in s.lone.audited() if e == ("purge", "data.old", "done")]) == 1

    play(scene)


@pytest.mark.parametrize("skew_s", [-86_400.0, -61.0, 10 * 365 * 86_400.0])
def test_an_order_is_run_once_whatever_the_clock_says(skew_s: float) -> None:
    """S08 clock rows, W16: the clock jumps and comes back; expired never runs, once never becomes twice."""

    async def scene(s: Scene) -> None:
        agent = await s.ready()
        await deliver(agent, s, order())
        s.data["old"] = {"made": b"later"}
        for move_s in (skew_s, 0.0):
            s.lone.clock.skew_s = move_s
            await deliver(agent, s, order(), attempt=2)
            agent = await s.lone.turned()
            await deliver(agent, s, order(), attempt=3)
        assert s.lone.storage.destroyed == ["old"] and s.data["old"] == {"made": b"later"}
        # an order that expired while the clock was wrong does not come to life when it is set back
        stale = order(target="data.db", counter=2, expires_s=600)
        await asyncio.sleep(700)
        await turn(agent)  # the floor has risen with time that passed here
        s.lone.clock.skew_s = -86_400.0
        await deliver(agent, s, stale)
        again = await s.lone.turned()
        await deliver(again, s, stale, attempt=2)
        assert "db" in s.data
        assert {r.code for r in s.results(id_of(stale))} == {"expired"}

    play(scene)


def test_a_clock_that_is_a_minute_off_runs_the_order_and_raises_an_alarm() -> None:
    """S08: within ±60 s it runs; more than 30 s is told."""

    async def scene(s: Scene) -> None:
        agent = await s.ready()
        s.lone.clock.skew_s = -45.0
        await deliver(agent, s, order())
        assert s.lone.storage.destroyed == ["old"]
        assert [f.code for f in agent.findings.all()] == ["clock_skew"]
        s.lone.clock.skew_s = 0.0
        await turn(agent)
        assert agent.findings.all() == ()

    play(scene)


REFUSED: dict[str, tuple[SignedOrder, str]] = {
    "grade too low": (order(signer=CAROL_SIGNER), "signature_required"),
    "a stranger": (order(signer=operator_signer("eve")[1]), "unknown_signer"),
    "another node": (order(node="w2"), "other_node"),
    "expired": (order(at_s=START_S - 1000), "expired"),
    "not yet": (order(at_s=START_S + 600), "not_yet_valid"),
    "an unknown action": (order(action="explode"), "unknown_action"),
    "not built": (order(action="exec", target="service.web"), "not_built"),
    "a path": (order(target="data.../etc"), "target_mismatch"),
    "a counter far ahead": (order(counter=2**30), "counter_leap"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_hold_is_refused_audited_once_and_changes_nothing(name: str) -> None:
    """I-02, I-03, W10; n+1: an action of a newer release is refused, not a crash."""

    async def scene(s: Scene) -> None:
        signed, code = REFUSED[name]
        agent = await s.ready()
        for attempt in range(1, 6):
            await deliver(agent, s, signed, attempt=attempt)
        assert set(s.data) == {"old", "db"} and s.lone.storage.destroyed == []
        answered = s.results(id_of(signed))
        assert {(r.outcome, r.code) for r in answered} == {("refused", code)}
        assert all(r.remedy for r in answered) and answered[-1].attempt == 5
        assert [e[2] for e in s.lone.audited() if e[0] != "accept"] == ["refused"]
        assert s.lone.journal.entries() == []

    play(scene)


def test_a_counter_that_was_used_is_used_for_every_other_order_too() -> None:
    """W16, D29"""

    async def scene(s: Scene) -> None:
        agent = await s.ready()
        other = order(target="data.db")
        await deliver(agent, s, order(), other)
        assert set(s.data) == {"db"} and s.results(id_of(other))[-1].code == "replayed"

    play(scene)


def test_the_gate_is_asked_even_if_verifying_were_fooled(monkeypatch: pytest.MonkeyPatch) -> None:
    """design §2, I-02: two locks on one door; a proof of too low a grade opens only the first."""
    monkeypatch.setattr(
        "holdfast.agent.orders.order_gate.rules.verify",
        lambda signed, *given: VerifiedOrder(msgspec.json.decode(signed.order, type=Order), {}, "apply", ()),
    )

    async def scene(s: Scene) -> None:
        agent = await s.ready()
        await deliver(agent, s, order())
        assert set(s.data) == {"old", "db"}
        assert s.results(id_of(order()))[-1].code == "signature_required"
        assert "order sign" in s.results(id_of(order()))[-1].remedy

    play(scene)


def test_a_hub_alone_gets_what_is_on_its_list_and_no_more() -> None:
    """design §3, I-02, I-04: renew twice an hour, counted across restarts; never a purge."""

    async def scene(s: Scene) -> None:
        agent = await s.ready()
        asked = [HubOrder(f"{n:032x}", "w1", "renew-certificate") for n in range(3)]
        await deliver(agent, s, *asked[:2])
        agent = await s.lone.turned()
        await deliver(agent, s, asked[2])
        got = [s.results(one.id)[-1] for one in asked]
        assert [(r.outcome, r.code) for r in got] == [("done", ""), ("done", ""), ("refused", "resource_exhausted")]
        await asyncio.sleep(3601)
        await turn(agent)
        fresh = HubOrder("f" * 32, "w1", "renew-certificate")
        await deliver(agent, s, fresh)
        assert s.results(fresh.id)[-1].outcome == "done"
        for action in sorted(set(ACTIONS) | {"explode"}):
            wish = HubOrder(
                sha256(action.encode()).hexdigest()[:32], "w1", action, "data.old" if action == "purge" else ""
            )
            if action in ACTIONS and ACTIONS[action].hub_may and ACTIONS[action].built:
                continue
            await deliver(agent, s, wish)
            assert s.results(wish.id)[-1].outcome == "refused", action
        assert set(s.data) == {"old", "db"}

    play(scene)


def test_ping_answers_and_check_in_sends_the_whole_report() -> None:
    async def scene(s: Scene) -> None:
        agent = await s.ready()
        before = len([m for m in s.hub.said if m.report])
        ping, look = HubOrder("1" * 32, "w1", "ping"), HubOrder("2" * 32, "w1", "check-in")
        await deliver(agent, s, ping, look)
        assert [s.results(one.id)[0].outcome for one in (ping, look)] == ["done", "done"]
        assert len([m for m in s.hub.said if m.report]) > before
        assert s.lone.journal.entries() == []  # nothing to remember

    play(scene)


class Breaking(MemoryJournal):
    """Dies, or finds the disk full, at its n-th write."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 10**9
        self.trouble: type[BaseException] = asyncio.CancelledError

    def _write(self) -> None:
        self.left -= 1
        if self.left < 0:
            if self.trouble is Failed:
                raise Failed("no space is left", remedy="free some", code="no_space")
            raise Killed

    def begin(self, *given: Any) -> bool:
        self._write()
        return super().begin(*given)

    def step(self, *given: Any) -> None:
        self._write()
        super().step(*given)

    def finish(self, *given: Any) -> None:
        self._write()
        super().finish(*given)

    def forget_made(self, path: str) -> None:
        self._write()
        super().forget_made(path)


class Killed(BaseException):
    """kill -9: nothing after it happens."""


@pytest.mark.parametrize("at", range(6))
def test_killed_at_any_write_the_next_start_ends_it_with_one_effect(at: int) -> None:
    """S08, style §13: resumed from its steps; a directory made since under that name is not touched."""

    async def scene(s: Scene) -> None:
        s.lone.journal = journal = Breaking()
        agent = await s.ready()
        journal.left = at
        s.hub.orders.append(Delivered(1, order()))
        died = False
        try:
            await agent.turn()
        except Killed:
            died = True
        died = (
            died or any(t.done() and isinstance(_end(t), Killed) for t in list(agent.lanes.running)) or journal.left < 0
        )
        if not died:
            assert at == 5, "every write was one at which it could die"
        journal.left = 10**9
        if "old" not in s.data and any(step.name == "condemned" for e in journal.unfinished() for step in e.steps):
            s.data["old"] = {"made": b"since"}
        agent = s.lone.start()
        task = asyncio.ensure_future(agent.run())
        await asyncio.sleep(1)
        s.hub.orders.append(Delivered(2, order()))
        await asyncio.sleep(30)
        task.cancel()
        assert s.lone.storage.destroyed == ["old"]
        assert s.data.get("old", {"made": b"since"}) == {"made": b"since"}
        assert not [name for name in s.data if name.startswith(".purging")]
        assert s.results(id_of(order()))[-1].outcome == "done"
        assert journal.unfinished() == []
        s.lone.audit.verify()

    play(scene)


def _end(task: "asyncio.Task[None]") -> BaseException | None:
    return None if task.cancelled() else task.exception()


def test_with_a_full_disk_nothing_is_done_and_nothing_is_called_done() -> None:
    """R06: without a journal no act; no answer either, so that the lease brings it again; and it says so."""

    async def scene(s: Scene) -> None:
        s.lone.journal = journal = Breaking()
        journal.trouble = Failed
        agent = await s.ready()
        journal.left = 0
        await deliver(agent, s, order())
        assert "old" in s.data and s.results(id_of(order())) == []
        assert [f.code for f in agent.findings.all()] == ["order_waits"]
        report = msgspec.json.decode([m.report for m in s.hub.said if m.report][-1], type=Report)
        assert report.findings[0].message == "no space is left"
        journal.left = 10**9
        await deliver(agent, s, order(), attempt=2)
        assert s.lone.storage.destroyed == ["old"] and agent.findings.all() == ()
        assert s.results(id_of(order()))[-1].outcome == "done"

    play(scene)


def test_data_that_cannot_be_looked_at_is_refused_and_holds_up_nobody() -> None:
    """A link in place of the directory: this order is refused, the next one runs."""

    async def scene(s: Scene) -> None:
        agent = await s.ready()
        look = s.lone.storage.directory

        def looked(name: str) -> Any:
            if name == "db":
                raise NotPermitted("it is a link", remedy="look at it", code="not_a_plain_directory")
            return look(name)

        s.lone.storage.directory = looked  # type: ignore[method-assign]
        strange = order(target="data.db")
        await deliver(agent, s, strange, order(counter=2))
        assert s.results(id_of(strange))[-1].code == "not_a_plain_directory"
        assert s.lone.storage.destroyed == ["old"]

    play(scene)


def test_a_full_disk_does_not_silence_an_agent() -> None:
    """I-39: heartbeats go on with a journal that takes nothing any more; and it says what is wrong."""

    class Full(MemoryJournal):
        full = False

        def set_aside(self, name: str, value: bytes) -> None:
            if self.full:
                raise Failed("no space is left", remedy="free some", code="no_space")
            super().set_aside(name, value)

    async def scene(s: Scene) -> None:
        s.lone.journal = journal = Full()
        agent = await s.ready()
        task = asyncio.ensure_future(agent.run())
        journal.full = True
        before = len(s.hub.said)
        await asyncio.sleep(600)
        task.cancel()
        assert len([m for m in s.hub.said[before:] if m.heartbeat]) >= 19

    play(scene)


def test_what_was_done_is_not_called_done_before_that_is_written() -> None:
    async def scene(s: Scene) -> None:
        s.lone.journal = journal = Breaking()
        journal.trouble = Failed
        agent = await s.ready()
        task = asyncio.ensure_future(agent.run())
        journal.left = 4  # begin, measured, condemned, destroyed; finish fails
        s.hub.orders.append(Delivered(1, order()))
        await asyncio.sleep(25)
        assert s.lone.storage.destroyed == ["old"] and s.results(id_of(order())) == []
        assert "state_unwritable" in [f.code for f in agent.findings.all()]
        journal.left = 10**9
        await asyncio.sleep(60)
        task.cancel()
        assert s.results(id_of(order()))[-1].outcome == "done"

    play(scene)


def test_without_an_audit_log_no_act() -> None:
    """I-38: what cannot be written down is not done."""

    class Deaf:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def append(self, event: Event, durable: bool = True) -> Any:
            if event.action == "purge":
                raise Failed("the audit log cannot be written", remedy="free space", code="no_space")
            return self._inner.append(event, durable)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    async def scene(s: Scene) -> None:
        s.lone.audit = Deaf(s.lone.audit)
        agent = s.lone.start()
        task = asyncio.ensure_future(agent.run())
        s.hub.orders.append(Delivered(1, order()))
        await asyncio.sleep(30)
        task.cancel()
        assert "old" in s.data and s.lone.storage.destroyed == []

    play(scene)


def test_one_lane_one_at_a_time_and_lanes_beside_each_other() -> None:
    """V-44: serial within a service, parallel across; a slow service does not hold up the next one."""

    async def scene(s: Scene) -> None:
        running: list[str] = []
        most: dict[str, int] = {"all": 0}

        class Slow(NodeCertificates):
            async def renew(self) -> str:
                running.append("x")
                most["all"] = max(most["all"], len(running))
                await asyncio.sleep(50)
                running.pop()
                return "done"

        s.lone.certificates = Slow(s.lone.issuer, s.lone.clock)
        agent = s.lone.start()
        task = asyncio.ensure_future(agent.run())
        await asyncio.sleep(1)
        for counter in (1, 2, 3):
            s.hub.orders.append(Delivered(1, order("renew-certificate", "node.w1", counter)))
        s.hub.orders.append(Delivered(1, order(counter=4)))
        await asyncio.sleep(20)
        assert s.lone.storage.destroyed == ["old"], "another lane waited"
        assert most["all"] == 1
        await asyncio.sleep(200)
        task.cancel()
        assert [len(s.results(id_of(order("renew-certificate", "node.w1", c)))) > 0 for c in (1, 2, 3)] == [True] * 3

    play(scene)


def test_every_action_that_is_built_says_what_a_crash_means_for_it() -> None:
    """`deploy` and `retire` are the agent's own operations, not orders."""

    async def scene(s: Scene) -> None:
        await s.ready()
        acts = {**s.lone.built.reporter.acts, **s.lone.built.life.acts, **s.lone.built.keepers.acts()}
        assert set(acts) == {action for action, rule in ACTIONS.items() if rule.built} | {"deploy", "retire"}
        assert all(act.why for act in acts.values())
        assert {kind for kind, act in acts.items() if act.perform is None} == {"deploy", "retire"}
        assert {kind for kind, act in acts.items() if act.after_crash == "resume"} == RESUMED

    play(scene)
