"""A hub's head is compared with what nodes signed as accepted, before a revision is drafted on it (X15)."""

from collections.abc import Sequence
from typing import cast

import msgspec
import pytest

from holdfast.cli.nodes import accepted_heads
from holdfast.errors import HoldfastError, Invalid
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.hub_status import HubStatus
from holdfast.model.node_view import NodesAnswer, NodeView
from holdfast.model.record import Link
from holdfast.model.report import PULSE_NAMESPACE, Pulse, SignedPulse
from holdfast.model.revision import FORMAT, Entry, Head, Header, NodeIdentity, Table, digest_of
from holdfast.ports.hub_link import HubReader
from holdfast.trust.own_signature import armoured
from tests.fleets.enrolments import NODE_KEY, TRUST
from tests.fleets.orders import FLEET, NOW_S

HEADER = b"the header of revision 3"
THIRD, FORK = Head(3, digest_of(HEADER)), Head(3, "f" * 64)
HEAD = Head(5, "5" * 64)
NEWER = Head(6, "6" * 64)


class Hub:
    """Its ledger ends with `ledger`; `chain` is its answer beside the nodes, `links` what it has of revision 3."""

    def __init__(
        self, accepted: Sequence[Head], chain: tuple[Head, ...], links: Sequence[Link] | None, ledger: Head
    ) -> None:
        self._accepted, self._chain, self._links, self._ledger = accepted, chain, links, ledger
        self.asked: list[str] = []

    def nodes(self) -> NodesAnswer:
        views = tuple(view(f"w{number}", head) for number, head in enumerate(self._accepted, 1))
        return NodesAnswer(views, NOW_S, chain=self._chain)

    def links(self, first: int, last: int) -> Sequence[Link]:
        self.asked.append(f"links {first} {last}")
        if self._links is None:
            raise Invalid("not in the ledger", remedy="none", code="not_found")
        return self._links

    def status(self) -> HubStatus:
        self.asked.append("status")
        return HubStatus("1", "ledger", FLEET, HEAD, self._ledger, {}, (), ())


def view(name: str, accepted: Head) -> NodeView:
    body = msgspec.json.encode(Pulse(FLEET, name, 1, NOW_S, accepted))
    pulse = SignedPulse(body, armoured(NODE_KEY, body, PULSE_NAMESPACE))
    return NodeView(name, ("worker",), "healthy", joined=True, key=NODE_KEY.line, pulse=pulse)


def applied() -> Applied:
    header = Header(FORMAT, FLEET, 5, "a" * 64, canonical.digest(canonical.encode(TRUST)), "b" * 64, {})
    nodes = {f"node.w{number}": Entry("d" * 64, identity=NodeIdentity(NODE_KEY.line)) for number in (1, 2)}
    return Applied(HEAD, header, Table(nodes), TRUST, {})


def checked(
    *accepted: Head, chain: tuple[Head, ...] = (), links: Sequence[Link] | None = None, ledger: Head = HEAD
) -> tuple[str, list[str]]:
    """The code of the refusal, or "", and what the hub was asked beside its nodes."""
    hub = Hub(accepted, chain, links, ledger)
    try:
        accepted_heads.verified(cast(HubReader, hub), applied(), NOW_S)
    except HoldfastError as refused:
        return refused.code, hub.asked
    return "", hub.asked


def test_a_node_at_the_head_costs_no_question() -> None:
    assert checked(HEAD) == ("", [])


def test_a_node_that_lags_costs_no_question_if_the_hub_names_its_revision_beside_the_nodes() -> None:
    assert checked(THIRD, chain=(THIRD,)) == ("", [])


def test_an_older_hub_is_asked_for_that_revision() -> None:
    assert checked(THIRD, links=[Link(HEADER, (), b"")]) == ("", ["links 3 3"])


def test_a_rebuilt_ledger_that_has_lost_that_revision_proves_nothing() -> None:
    assert checked(THIRD) == ("", ["links 3 3"])


@pytest.mark.parametrize("chain", [(), (THIRD,)], ids=["older hub", "named beside the nodes"])
def test_a_node_that_accepted_another_revision_of_that_number_shows_a_fork(chain: tuple[Head, ...]) -> None:
    assert checked(FORK, chain=chain, links=[Link(HEADER, (), b"")]) == ("forked", ["links 3 3"])


def test_a_node_that_lags_behind_another_one_that_lags_shows_a_fork_too() -> None:
    fourth = Head(4, "4" * 64)
    found = checked(fourth, FORK, chain=(fourth, THIRD), links=[Link(HEADER, (), b"")])
    assert found == ("forked", ["links 3 3"])


def test_a_node_that_accepted_another_head_shows_a_fork() -> None:
    assert checked(Head(5, "e" * 64), chain=(HEAD,)) == ("forked", [])


@pytest.mark.parametrize(("ledger", "code"), [(HEAD, "rolled_back"), (NEWER, "stale_base")])
def test_a_node_ahead_shows_a_rollback_or_a_revision_that_was_applied_meanwhile(ledger: Head, code: str) -> None:
    """The word of the hub beside the nodes does not count: its status names the end of its ledger."""
    assert checked(NEWER, chain=(NEWER,), ledger=ledger) == (code, ["status"])
