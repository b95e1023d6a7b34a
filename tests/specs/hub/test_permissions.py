"""Who may do what: the table is complete, denies by default, and is the page in the reference (I-13, M-16, S02)."""

import inspect
from pathlib import Path

import pytest

from holdfast.errors import NotPermitted, Unauthenticated
from holdfast.hub.http.permissions import ALLOWED, OPERATIONS, PROOFS, PUBLIC, document, may
from holdfast.hub.http.routes import ROUTES
from holdfast.model.principal import KINDS, Kind, Principal

NODE = frozenset(
    {
        *("read-head", "read-links", "read-own-content", "join", "check-in", "salvage", "stream"),
        *("read-backup", "write-backup", "delete-backup", "hand-over", "copy-hub"),
    }
)
FOUNDER = frozenset(
    {"read-head", "read-status", "read-applied", "read-history", "read-observations", "read-damage", "commit"}
)


def allowed(kind: Kind) -> frozenset[str]:
    """What is judged is asked through `may`, never through the table itself."""
    return frozenset(name for name in OPERATIONS if may(Principal(kind, "x"), name) is None)


def test_every_operation_has_a_row_and_every_kind_a_proof() -> None:
    assert ALLOWED.keys() == OPERATIONS.keys()
    assert PROOFS.keys() == set(KINDS)
    assert all(kinds <= set(KINDS) for kinds in ALLOWED.values())
    assert all(about for about in OPERATIONS.values())


def test_the_routes_and_the_permissions_are_one_table() -> None:
    """Every route has a permission that is listed, and every listed permission has a route: neither stands alone."""
    routed = {route.permission for route in ROUTES}
    assert {operation.name for operation in routed} == OPERATIONS.keys()
    assert len(routed) == len(OPERATIONS), "two operations have one name"
    for operation in routed:
        assert (OPERATIONS[operation.name], ALLOWED[operation.name]) == (operation.about, operation.kinds)


def test_every_route_is_run_by_a_method_of_its_handler() -> None:
    for route in ROUTES:
        assert getattr(route.handler, route.run.__name__) is route.run
        assert inspect.iscoroutinefunction(route.run) is (route.cost in ("fleet", "stream"))


def test_only_health_and_the_description_are_public() -> None:
    assert allowed("anonymous") == PUBLIC == {"health", "describe"}
    assert all(allowed(kind) >= PUBLIC for kind in KINDS)


def test_a_viewer_reads_and_does_nothing_else() -> None:
    assert all(name.startswith("read-") for name in allowed("viewer") - PUBLIC)
    assert "read-audit" not in allowed("viewer") and "read-tokens" not in allowed("viewer")


def test_a_node_speaks_for_itself_and_sees_nothing_of_others() -> None:
    """D8, D18: an edge is a node like any other, so its credential opens nothing more."""
    assert allowed("node") - PUBLIC == NODE
    assert may(Principal("node", "e1", roles=("edge",)), "read-nodes") is not None
    assert allowed("joining") - PUBLIC == {"join", "check-in", "salvage"}


def test_a_founder_does_what_a_first_apply_needs() -> None:
    assert allowed("founder") - PUBLIC == FOUNDER


def test_an_operator_is_no_node_and_may_do_all_the_rest() -> None:
    of_nodes = {"read-own-content", "join", "check-in", "salvage", "write-backup", "delete-backup", "hand-over"}
    of_nodes |= {"copy-hub"}
    assert set(OPERATIONS) - allowed("operator") == of_nodes


def test_a_hub_and_a_guest_are_nobody_here() -> None:
    assert allowed("hub") == allowed("guest") == PUBLIC


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operation", ["", "destroy", "read-", "Commit"])
def test_what_nobody_listed_is_refused_to_everybody(kind: Kind, operation: str) -> None:
    assert isinstance(may(Principal(kind, "x"), operation), NotPermitted)


def test_a_stranger_is_told_to_say_who_he_is_and_everybody_else_who_may() -> None:
    assert isinstance(may(Principal("anonymous"), "commit"), Unauthenticated)
    refused = may(Principal("viewer", "ci"), "commit")
    assert refused is not None and not isinstance(refused, Unauthenticated)
    assert "viewer:ci" in refused.message and "operators" in refused.message
    assert refused.remedy


def test_the_reference_is_up_to_date() -> None:
    written = Path(__file__).parents[3] / "docs" / "reference" / "permissions.md"
    assert written.read_text() == document(), (
        "run: .venv/bin/python -m holdfast.hub.http.permissions > docs/reference/permissions.md"
    )
    for name in OPERATIONS:
        assert f"`{name}`" in written.read_text()
