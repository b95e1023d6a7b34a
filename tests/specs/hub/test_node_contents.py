"""D8: a node fetches what is its own, of this revision and of those it may have slept through; nothing of others."""

from msgspec.structs import replace

from holdfast.hub.ledger.revisions import Revisions
from holdfast.hub.nodes.node_contents import Belongings
from holdfast.model.applied import Applied
from holdfast.model.fleet import Fleet
from tests.fleets.build import commit, mailbox, small_fleet, small_service


def fleet(web: int, db: int) -> Fleet:
    """web lives on w1, db on w2."""
    placed = {"web": replace(small_service("web", web), node="w1"), "db": replace(small_service("db", db), node="w2")}
    return small_fleet(placed, nodes=("w1", "w2"))


def applied_in(hub: Revisions) -> Applied:
    applied = hub.applied()
    assert applied is not None
    return applied


def digest(hub: Revisions, address: str) -> str:
    return applied_in(hub).table.entries[address].digest


def manifest(hub: Revisions, node: str) -> str:
    return applied_in(hub).header.manifests[node]


def test_a_node_has_its_own_and_nothing_of_others() -> None:
    hub = mailbox()
    commit(hub, fleet(1, 1))
    applied = applied_in(hub)
    mine = Belongings(hub.links, hub.blob)
    assert mine.has(applied, "w1", digest(hub, "service.web")) and mine.has(applied, "w1", manifest(hub, "w1"))
    assert mine.has(applied, "w1", digest(hub, "node.w1")) and mine.has(applied, "w1", digest(hub, "fleet"))
    for address in ("service.db", "node.w2", "trust"):
        assert not mine.has(applied, "w1", digest(hub, address))
    assert not mine.has(applied, "w1", manifest(hub, "w2"))
    assert not mine.has(applied, "w1", applied.header.resources)
    assert not mine.has(applied, "w9", digest(hub, "service.web"))


def test_what_it_slept_through_is_its_own_too() -> None:
    hub = mailbox()
    commit(hub, fleet(1, 1))
    mine = Belongings(hub.links, hub.blob)
    first = hub.applied()
    assert first is not None and mine.has(first, "w1", digest(hub, "service.web"))
    old_web, old_db, old_manifest = digest(hub, "service.web"), digest(hub, "service.db"), manifest(hub, "w1")
    commit(hub, fleet(2, 2))
    between = digest(hub, "service.web")
    commit(hub, fleet(3, 2))
    now = hub.applied()
    assert now is not None
    for belongings in (mine, Belongings(hub.links, hub.blob)):
        assert all(belongings.has(now, "w1", d) for d in (old_web, between, old_manifest, digest(hub, "service.web")))
        assert not belongings.has(now, "w1", old_db)


def test_only_so_far_back(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("holdfast.hub.nodes.node_contents.REVISIONS_BACK", 2)
    hub = mailbox()
    commit(hub, fleet(1, 1))
    mine = Belongings(hub.links, hub.blob)
    oldest, steady = digest(hub, "service.web"), digest(hub, "service.db")
    for version in (2, 3, 4):
        commit(hub, fleet(version, 1))
        mine.has(applied_in(hub), "w1", oldest)
    applied = applied_in(hub)
    assert not mine.has(applied, "w1", oldest)
    assert mine.has(applied, "w2", steady)


def test_a_node_that_starts_over_gets_its_own_old_manifest_and_what_it_names(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """X14: however many revisions ago it was vouched for; contents only after their manifest, nothing of others."""
    monkeypatch.setattr("holdfast.hub.nodes.node_contents.REVISIONS_BACK", 2)
    hub = mailbox()
    commit(hub, fleet(1, 1))
    web, db = digest(hub, "service.web"), digest(hub, "service.db")
    mine, others = manifest(hub, "w1"), manifest(hub, "w2")
    for version in range(2, 7):
        commit(hub, fleet(version, version))
    applied, belongings = applied_in(hub), Belongings(hub.links, hub.blob)
    assert not belongings.has(applied, "w1", web)
    assert belongings.has(applied, "w1", mine) and belongings.has(applied, "w1", web)
    assert not any(belongings.has(applied, "w1", one) for one in (db, others))
    commit(hub, fleet(7, 7))
    assert belongings.has(applied_in(hub), "w1", mine)
