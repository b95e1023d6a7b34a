"""Where a service moves to, and why."""

from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.cli.moves import moved_data
from holdfast.errors import Invalid, NotPermitted
from holdfast.model.applied import Applied
from holdfast.model.data_figures import DataFigures, DataSection
from holdfast.model.fleet import Volume
from holdfast.model.node_view import NodeView
from holdfast.model.observation import NodeObservation
from holdfast.model.verified_report import VerifiedReport
from holdfast.planning.move_target import Wish, target_of
from holdfast.planning.moving import plan_move
from holdfast.planning.plan import Inputs, plan
from tests.fleets.build import edge_fleet, joined, small_service
from tests.specs.planning.test_plan import after

WORKERS = ("w1", "w2", "w3", "w4")


def applied(*joined_nodes: str, protect: str = "backup") -> Applied:
    """Two services with data, on w1 and on w2."""
    plain = small_service("web")
    volumes = (Volume("book", "/book", protect=protect),) if protect else ()
    part = replace(plain.components[0], volumes=volumes)
    services = {name: replace(plain, components=(part,), node=node) for name, node in (("web", "w1"), ("shop", "w2"))}
    fleet = edge_fleet(services, workers=WORKERS)
    known = {name: one for name, one in joined(fleet).items() if name in ("e1", *joined_nodes)}
    return after(plan(fleet, None, Inputs({}, {}, identities=known)))


def test_a_target_that_placement_chose_comes_with_its_reason() -> None:
    """N101: the plan said only that the service moves."""
    chosen = target_of(Wish("web"), applied(*WORKERS), {})
    assert chosen.node == "w3"
    reason = "w3 has the fewest containers: 0, tie with w4; 1 not eligible"
    assert chosen.why == f"moves from w1 with its data; {reason}"
    planned = plan_move(Wish("web", chosen.node, why=chosen.why), applied(*WORKERS), {})
    assert next(one for one in planned.changes if one.address == "service.web").why == chosen.why


def test_a_target_that_an_operator_names_is_not_explained() -> None:
    assert target_of(Wish("web", "w2"), applied(*WORKERS), {}).why == "moves from w1 with its data"
    assert target_of(Wish("web", "w2"), applied(*WORKERS, protect=""), {}).why == "moves from w1"


def test_a_node_that_has_not_joined_is_not_chosen() -> None:
    """N102: it was chosen, and then refused."""
    assert target_of(Wish("web"), applied("w1", "w2", "w4"), {}).node == "w4"
    with pytest.raises(Invalid, match="no node fits"):
        target_of(Wish("web"), applied("w1"), {})


def test_a_refused_target_is_not_named_among_those_that_could_take_it() -> None:
    away = {"w2": NodeObservation("w2", "unhealthy")}
    with pytest.raises(NotPermitted, match="w2: that node is not healthy") as refused:
        target_of(Wish("web", "w2"), applied("w1", "w2", "w4"), away)
    assert refused.value.remedy == "nodes that could take it: w4"


def reported(*figures: DataFigures) -> dict[str, VerifiedReport]:
    report = msgspec.json.encode(DataSection(figures))
    node = NodeView("w1", ("worker",), "healthy", joined=True, report=report)
    return {"w1": VerifiedReport(node, report=cast("Any", object()))}


def test_a_plan_says_that_the_size_is_not_known_yet() -> None:
    """N103: directly after a deployment the plan had no line about the data."""
    known = moved_data.sentence("web", "w1", reported(DataFigures("web", 3 << 20, 2, down_s=0.5)))
    assert known.startswith("copies 3.0 MiB in 2 files while it runs, then stops it for about 2 s")
    assert "how much is copied is not known yet" in moved_data.sentence("web", "w1", reported())
