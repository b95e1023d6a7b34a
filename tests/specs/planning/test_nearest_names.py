"""A wrong name of a service or a node is answered with the nearest one."""

import pytest

from holdfast.cli.orders import order_fleet
from holdfast.errors import Invalid
from holdfast.model.nearest import hint
from holdfast.planning import drain, undeploy
from tests.fleets.build import grown_mailbox


def test_the_nearest_name_is_named_or_none() -> None:
    assert hint("wbe", ["db", "web"]) == "did you mean web? "
    assert hint("zzz", ["db", "web"]) == ""


def test_labels_that_both_names_have_make_nothing_near_n50() -> None:
    """`undeploy nots` offered service.hello, and `edge status zzz.example.test` another hostname of the domain."""
    assert hint("service.nots", ["service.hello", "service.notes"]) == "did you mean service.notes? "
    assert hint("service.nots", ["service.hello"]) == ""
    assert hint("zzz.example.test", ["y.example.test"]) == ""
    assert hint("helo.example.test", ["y.example.test", "hello.example.test"]) == "did you mean hello.example.test? "
    assert hint("hello.exmaple.test", ["hello.example.test"]) == "did you mean hello.example.test? "


def test_planning_and_orders_name_the_nearest() -> None:
    applied = grown_mailbox(1).applied()
    assert applied is not None
    (service, *_), (node, *_) = applied.table.of_kind("service"), applied.table.of_kind("node")
    fleet = order_fleet.of(applied)
    for wrong, near in (
        (lambda: undeploy.plan_undeploy(f"service.{service}x", applied), f"service.{service}"),
        (lambda: drain.marked(f"{node}x", applied, drained=True), node),
        (lambda: fleet.check_node(f"{node}x"), node),
    ):
        with pytest.raises(Invalid) as refused:
            wrong()
        assert refused.value.remedy.startswith(f"did you mean {near}? ")
