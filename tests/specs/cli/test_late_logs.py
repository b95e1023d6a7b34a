"""`logs` names a node that is silent at once, and one that does not fetch the order soon after (T5, N32)."""

import io
from argparse import Namespace
from collections.abc import Iterator
from itertools import count
from typing import Any, cast

import pytest

from holdfast.cli.logs.log_call import Inbox
from holdfast.cli.logs.log_order import Ordering
from holdfast.cli.logs.logs import Listening
from holdfast.cli.terminal import Terminal
from holdfast.cli.tools import Toolbox
from holdfast.model.node_view import NodeView
from holdfast.model.order_view import OrderView
from holdfast.model.verified_report import VerifiedReport


class Leaping:
    """Three seconds pass at every look."""

    def __init__(self) -> None:
        self._at: Iterator[int] = count(0, 3)

    def monotonic_s(self) -> float:
        return float(next(self._at))


class NoCall:
    def start(self) -> None: ...

    def drop(self) -> None: ...

    def close(self) -> None: ...


def said_of(status: Any, state: Any) -> str:
    err = io.StringIO()
    word = VerifiedReport(NodeView("w1", ("worker",), status, joined=True), age_s=200.0, key="ssh-ed25519 …")
    order = OrderView("w1", "o1", "logs", "service.web", state, "alice", 0.0, 0)
    ordering = Namespace(
        view=Namespace(nodes={"w1": word}),
        desk=Namespace(orders=lambda node, limit: [order]),
        args=Namespace(fleet=".", hub=None),
        call=lambda node, inbox: ("o1", NoCall()),
    )
    box = Namespace(clock=Leaping(), terminal=Terminal(io.StringIO(), err, io.StringIO(), environ_no_colour=True))
    listening = Listening(cast(Ordering, ordering), ["w1"], cast(Any, None), cast(Toolbox, box))
    listening.begin()
    begun = err.getvalue()
    listening.inbox.take = lambda most, at_most_s: []  # type: ignore[method-assign]
    listening.print_all()
    assert isinstance(listening.inbox, Inbox) and listening.inbox.left["w1"] is not None
    assert err.getvalue().startswith(begun)
    return begun + "|" + err.getvalue().removeprefix(begun)


def test_a_silent_node_is_named_before_it_is_waited_for() -> None:
    said = said_of("unhealthy", "waiting")
    assert said == "w1 is silent (last contact 3 min ago); waiting up to 45 s for its logs\n|"


@pytest.mark.parametrize(
    ("state", "told"),
    [("waiting", "|w1 has not fetched the order yet; waiting up to 45 s for its logs\n"), ("delivered", "|")],
)
def test_a_node_that_does_not_fetch_the_order_is_named_once(state: str, told: str) -> None:
    """A busy agent has fetched it, and answers later."""
    assert said_of("healthy", state) == told
