"""X05: what an agent notes about its starts, and that a restart forgets none of it."""

import asyncio
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.agent.orders.order_life import OrderLife
from holdfast.errors import NotPermitted
from holdfast.model.report import SignedPulse
from tests.fleets.lives import pulse_of
from tests.fleets.orders import FLEET, NODE, NOW_S, purge

KEY, OTHER = (MemoryIdentityKey(sha256(word).digest()) for word in (b"key of w1", b"another key"))
LOST = "f" * 32  # a life that no journal knows


class Findings:
    def __init__(self) -> None:
        self.shown: dict[str, str] = {}

    def add(self, code: str, message: str, remedy: str) -> None:
        self.shown[code] = remedy

    def clear(self, code: str) -> None:
        self.shown.pop(code, None)


class Node:
    def __init__(self) -> None:
        self.journal, self.starts = MemoryJournal(), 0
        self.said: list[str] = []
        self.now_s = NOW_S
        self.start()

    def start(self) -> OrderLife:
        self.starts += 1
        self.findings = Findings()
        parts: dict[str, Any] = {
            "time": SimpleNamespace(now_s=lambda: self.now_s),
            "findings": self.findings,
            "say": lambda event, fields: self.said.append(event),
        }
        random = SeededRandom(f"start {self.starts}")
        self.life = OrderLife(journal=self.journal, random=random, key=KEY, fleet=FLEET, node=NODE, **parts)
        return self.life

    def pulse(self, life: str = "", counter: int = 6, key: MemoryIdentityKey = KEY) -> SignedPulse:
        return pulse_of(FLEET, NODE, key, self.now_s, life or self.life.noted(), counter)

    def code(self, action: str = "purge", counter: int = 7, **changed: Any) -> str:
        order = purge(action=action, counter=counter, **{"pulse": self.pulse(counter=0), **changed})
        proof: Any = SimpleNamespace(order=order)
        found = self.life.refusal(proof)
        return found.code if found is not None else ""

    def resync(self, counter: int = 9) -> None:
        run: Any = SimpleNamespace(proof=SimpleNamespace(order=purge(action="resync", counter=counter)))
        perform = self.life.acts["resync"].perform
        assert perform is not None

        async def main() -> None:
            await perform(run)

        asyncio.run(main())


def test_a_node_that_was_put_back_is_so_also_after_a_restart() -> None:
    node = Node()
    node.life.heard(node.pulse(LOST, counter=40))
    for _ in range(2):
        assert node.findings.shown == {"resync_needed": "holdfast resync w1"} and node.life.counter() == 40
        assert node.code() == "resync_needed" and node.code("resync") == ""
        node.start()
    assert node.said == ["resync_needed"]


def test_a_resync_holds_also_after_a_restart() -> None:
    node = Node()
    node.life.heard(node.pulse(LOST, counter=40))
    node.resync(9)
    for _ in range(2):
        assert node.findings.shown == {} and node.life.counter() == 40, "the journal itself has used none"
        assert [node.code(counter=counter) for counter in (9, 40, 41)] == ["replayed", "replayed", ""]
        node.life.heard(pulse_of(FLEET, NODE, KEY, NOW_S - 1, LOST))
        assert node.findings.shown == {}, "a pulse from before the resync proves nothing"
        node.start()


def test_the_order_that_resyncs_counts_too() -> None:
    node = Node()
    node.life.heard(node.pulse(LOST, counter=3))
    node.resync(9)
    assert [node.code(counter=counter) for counter in (9, 10)] == ["replayed", ""]


def test_a_pulse_that_another_key_signed_proves_nothing() -> None:
    node = Node()
    node.life.heard(node.pulse(LOST, key=OTHER))
    assert node.findings.shown == {} and node.said == []
    with pytest.raises(NotPermitted):
        node.code(pulse=node.pulse(LOST, key=OTHER))


def test_a_life_is_in_the_journal_before_a_pulse_has_it() -> None:
    node = Node()
    first = node.life.noted()
    assert node.life.noted() == first and (node.journal.fact("lives") or b"").count(first.encode()) == 1
    node.life.heard(node.pulse(first, counter=0))
    second = node.start()
    second.heard(node.pulse(first, counter=0))
    assert node.findings.shown == {} and second.noted() != first
