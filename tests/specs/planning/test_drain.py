"""`node drain`: what has no data moves by the usual placement, what cannot move is named, and the mark stays (C-14)."""

import pytest
from msgspec.structs import replace

from holdfast.adapters.signer.memory import MemorySigner
from holdfast.errors import HoldfastError, Invalid, SignatureRequired
from holdfast.hub.ledger.revisions import Revisions
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.fleet import Fleet, Node, Service, Volume
from holdfast.model.observation import NodeObservation
from holdfast.model.plan import Plan
from holdfast.model.revision import Candidate, Table
from holdfast.planning.compile import compile_revision
from holdfast.planning.drain import plan_drain
from holdfast.planning.explain import explain
from holdfast.planning.plan import Inputs, plan
from holdfast.planning.rollback import plan_rollback
from tests.fleets.build import ALICE, commit, mailbox, operator_signer, sign, signed, small_fleet, small_service
from tests.fleets.sealing import node_key, sealed_to

BOB, BOB_SIGNER = operator_signer("bob", "apply")


def keeps_data(service: Service) -> Service:
    main = replace(service.components[0], volumes=(Volume("data", "/data", "backup"),))
    return replace(service, components=(main,))


def scene(**services: Service) -> tuple[Revisions, Fleet]:
    fleet = small_fleet(services, ("w1", "w2", "w3"), (ALICE, BOB))
    hub = mailbox()
    commit(hub, fleet)
    return hub, fleet


def applied_at(hub: Revisions) -> Applied:
    applied = hub.applied()
    assert applied is not None
    return applied


def drains(hub: Revisions, node: str = "w1", *signers: MemorySigner, undo: bool = False) -> Plan:
    found = plan_drain(node, applied_at(hub), {}, undo)
    hub.commit(signed(found, *signers))
    return found


def placed(hub: Revisions) -> dict[str, str]:
    entries = applied_at(hub).table.entries
    return {address[8:]: str(entry.node) for address, entry in entries.items() if address.startswith("service.")}


def on(node: str, service: Service) -> Service:
    return replace(service, node=node)


ALL = {
    "api": on("w1", small_service("api")),
    "db": keeps_data(small_service("db")),
    "web": small_service("web"),
}


def on_w1() -> tuple[Revisions, Fleet]:
    """`api` pinned, `db` with data, `web` free: all on w1."""
    hub, fleet = scene(**{name: on("w1", service) for name, service in ALL.items()})
    fleet = replace(fleet, services=ALL)
    commit(hub, fleet)
    assert set(placed(hub).values()) == {"w1"}
    return hub, fleet


def test_what_has_no_data_moves_and_everything_else_stays_and_is_named() -> None:
    hub, _ = on_w1()
    found = drains(hub, "w1", BOB_SIGNER)
    assert found.grade == "apply"
    assert {c.address: c.kind for c in found.changes} == {"node.w1": "update", "service.web": "move"}
    moved = next(c for c in found.changes if c.address == "service.web")
    assert (moved.moved_from, moved.node) == ("w1", "w2") and moved.why.startswith(
        "w1 is drained; w2 has the fewest containers"
    )
    assert placed(hub) == {"api": "w1", "db": "w1", "web": "w2"}
    entries = applied_at(hub).table.entries
    assert (entries["service.web"].epoch, entries["service.db"].epoch) == (2, 1)
    assert next(f for c in found.changes if c.address == "node.w1" for f in c.fields).path == "drained"
    api, db = found.warnings
    assert 'service.api stays on w1: pinned by node = "w1"' in api and "services/api.toml" in api
    assert "service.db stays on w1: its data is there" in db and "migrate" in db


def test_the_mark_stays_through_later_plans_and_nothing_new_is_placed_there() -> None:
    hub, fleet = on_w1()
    drains(hub)
    again = plan(fleet, applied_at(hub))
    assert again.candidate is None, "a drain is no difference to the directory"
    more = {f"n{number}": small_service(f"n{number}") for number in range(6)}
    commit(hub, replace(fleet, services={**fleet.services, **more}))
    assert applied_at(hub).table.entries["node.w1"].drained
    assert all(node != "w1" for name, node in placed(hub).items() if name in more)
    _, reasons = explain(fleet, applied_at(hub), Inputs(), "service.web")
    assert "w1 is drained" in reasons


def test_a_changed_node_stays_drained_and_undo_lifts_it_without_moving_anything() -> None:
    hub, fleet = on_w1()
    drains(hub)
    labelled = Node("w1", ("worker",), labels={"rack": "7"})
    commit(hub, replace(fleet, nodes={**fleet.nodes, "w1": labelled}))
    assert applied_at(hub).table.entries["node.w1"].drained
    before = placed(hub)
    found = drains(hub, "w1", BOB_SIGNER, undo=True)
    assert [c.why for c in found.changes] == ["takes services again"] and found.grade == "apply"
    assert not applied_at(hub).table.entries["node.w1"].drained and placed(hub) == before
    assert plan_drain("w1", applied_at(hub), {}, undo=True).candidate is None


def test_draining_twice_changes_nothing_and_an_unknown_node_is_named() -> None:
    hub, _ = on_w1()
    drains(hub)
    assert plan_drain("w1", applied_at(hub), {}).candidate is None
    with pytest.raises(Invalid) as caught:
        plan_drain("w9", applied_at(hub), {})
    assert caught.value.code == "unknown_node" and "w1, w2, w3" in caught.value.remedy


def test_with_nowhere_to_go_a_service_stays_and_says_why() -> None:
    """Also through the plans that follow: a fleet whose workers are all drained can still be applied to."""
    hub, fleet = on_w1()
    away = {name: NodeObservation(name, "unhealthy") for name in ("w2", "w3")}
    found = plan_drain("w1", applied_at(hub), away)
    assert [c.address for c in found.changes] == ["node.w1"]
    assert "service.web stays on w1: no other node can run it (w2 is unhealthy; w3 is unhealthy)" in found.warnings[-1]
    for node in ("w1", "w2", "w3"):
        drains(hub, node)
    assert placed(hub)["web"] == "w3", "the last to be drained keeps it"
    commit(hub, replace(fleet, services={**ALL, "web": small_service("web", 2)}))
    assert placed(hub)["web"] == "w3"


def test_several_services_are_spread_over_the_other_nodes() -> None:
    names = [f"s{number}" for number in range(6)]
    hub, fleet = scene(**{name: on("w1", small_service(name)) for name in names})
    commit(hub, replace(fleet, services={name: small_service(name) for name in names}))
    drains(hub)
    where = list(placed(hub).values())
    assert (where.count("w1"), where.count("w2"), where.count("w3")) == (0, 3, 3)


def test_a_protected_service_moves_with_grade_destroy_alone() -> None:
    """Its old node sees something protected go and would park it: the planner asks for the grade the agent will."""
    hub, fleet = scene(web=on("w1", replace(small_service("web"), protect=True)))
    commit(hub, replace(fleet, services={"web": replace(small_service("web"), protect=True)}))
    found = plan_drain("w1", applied_at(hub), {})
    assert found.grade == "destroy"
    assert [d.reason for c in found.changes for d in c.demands] == ["moves a protected service away from w1"]
    with pytest.raises(SignatureRequired):
        hub.commit(signed(found, BOB_SIGNER))
    hub.commit(signed(found))
    assert placed(hub) == {"web": "w2"}


def test_a_rollback_neither_lifts_the_mark_nor_moves_anything_back() -> None:
    hub, fleet = on_w1()
    target = applied_at(hub).table
    commit(hub, replace(fleet, services={**ALL, "web": small_service("web", 2)}))
    drains(hub)
    hub.commit(signed(plan_rollback(target, applied_at(hub))))
    entries = applied_at(hub).table.entries
    assert entries["node.w1"].drained and placed(hub)["web"] == "w2"
    assert entries["service.web"].digest == target.entries["service.web"].digest


def forged(hub: Revisions, address: str) -> Candidate:
    """A revision that calls something drained that cannot be."""
    applied = applied_at(hub)
    entries = {**applied.table.entries, address: replace(applied.table.entries[address], drained=True)}
    return sign(compile_revision(Table(entries, applied.table.tombstones), applied, {}).candidate)


@pytest.mark.parametrize("address", ["fleet", "service.web"])
def test_only_a_node_can_be_drained(address: str) -> None:
    hub, _ = on_w1()
    with pytest.raises(HoldfastError) as caught:
        hub.commit(forged(hub, address))
    assert caught.value.code == "revision_unsound"
    assert canonical.decode(canonical.encode(applied_at(hub).table), Table, "it") == applied_at(hub).table


def secretive(*recipients: str) -> Applied:
    """`web` on w1 with a secret sealed to these."""
    main = replace(small_service("web").components[0], secrets=("db",))
    fleet = small_fleet({"web": on("w1", replace(small_service("web"), components=(main,)))}, ("w1", "w2"))
    fleet = replace(
        fleet,
        nodes={name: Node(name, ("worker",), key=node_key(name)) for name in ("w1", "w2")},
        secrets={"db": sealed_to(*recipients)},
    )
    hub = mailbox()
    commit(hub, fleet)
    commit(hub, replace(fleet, services={"web": replace(small_service("web"), components=(main,))}))
    return applied_at(hub)


def test_a_service_goes_only_where_its_secrets_can_be_opened() -> None:
    """S13: a hub cannot seal anything; the operator who can is told how."""
    found = plan_drain("w1", secretive("w1", "w2"), {})
    assert [c.address for c in found.changes] == ["node.w1", "service.web"] and not found.warnings
    found = plan_drain("w1", secretive("w1"), {})
    assert [c.address for c in found.changes] == ["node.w1"]
    (warning,) = found.warnings
    assert "w2 cannot open its secrets" in warning and "holdfast secret rotate db --keep && holdfast apply" in warning
