"""S07 and S08 at a whole agent: a hub that says anything, replays anything and lies about time destroys nothing.

I-02, I-03, I-27, H-33, W16. The agent is the real one over memory adapters; the hub's answers are bent on their way.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256

import pytest
from msgspec.structs import replace

from holdfast.adapters.signer.memory import MemorySigner
from holdfast.agent.agent import Agent
from holdfast.model import canonical
from holdfast.model.checkin import CheckInAnswer
from holdfast.model.order import (
    ACTIONS,
    FORMAT,
    NAMESPACE,
    Delivered,
    HubOrder,
    Order,
    SignedOrder,
)
from tests.fleets.agents import Machine, until
from tests.fleets.build import ALICE, ALICE_SIGNER, operator_signer, small_fleet
from tests.fleets.counts import SOAK
from tests.fleets.desks import Rig, key_of
from tests.fleets.lives import pulse_of
from tests.fleets.virtual import VirtualLoop, run

LOW, LOW_SIGNER = operator_signer("low", "apply")
_, STRANGER = operator_signer("stranger")
DATA = {"db": {"a": b"1"}, "old": {"precious": b"2"}}
DAY_S, YEARS_S = 86_400.0, 10 * 365 * 86_400.0
REPLAYS = 1000


def hexed(word: str) -> str:
    return sha256(word.encode()).hexdigest()[:32]


NOW = b'{"now":"yes"}'  # a purge that destroys at once: the effect that is counted


def signed(order: Order | bytes, *signers: MemorySigner, namespace: str = NAMESPACE) -> SignedOrder:
    content = order if isinstance(order, bytes) else canonical.encode(order)
    return SignedOrder(content, NOW, tuple(s.sign(content, namespace) for s in signers))


def purge(rig: Rig, word: str = "J", counter: int = 1, **changed: object) -> Order:
    now_s = rig.now_s()
    whole = Order(
        FORMAT,
        rig.fleet_id,
        hexed(word),
        "w1",
        "data.old",
        "purge",
        canonical.digest(NOW),
        counter,
        hexed(f"nonce {word}"),
        now_s,
        now_s + 900,
        pulse_of(rig.fleet_id, "w1", key_of("w1"), now_s),
    )
    return replace(whole, **changed)


class Stage:
    """One hub, one machine with data on it, and whatever is to be slipped into the next answers."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.rig = Rig(loop, small_fleet(nodes=("w1", "w2"), operators=(ALICE, LOW)))
        self.machine = Machine(self.rig, "w1")
        self.machine.storage.contents.update({name: dict(files) for name, files in DATA.items()})
        self.machine.link.bend = self._slip
        self.waiting: list[Delivered] = []
        self.attempt = 0
        self.agent: Agent | None = None
        self._task: asyncio.Task[None] | None = None

    def _slip(self, answer: CheckInAnswer) -> CheckInAnswer:
        now, self.waiting = self.waiting[:32], self.waiting[32:]
        return replace(answer, orders=(*answer.orders, *now))

    async def start(self) -> None:
        self.agent = self.machine.start()
        self._task = asyncio.ensure_future(self.agent.run())
        agent = self.agent
        await until(self.rig, lambda: agent.accepting.seen == self.rig.head)

    async def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def slip(self, *orders: SignedOrder | HubOrder) -> None:
        """Into the answers that come, and then long enough for everything to have been judged and run."""
        for order in orders:
            self.attempt += 1
            known = isinstance(order, SignedOrder)
            self.waiting.append(
                Delivered(self.attempt, order if known else None, None if known else order)  # type: ignore[arg-type]
            )
        await until(self.rig, lambda: not self.waiting, 3600.0)
        await asyncio.sleep(15)

    @property
    def destroyed(self) -> list[str]:
        return self.machine.storage.destroyed

    def untouched(self) -> bool:
        return self.machine.storage.contents == DATA and not self.destroyed


def staged(play: Callable[[Stage], object]) -> None:
    async def main(loop: VirtualLoop) -> None:
        stage = Stage(loop)
        await stage.start()
        await play(stage)  # type: ignore[misc]
        await stage.stop()

    run(main)


def spoiled(rig: Rig) -> Iterator[SignedOrder]:
    good = signed(purge(rig), ALICE_SIGNER)
    value, text = json.loads(good.order), good.order.decode()
    for field, other in {
        "node": "w2",
        "target": "data.db",
        "action": "decommission",
        "counter": 99,
        "nonce": hexed("x"),
        "id": hexed("y"),
        "fleet": hexed("z") * 2,
        "arguments": hexed("z") * 2,
        "not_before_s": value["not_before_s"] - 1,
        "expires_s": value["expires_s"] + 1,
        "format": 3,
    }.items():
        changed = canonical.encode(value | {field: other})
        yield replace(good, order=changed)
        if field not in ("counter", "nonce", "id", "not_before_s", "expires_s", "target", "action"):
            yield signed(changed, ALICE_SIGNER)  # well signed, and still not for here
    for at in range(0, len(good.order), 5):
        content = bytearray(good.order)
        content[at] ^= 1
        yield replace(good, order=bytes(content))
    for at in range(30, len(good.signatures[0]) - 30, 12):
        armour = good.signatures[0]
        yield replace(good, signatures=(armour[:at] + chr(ord(armour[at]) ^ 1) + armour[at + 1 :],))
    yield replace(good, signatures=())
    yield replace(good, arguments=b'{"a":"b"}')
    yield signed(good.order, STRANGER)
    yield signed(good.order, ALICE_SIGNER, STRANGER)
    yield signed(good.order, LOW_SIGNER)
    for namespace in ("holdfast-revision", "holdfast-invite", "file"):
        yield signed(good.order, ALICE_SIGNER, namespace=namespace)
    for spelling in (
        text + " ",
        " " + text,
        text.replace(",", ", "),
        text.replace("purge", "\\u0070urge"),
        text.replace('"counter":1', '"counter":1.0'),
        text.replace('"counter":1', '"counter":1,"counter":1'),
        text.replace('"counter":1', '"counter":' + "9" * 300),
        text[:-1] + ',"scratch":true}',
    ):
        assert spelling != text
        yield signed(spelling.encode(), ALICE_SIGNER)
    now_s = rig.now_s()
    yield signed(purge(rig, not_before_s=now_s - 1000, expires_s=now_s - 1), ALICE_SIGNER)
    yield signed(purge(rig, not_before_s=now_s + 4000, expires_s=now_s + 4900), ALICE_SIGNER)
    yield signed(purge(rig, expires_s=now_s + 8 * 86_400), ALICE_SIGNER)
    yield signed(purge(rig, counter=0), ALICE_SIGNER)
    yield signed(purge(rig, counter=2**40), ALICE_SIGNER)


def test_of_all_spoiled_orders_none_has_an_effect_and_the_untouched_has_one_s07() -> None:
    async def play(stage: Stage) -> None:
        cases = list(spoiled(stage.rig))
        assert len(cases) >= 120
        await stage.slip(*cases)
        assert stage.untouched(), "a spoiled order had an effect"
        await stage.slip(signed(purge(stage.rig, "fresh"), ALICE_SIGNER))
        assert stage.destroyed == ["old"] and "db" in stage.machine.storage.contents
        assert ("purge", "data.old", "done") in stage.machine.audited()

    staged(play)


def test_a_hub_alone_can_make_an_agent_do_nothing_that_loses_i_02() -> None:
    """Every action there is, unsigned, for every target: nothing shrinks (M-18 as C-07 tightens it)."""

    async def play(stage: Stage) -> None:
        asked = [
            HubOrder(hexed(f"{action} {target}"), "w1", action, target)
            for action in (*ACTIONS, "wipe", "")
            for target in ("", "node.w1", "data.old", "service.web", "data.*", "../web")
        ]
        await stage.slip(*asked)
        assert stage.untouched()
        unsigned = [
            signed(purge(stage.rig, action, action=action, target=t)) for action in ACTIONS for t in ("data.old",)
        ]
        await stage.slip(*unsigned)
        assert stage.untouched()

    staged(play)


def test_an_order_has_one_effect_however_often_it_comes_s08() -> None:
    """A thousand times, after a restart, with the clock a day back, ten years ahead and right again, after expiry."""

    async def play(stage: Stage) -> None:
        order = signed(purge(stage.rig), ALICE_SIGNER)
        await stage.slip(order)
        assert stage.destroyed == ["old"]
        stage.machine.storage.contents["old"] = dict(DATA["old"])  # somebody put it back: a second run would show

        await stage.slip(*(order,) * REPLAYS)
        await stage.stop()
        await stage.start()
        await stage.slip(order)
        for skew_s in (-DAY_S, YEARS_S, 0.0):
            stage.machine.clock.skew_s = skew_s
            await stage.slip(order)
            await stage.stop()
            await stage.start()
            await stage.slip(order)
        await asyncio.sleep(1000)  # expired by now
        await stage.slip(order)
        assert stage.destroyed == ["old"] and stage.machine.storage.contents == DATA

        # Another text with a used counter or a used nonce is the same order to a journal.
        again = purge(stage.rig, "K", counter=1)
        same_nonce = replace(purge(stage.rig, "L", counter=2), nonce=hexed("nonce J"))
        await stage.slip(signed(again, ALICE_SIGNER), signed(same_nonce, ALICE_SIGNER))
        assert stage.destroyed == ["old"]
        await stage.slip(signed(purge(stage.rig, "M", counter=3), ALICE_SIGNER))
        assert stage.destroyed == ["old", "old"], "a new order still runs"

    staged(play)


@pytest.mark.parametrize(("good_for_s", "back_s"), [(900, 600.0), (100_000, DAY_S)] if SOAK else [(900, 600.0)])
def test_a_clock_set_back_revives_no_expired_order_s08(good_for_s: int, back_s: float) -> None:
    """Set back into the time in which it was good, while running and across a restart."""

    async def play(stage: Stage) -> None:
        order = signed(purge(stage.rig, expires_s=stage.rig.now_s() + good_for_s), ALICE_SIGNER)
        await asyncio.sleep(good_for_s + 1)
        for skew_s in (0.0, -back_s):
            stage.machine.clock.skew_s = skew_s
            await stage.slip(order)
            assert stage.untouched(), f"an expired order ran with the clock {skew_s} s off"
        await stage.stop()
        await stage.start()
        await stage.slip(order)
        assert stage.untouched(), "an expired order ran after a restart with the clock set back"

    staged(play)


def test_a_leap_of_ten_years_and_back_leaves_orders_working_and_is_told_s08() -> None:
    async def play(stage: Stage) -> None:
        stage.machine.clock.skew_s = YEARS_S
        await asyncio.sleep(120)
        order = signed(purge(stage.rig), ALICE_SIGNER)
        await stage.slip(order)
        assert stage.untouched(), "ten years ahead, everything has expired"
        assert stage.agent is not None and stage.agent.time.alarm is not None
        stage.machine.clock.skew_s = 0.0
        await asyncio.sleep(120)
        assert stage.agent.time.alarm is None
        await stage.slip(signed(purge(stage.rig, "after"), ALICE_SIGNER))
        assert stage.destroyed == ["old"]

    staged(play)


def test_a_clock_within_sixty_seconds_runs_a_valid_order_and_more_than_thirty_is_told_s08() -> None:
    for skew_s, told in ((25.0, False), (-25.0, False), (55.0, True), (-55.0, True)):

        async def play(stage: Stage, skew_s: float = skew_s, told: bool = told) -> None:
            stage.machine.clock.skew_s = skew_s
            await asyncio.sleep(60)
            await stage.slip(signed(purge(stage.rig), ALICE_SIGNER))
            assert stage.destroyed == ["old"], skew_s
            assert stage.agent is not None and (stage.agent.time.alarm is not None) is told, skew_s

        staged(play)
