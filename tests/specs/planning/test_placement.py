"""Which node, and why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from holdfast.errors import Invalid
from holdfast.model.fleet import Component, Node, Role, Service
from holdfast.model.observation import NodeObservation
from holdfast.model.revision import Entry, Table
from holdfast.planning.placement import Placer

IMAGE = "reg.test/x@sha256:" + "0" * 64
NOTHING = Table({}, {})


def service(node: str | None = None, tier: str = "worker", replicas: int = 1) -> Service:
    component = Component("web", IMAGE, replicas=replicas)
    return Service((component,), node=node or UNSET, tier="core" if tier == "core" else "worker")


def nodes(**roles: Role) -> dict[str, Node]:
    return {name: Node(name, (role,)) for name, role in roles.items()}


def applied(**where: tuple[str, int]) -> Table:
    entries = {f"service.{s}": Entry("0" * 64, node, 1, count) for s, (node, count) in where.items()}
    return Table(entries, {})


def test_core_goes_to_the_hub_node_m_35() -> None:
    placer = Placer(nodes(w1="worker", h1="hub"), {}, NOTHING)
    assert placer.place("x", service(tier="core"), None).node == "h1"


def test_without_a_tier_a_worker_is_chosen_m_35() -> None:
    assert Placer(nodes(e1="edge", h1="hub", w1="worker"), {}, NOTHING).place("x", service(), None).node == "w1"


def test_a_pin_overrides_the_tier_m_36() -> None:
    placer = Placer(nodes(w1="worker", w2="worker", h1="hub"), {}, NOTHING)
    assert placer.place("x", service("w2", tier="core"), "w1").node == "w2"


def test_fewest_containers_then_the_alphabet_m_37() -> None:
    placer = Placer(nodes(w3="worker", w1="worker", w2="worker"), {}, applied(a=("w1", 2)))
    assert [placer.place(name, service(), None).node for name in "bcd"] == ["w2", "w3", "w2"]


def test_replicas_count_as_containers_m_37() -> None:
    placer = Placer(nodes(w1="worker", w2="worker"), {}, NOTHING)
    placer.place("big", service(replicas=3), None)
    assert [placer.place(name, service(), None).node for name in "abc"] == ["w2", "w2", "w2"]


def test_unhealthy_workers_are_passed_over_and_nothing_is_moved_off_them_m_37() -> None:
    seen = {"w1": NodeObservation("w1", "unhealthy")}
    placer = Placer(nodes(w1="worker", w2="worker"), seen, NOTHING)
    assert placer.place("new", service(), None).node == "w2"
    assert placer.place("old", service(), "w1").node == "w1"


def test_a_node_nobody_has_seen_is_eligible_and_its_load_is_what_was_applied_m_38() -> None:
    """M-38, M-39: observed cpu, memory and disk play no part in placement."""
    seen = {"w2": NodeObservation("w2", "healthy", containers=0), "w1": NodeObservation("w1", "healthy", containers=99)}
    placer = Placer(nodes(w1="worker", w2="worker", w3="worker"), seen, applied(a=("w3", 1), b=("w2", 1)))
    assert placer.place("new", service(), None).node == "w1"


def test_placement_is_sticky_c_14() -> None:
    placer = Placer(nodes(w1="worker", w2="worker"), {}, applied(a=("w2", 50)))
    assert placer.place("a", service(), "w2").node == "w2"


def test_no_node_fits_is_a_list_of_reasons() -> None:
    seen = {"w1": NodeObservation("w1", "unhealthy")}
    with pytest.raises(Invalid, match=r"e1 is not a worker \(roles: edge\); w1 is unhealthy") as refused:
        Placer(nodes(w1="worker", e1="edge"), seen, NOTHING).place("x", service(), None)
    assert refused.value.code == "no_node_fits"


@pytest.mark.parametrize("pin", ["e1", "w9"])
def test_a_pin_to_an_edge_or_to_nowhere_is_refused_c_23(pin: str) -> None:
    with pytest.raises(Invalid, match="pinned to"):
        Placer(nodes(w1="worker", e1="edge"), {}, NOTHING).place("x", service(pin), None)


@given(st.permutations(["w1", "w2", "w3", "w4"]), st.lists(st.integers(1, 3), max_size=8))
def test_the_order_of_declaration_does_not_matter_i_22(order: list[str], sizes: list[int]) -> None:
    def chosen(names: list[str]) -> list[str]:
        placer = Placer({name: Node(name, ("worker",)) for name in names}, {}, NOTHING)
        return [placer.place(str(i), service(replicas=size), None).node for i, size in enumerate(sizes)]

    assert chosen(order) == chosen(sorted(order))
