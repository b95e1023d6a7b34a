"""Whom a hub calls: the node as the applied revision pins it, at the address operators signed, or nobody (C-01)."""

import asyncio
import logging
from concurrent.futures import Future

import msgspec
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.adapters.agent_link.memory import MemoryAgentLink, MemoryDoor
from holdfast.adapters.ledger_store.memory import MemoryStore
from holdfast.errors import HoldfastError
from holdfast.hub.nodes.call_node import Dialling
from holdfast.hub.nodes.reports import Kept
from holdfast.ledger import keys
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.fleet import FleetDocument, Node
from holdfast.model.report import Report, SignedPulse
from holdfast.model.revision import Entry, Head, Header, NodeIdentity, Table
from holdfast.model.trust import Trust
from holdfast.ports.agent_link import WrongNode
from holdfast.ports.hub_link import HubReader
from holdfast.ports.ledger_store import Transaction
from tests.fleets.build import small_fleet
from tests.fleets.desks import key_of

ISSUER = b"DER of its issuing certificate"
KEY, HUB = key_of("w1").line, key_of("hub").line
PIN = NodeIdentity(KEY, canonical.digest(ISSUER))
FLEET = small_fleet()
NAME = "w1.nodes.holdfast.internal"
CLAIMED, SIGNED = ("100.64.0.9", 9444), ("100.64.0.1", 9444)


def applied(identity: NodeIdentity | None = PIN, address: str = "") -> Applied:
    document = canonical.encode(FleetDocument(FLEET.settings))
    node = canonical.encode(Node("w1", ("worker",), address=address, link="dial"))
    contents: dict[str, bytes] = {canonical.digest(content): content for content in (document, node)}
    entries = {
        "fleet": Entry(canonical.digest(document)),
        "node.w1": Entry(canonical.digest(node), identity=UNSET if identity is None else identity),
    }
    header = Header(1, "f" * 64, 7, "", "0" * 64, "0" * 64, {})
    return Applied(Head(7, "7" * 64), header, Table(entries), Trust(FLEET.operators, FLEET.thresholds), contents)


class Hub:
    def __init__(self, now: Applied | None) -> None:
        self._now = now

    def applied(self) -> Applied | None:
        return self._now


class Bench:
    def __init__(self, now: Applied | None, reported: bytes = ISSUER) -> None:
        self.link = MemoryAgentLink(HUB)
        store = MemoryStore()
        report = msgspec.json.encode(Report("f" * 64, "w1", "0", issuer=reported))
        kept = Kept(SignedPulse(b"", ""), report)
        written: Future[int] = store.submit(
            Transaction(expect={}, put={keys.report("w1"): msgspec.json.encode(kept)} if reported else {})
        )
        written.result(5)
        hub: HubReader = Hub(now)  # type: ignore[assignment]  # nothing else is asked of it
        self.dialling = Dialling(hub, store, self.link)

    def opens(self, place: tuple[str, int], issuer: bytes = ISSUER) -> MemoryDoor:
        self.link.doors[place] = MemoryDoor(KEY, issuer, NAME, HUB, "f" * 64)
        return self.link.doors[place]

    def knock(self) -> bool:
        return asyncio.run(self.dialling.knock("w1", CLAIMED[0]))


def test_a_pinned_node_is_called_where_it_says_it_is() -> None:
    bench = Bench(applied())
    door = bench.opens(CLAIMED)
    assert bench.knock() and door.knocks == 1


def test_an_address_that_operators_signed_comes_before_what_the_node_says() -> None:
    bench = Bench(applied(address=SIGNED[0]))
    signed, claimed = bench.opens(SIGNED), bench.opens(CLAIMED)
    assert bench.knock() and (signed.knocks, claimed.knocks) == (1, 0)


@pytest.mark.parametrize(
    ("identity", "reported", "why"),
    [
        (None, ISSUER, "does not say yet"),
        (replace(PIN, issuer=""), ISSUER, "does not say yet"),
        (PIN, b"another one", "is not the one"),
        (PIN, b"", "is not the one"),
    ],
    ids=["not recorded", "no issuer recorded", "another issuer reported", "nothing reported"],
)
def test_without_a_pin_nobody_is_called_and_the_log_says_why(
    identity: NodeIdentity | None, reported: bytes, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(applied(identity), reported)
    door = bench.opens(CLAIMED, reported)
    with caplog.at_level(logging.WARNING):
        assert not bench.knock()
    assert (
        door.knocks == 0
        and "w1 cannot be called" in caplog.text
        and why in caplog.text
        and "holdfast apply" in caplog.text
    )


def test_somebody_else_at_its_address_is_no_sign_of_life(caplog: pytest.LogCaptureFixture) -> None:
    """A1"""
    bench = Bench(applied())
    door = bench.opens(CLAIMED, b"somebody else's")
    with caplog.at_level(logging.WARNING), pytest.raises(WrongNode):
        bench.knock()
    assert door.knocks == 0 and "not w1" in caplog.text


def test_nobody_there_is_an_error_and_a_node_that_left_is_not_called() -> None:
    with pytest.raises(HoldfastError):
        Bench(applied()).knock()
    assert not Bench(None).knock()
    without = applied()
    gone = replace(without, table=Table({"fleet": without.table.entries["fleet"]}))
    assert not Bench(gone).knock()
