"""What is placed and what is simply there: services have rows, agents and hubs are on their nodes by definition."""

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.errors import Invalid
from holdfast.model.applied import Applied
from holdfast.model.fleet import Fleet, Node
from holdfast.model.ids import KINDS
from holdfast.planning.plan import Inputs, plan
from holdfast.planning.undeploy import plan_undeploy
from tests.fleets.agents import applied_after
from tests.fleets.build import next_candidate, signed, small_fleet, small_service


def three_roles() -> Fleet:
    nodes = {"a-edge": Node("a-edge", ("edge",)), "h1": Node("h1", ("hub",)), "w1": Node("w1", ("worker",))}
    core = replace(small_service("core"), tier="core")
    return replace(small_fleet({"web": 1, "api": 1, "core": core}), nodes=nodes)


def applied(fleet: Fleet, before: Applied | None = None) -> Applied:
    return applied_after(next_candidate(fleet, before), before)


def placements(state: Applied) -> dict[str, str]:
    return {address: entry.node for address, entry in state.table.entries.items() if entry.node is not UNSET}


def test_each_role_takes_what_is_its_own() -> None:
    """M-11: core services belong on the hub's node, applications on workers, and an edge takes none even if it is the
    emptiest and the first of the alphabet."""
    assert placements(applied(three_roles())) == {"service.api": "w1", "service.core": "h1", "service.web": "w1"}


def test_only_services_have_placements() -> None:
    """M-31: agent, hub and proxy are no resources: nothing can name them, so nothing can place or remove them."""
    state = applied(three_roles())
    assert {address.partition(".")[0] for address in placements(state)} == {"service"}
    assert not {"agent", "hub", "proxy"} & {address.partition(".")[0] for address in state.table.entries}
    assert not {"agent", "hub", "proxy"} & set(KINDS)


@pytest.mark.parametrize("address", ["agent.w1", "hub.h1", "service.agent", "proxy.a-edge"])
def test_node_infrastructure_is_neither_deployed_nor_undeployed(address: str) -> None:
    """M-31, M-32: what runs the fleet is upgraded where it runs, not placed."""
    state = applied(three_roles())
    with pytest.raises(Invalid, match="is not declared"):
        plan(three_roles(), state, Inputs(only=address))
    with pytest.raises(Invalid, match="is not applied"):
        plan_undeploy(address, state)


def test_a_placement_is_written_by_apply_and_removed_by_undeploy() -> None:
    """M-33, M-63: the row names the node and stays with later applies; undeploy takes it away with its hostnames, and
    what is left of it is a tombstone that remembers where it was."""
    fleet = small_fleet({"web": small_service("web", 1, "www.example.test"), "api": 1}, ("w1", "w2"))
    first = applied(fleet)
    row = first.table.entries["service.web"]
    assert row.node in ("w1", "w2") and row.hostnames == ("www.example.test",)
    later = applied(replace(fleet, services=fleet.services | {"api": small_service("api", 2)}), first)
    assert later.table.entries["service.web"] == row
    gone = applied_after(signed(plan_undeploy("service.web", later)), later)
    assert placements(gone) == {a: n for a, n in placements(later).items() if a != "service.web"}
    assert gone.table.tombstones["service.web"].node == row.node
    assert not [entry for entry in gone.table.entries.values() if "www.example.test" in entry.hostnames]
