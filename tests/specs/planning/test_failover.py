"""`failover = ["w2"]`: who may stand in is signed, knows everything it takes, and is nobody else (design.md §3)."""

import pytest
from msgspec.structs import replace

from holdfast.agent.acceptance import manifest as signed_manifest
from holdfast.agent.acceptance import manifest_grades
from holdfast.agent.acceptance.manifest import Followed
from holdfast.errors import Corrupt, HoldfastError
from holdfast.hub.ledger.revisions import Revisions
from holdfast.hub.nodes import node_contents
from holdfast.ledger.rebuild import Spare, rebuild
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.fleet import Fleet, Policy, Service, Volume
from holdfast.model.manifest import NodeManifest
from holdfast.model.revision import Table
from holdfast.planning.compile import compile_revision
from holdfast.planning.kinds.every import holders
from tests.fleets.build import (
    ALICE,
    ALICE_SIGNER,
    commit,
    mailbox,
    operator_signer,
    sign,
    small_fleet,
    small_service,
)

BOB, BOB_SIGNER = operator_signer("bob", "apply")
NODES = ("w1", "w2", "w3")
NOW_S = 1_700_000_000.0


def standing_by(*failover: str, version: int = 1, protect: bool = False) -> Service:
    return replace(small_service("web", version), node="w1", failover=failover, protect=protect)


def scene(service: Service) -> tuple[Revisions, Fleet]:
    hub, fleet = mailbox(), small_fleet({"web": service, "blog": 1}, NODES, (ALICE, BOB))
    commit(hub, fleet)
    return hub, fleet


def applied_at(hub: Revisions) -> Applied:
    applied = hub.applied()
    assert applied is not None
    return applied


def manifest(hub: Revisions, node: str) -> NodeManifest:
    applied = applied_at(hub)
    content = applied.contents[applied.header.manifests[node]]
    return signed_manifest.read_manifest(content, applied.fleet_id, node)


def test_the_listed_nodes_have_it_as_standby_and_nobody_else_hears_of_it() -> None:
    hub, _ = scene(standing_by("w3", "w2"))
    entry = applied_at(hub).table.entries["service.web"]
    assert entry.failover == ("w3", "w2"), "in the order in which they were written"
    for node in ("w2", "w3"):
        assert manifest(hub, node).standby == {"service.web": entry}
        assert "service.web" not in manifest(hub, node).services
    assert manifest(hub, "w1").standby == {} and manifest(hub, "w1").services["service.web"] == entry


def test_a_home_that_is_in_its_own_list_does_not_stand_by_for_itself() -> None:
    hub, _ = scene(standing_by("w1", "w2"))
    assert manifest(hub, "w1").standby == {} and "service.web" in manifest(hub, "w2").standby


def test_a_standby_may_fetch_what_it_takes_and_the_policies_that_bind_it() -> None:
    fleet = small_fleet({"web": standing_by("w2")}, NODES)
    fleet = replace(fleet, policies={"shy": Policy("shy", b"forbid(principal, action, resource);", ("service.web",))})
    hub = mailbox()
    commit(hub, fleet)
    applied = applied_at(hub)
    web, shy = (applied.table.entries[address].digest for address in ("service.web", "policy.shy"))
    for node, knows in (("w1", True), ("w2", True), ("w3", False)):
        held = node_contents.named(applied.contents[applied.header.manifests[node]])
        assert (web in held, shy in held) == (knows, knows), node
        assert (web in signed_manifest.needed(manifest(hub, node))) is knows


def forged(hub: Revisions, *failover: str) -> HoldfastError:
    applied = applied_at(hub)
    entries = dict(applied.table.entries)
    entries["service.web"] = replace(entries["service.web"], failover=failover)
    candidate = compile_revision(Table(entries, applied.table.tombstones), applied, {}).candidate
    with pytest.raises(HoldfastError) as caught:
        hub.commit(sign(candidate))
    return caught.value


def test_a_table_cannot_list_others_than_the_service_declares() -> None:
    """A compiled manifest follows from the table, so the table must say what was declared and graded."""
    hub, _ = scene(standing_by("w2"))
    assert "other failover nodes" in forged(hub, "w2", "w3").message
    assert "not in the table" in forged(hub, "w2", "w9").message


def test_a_service_with_data_never_stands_by() -> None:
    """The loader refuses it with file and line; a hub or an agent refuses it whoever wrote it."""
    main = replace(small_service("web").components[0], volumes=(Volume("data", "/data", "backup"),))
    fleet = small_fleet({"web": replace(standing_by("w2"), components=(main,))}, NODES)
    with pytest.raises(Corrupt, match="has data and failover nodes"):
        commit(mailbox(), fleet)


# ---- what a node makes of it


WITNESS = (((" ".join(BOB.key.split()[:2]),), applied_at(scene(standing_by())[0]).trust),)


def judged(before: Service, after: Service, node: str) -> Followed:
    """What `node` follows after an operator of grade apply changed the service."""
    hub, fleet = scene(before)
    first = manifest(hub, node)
    old = dict(applied_at(hub).contents)
    commit(hub, replace(fleet, services={**fleet.services, "web": after}))
    contents = {**old, **applied_at(hub).contents}
    return manifest_grades.judge(Followed(first, first), manifest(hub, node), WITNESS, contents, 2, NOW_S)


def test_a_node_follows_the_standby_of_a_newer_version() -> None:
    found = judged(standing_by("w2"), standing_by("w2", version=2), "w2")
    assert not found.parked and found.in_force is not None and found.in_force == found.wanted


def test_leaving_the_list_of_a_protected_service_parks_nowhere() -> None:
    """Whoever only stood by may stop doing so: the service stays where it is."""
    found = judged(standing_by("w2", protect=True), standing_by(protect=True), "w2")
    assert not found.parked and found.in_force is not None and found.in_force.standby == {}


def test_home_parks_what_needs_grade_destroy_and_stays_as_it_was() -> None:
    found = judged(standing_by(), standing_by("w2"), "w1")
    assert list(found.parked) == ["service.web"] and found.in_force is not None
    assert found.in_force.services["service.web"].failover == ()


def test_a_parked_standby_stays_a_standby_of_the_old_version() -> None:
    """Its content hides one component behind another: unsound, so the older one stays in force, as standby."""
    hub, _ = scene(standing_by("w2"))
    first = manifest(hub, "w2")
    main = small_service("web").components[0]
    twice = canonical.encode(replace(standing_by("w2"), components=(main, main)))
    entry = replace(first.standby["service.web"], digest=canonical.digest(twice), containers=2)
    after = replace(first, standby={"service.web": entry})
    contents = {**applied_at(hub).contents, entry.digest: twice}
    found = manifest_grades.judge(Followed(first, first), after, WITNESS, contents, 2, NOW_S)
    assert list(found.parked) == ["service.web"] and found.in_force is not None
    assert found.in_force.standby == first.standby and found.in_force.services == first.services


@pytest.mark.parametrize("spoiled", ["own", "unlisted", "kind"])
def test_a_misshapen_standby_is_refused(spoiled: str) -> None:
    hub, _ = scene(standing_by("w2"))
    good = manifest(hub, "w2")
    entry = good.standby["service.web"]
    bad = {
        "own": {"service.web": replace(entry, node="w2")},
        "unlisted": {"service.web": replace(entry, failover=("w3",))},
        "kind": {"policy.web": entry},
    }[spoiled]
    with pytest.raises(Corrupt) as caught:
        signed_manifest.read_manifest(canonical.encode(replace(good, standby=bad)), good.fleet, "w2")
    assert caught.value.code == "manifest_misshapen"


def test_a_lost_ledger_is_rebuilt_from_a_standby_as_well() -> None:
    """The home of `web` is gone for good: its standby still knows it, and the directory need not be asked for it."""
    hub, _ = scene(standing_by("w2"))
    applied = applied_at(hub)
    handed = {node: applied.contents[digest] for node, digest in applied.header.manifests.items() if node != "w1"}
    lost = [a for a, e in applied.table.entries.items() if a == "node.w1" or (e.node == "w1" and a != "service.web")]
    entries = {address: applied.table.entries[address] for address in lost}
    spares = {
        address: Spare(entry, applied.contents[entry.digest], holders(address, applied.table))
        for address, entry in entries.items()
    }
    found = rebuild(applied.header, handed, applied.contents, spares)
    assert found.table == applied.table and "service.web" not in found.guessed


def test_adding_a_failover_node_needs_grade_destroy() -> None:
    hub, fleet = scene(standing_by())
    with pytest.raises(HoldfastError) as caught:
        commit(hub, replace(fleet, services={**fleet.services, "web": standing_by("w2")}), BOB_SIGNER)
    assert caught.value.exit_code == 4
    commit(hub, replace(fleet, services={**fleet.services, "web": standing_by("w2")}), ALICE_SIGNER)
