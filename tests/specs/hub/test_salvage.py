"""A ledger that was lost comes back from what nodes hold, or says what is missing; a stranger adds nothing to it."""

import asyncio
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from holdfast.adapters.acceptance.memory import MemoryAcceptance
from holdfast.adapters.high_water.memory import MemoryHighWater
from holdfast.adapters.ledger_store.memory import MemoryStore
from holdfast.agent.link.salvage import hand_over
from holdfast.cli.fleet.seen_heads import verify_since
from holdfast.errors import Conflict, HoldfastError, Invalid
from holdfast.hub.ledger.ledger_check import examine
from holdfast.hub.ledger.restore import Restored, restore
from holdfast.hub.ledger.revisions import Revisions
from holdfast.hub.ledger.salvage import Salvage
from holdfast.ledger import keys
from holdfast.ledger.rebuild import Incomplete, Spare
from holdfast.model.applied import EMPTY_TABLE, Applied
from holdfast.model.fleet import Fleet
from holdfast.model.record import Link
from holdfast.model.revision import NO_HEAD
from holdfast.model.rules import met_at
from holdfast.model.salvage import SalvageAnswer, SalvagePart
from holdfast.planning.kinds.every import documents, holders
from holdfast.planning.plan import plan
from holdfast.planning.table import draft
from tests.fleets.build import START_S, commit, mailbox, operator_signer, signed, small_fleet
from tests.fleets.salvage import accepted_by, empty_ledger, lived_in, rich_fleet

EVE, EVE_SIGNER = operator_signer("eve")


def directory(fleet: Fleet) -> dict[str, Spare]:
    texts = documents(fleet)
    table = draft(fleet, texts, EMPTY_TABLE, {}, {}, 1).table
    return {address: Spare(entry, texts[address], holders(address, table)) for address, entry in table.entries.items()}


def give(salvage: Salvage, node: str, held: MemoryAcceptance) -> bool:
    sent = 0

    async def send(part: SalvagePart) -> SalvageAnswer:
        nonlocal sent
        sent += 1
        assert sent < 20, "a node goes on for ever"
        return salvage.take(part)

    return asyncio.run(hand_over(node, held, send))


def applied_of(hub: Revisions) -> Applied:
    found = hub.applied()
    assert found is not None
    return found


def rebuilt(
    hub: Revisions, nodes: Mapping[str, int], spares: Mapping[str, Spare]
) -> tuple[MemoryStore, Restored, MemoryHighWater]:
    """`nodes`: name → the first revision it holds. Twice around, as agents try again by themselves."""
    store, mark = empty_ledger(applied_of(hub).fleet_id), MemoryHighWater()
    salvage = Salvage(store)
    for _ in range(2):
        for node, since in nodes.items():
            give(salvage, node, accepted_by(hub, node, since))
    return store, restore(store, mark, spares, START_S), mark


def test_a_lost_ledger_comes_back_from_its_nodes_and_the_directory() -> None:
    """O-33: it boots, hub check finds nothing, and a plan sees no difference."""
    hub = lived_in()
    store, restored, mark = rebuilt(hub, {"w1": 1, "w2": 1}, directory(rich_fleet()))
    assert restored.head == applied_of(hub).head == mark.read()
    assert restored.guessed == ("alert.chat",)
    verdict = examine(store, mark)
    assert verdict.findings == ()
    assert verdict.notes == ("history before revision 3 was not kept: the ledger was rebuilt from what nodes held",)
    assert verdict.signatures == 3
    again = mailbox(store, high_water=mark)
    assert applied_of(again).table == applied_of(hub).table
    now = replace(rich_fleet(), services={n: s for n, s in rich_fleet().services.items() if n != "old"})
    assert plan(now, again.applied()).candidate is None
    assert store.scan("salvage/") == []


def test_life_goes_on_after_it() -> None:
    hub = lived_in()
    store, _, mark = rebuilt(hub, {"w1": 1, "w2": 1}, directory(rich_fleet()))
    again = mailbox(store, high_water=mark)
    changed = replace(rich_fleet(2), services={n: s for n, s in rich_fleet(2).services.items() if n != "old"})
    assert commit(again, changed).number == 4
    verdict = examine(store, mark)
    assert (verdict.findings, verdict.revisions) == ((), 4)


def test_a_node_that_joined_later_is_of_use_once_another_brings_the_beginning() -> None:
    hub = lived_in()
    _, restored, _ = rebuilt(hub, {"w2": 3, "w1": 1}, directory(rich_fleet()))
    assert restored.head == applied_of(hub).head


def test_without_the_beginning_of_the_chain_nothing_is_believed() -> None:
    hub = lived_in()
    with pytest.raises(Incomplete, match="begins with revision 1") as trouble:
        rebuilt(hub, {"w1": 2, "w2": 3}, {})
    assert trouble.value.exit_code == 7


def test_a_missing_node_is_named() -> None:
    hub = lived_in()
    with pytest.raises(Incomplete, match="w2 sent nothing") as trouble:
        rebuilt(hub, {"w1": 1}, {})
    assert "(`holdfast agent run`) on w2" in trouble.value.remedy


def test_the_directory_stands_in_for_a_node_that_is_gone() -> None:
    """Only while no identity was recorded for it: nobody else knows its key."""
    hub = mailbox()
    commit(hub, rich_fleet())
    _, restored, _ = rebuilt(hub, {"w1": 1}, directory(rich_fleet()))
    assert {"node.w2", "service.b", "service.old", "policy.one", "alert.chat"} == set(restored.guessed)


def test_alerts_that_the_directory_has_no_more_are_named_as_what_is_missing() -> None:
    hub = lived_in()
    with pytest.raises(Incomplete, match="what no node holds"):
        rebuilt(hub, {"w1": 1, "w2": 1}, {})


def test_alerts_that_the_directory_has_besides_do_no_harm() -> None:
    hub = lived_in(replace(rich_fleet(), alerts={}))
    _, restored, _ = rebuilt(hub, {"w1": 1, "w2": 1}, directory(rich_fleet()))
    assert restored.guessed == ()


def test_a_content_that_nobody_has_is_named() -> None:
    hub = lived_in()
    store = empty_ledger(applied_of(hub).fleet_id)
    salvage = Salvage(store)
    for node in ("w1", "w2"):
        held = accepted_by(hub, node)
        held._blobs.pop(applied_of(hub).table.entries["service.b"].digest, None)
        give(salvage, node, held)
    spares = {address: spare for address, spare in directory(rich_fleet()).items() if address != "service.b"}
    with pytest.raises(Incomplete, match=r"content of service\.b"):
        restore(store, MemoryHighWater(), spares, START_S)
    assert store.get(keys.HEAD) is None


def strange_chain(fleet_id: str) -> list[Link]:
    """A whole chain that eve signed, which calls itself this fleet."""
    hub = mailbox()
    hub.commit(signed(plan(small_fleet(operators=(EVE,)), None), EVE_SIGNER))
    (link,) = hub.links(1, 1)
    return [replace(link, header_bytes=link.header_bytes.replace(link.header.fleet.encode(), fleet_id.encode()))]


def test_a_stranger_hands_in_nothing() -> None:
    """I-12: unsigned, forged and foreign parts leave the store as it was."""
    hub = lived_in()
    fleet = applied_of(hub).fleet_id
    store = empty_ledger(fleet)
    salvage = Salvage(store)
    (first,) = hub.links(1, 1)
    forged = replace(first, signatures=())
    for links in (
        [forged],
        strange_chain(fleet),
        [replace(first, header_bytes=b"{}")],
        [replace(first, trust_bytes=b"")],
    ):
        with pytest.raises(Invalid):
            salvage.take(SalvagePart(fleet, "w1", links=tuple(links)))
    with pytest.raises(Invalid):
        salvage.take(SalvagePart("f" * 64, "w1", links=(first,)))
    with pytest.raises(Invalid):
        salvage.take(SalvagePart(fleet, "../x", links=(first,)))
    litter = b"anything"
    salvage.take(SalvagePart(fleet, "w1", manifest=litter, blobs={"0" * 64: litter}))
    assert store.scan("salvage/") == []
    assert list(store.blob_digests()) == []


def test_a_manifest_or_content_that_no_revision_names_is_not_kept() -> None:
    hub = lived_in()
    fleet = applied_of(hub).fleet_id
    store = empty_ledger(fleet)
    salvage = Salvage(store)
    give(salvage, "w1", accepted_by(hub, "w1"))
    before = [record.key for record in store.scan("salvage/")]
    salvage.take(SalvagePart(fleet, "w2", manifest=b"{}", blobs={"0" * 64: b"x"}))
    assert [record.key for record in store.scan("salvage/")] == before


def test_a_hub_that_has_a_revision_wants_nothing() -> None:
    hub = lived_in()
    store, _, _ = rebuilt(hub, {"w1": 1, "w2": 1}, directory(rich_fleet()))
    salvage = Salvage(store)
    assert give(salvage, "w1", accepted_by(hub, "w1"))
    with pytest.raises(Conflict):
        restore(store, MemoryHighWater(), {}, START_S)


def test_nobody_founds_the_fleet_a_second_time_while_nodes_hold_the_first() -> None:
    hub = lived_in()
    store = empty_ledger(applied_of(hub).fleet_id)
    give(Salvage(store), "w1", accepted_by(hub, "w1"))
    with pytest.raises(HoldfastError) as trouble:
        commit(mailbox(store), rich_fleet())
    assert trouble.value.code == "ledger_lost"


def test_a_restarted_hub_goes_on_where_it_was() -> None:
    hub = lived_in()
    store = empty_ledger(applied_of(hub).fleet_id)
    held = accepted_by(hub, "w1")
    first = Salvage(store).take(SalvagePart(applied_of(hub).fleet_id, "w1", links=tuple(held.links(1, 2))))
    assert first.head.number == 2
    assert give(Salvage(store), "w1", held)
    assert [record.key[-1] for record in store.scan(keys.SALVAGED_LINKS)] == ["1", "2", "3"]


def test_a_node_that_is_behind_is_not_asked_for_ever() -> None:
    """Its manifest is of an older revision: the hub cannot use it, and the node stops."""
    hub = lived_in()
    behind = accepted_by(hub, "w2")
    changed = replace(rich_fleet(), services={"b": small_fleet({"b": 9}).services["b"]})
    later = replace(changed, services={"b": replace(changed.services["b"], node="w2")})
    hub.commit(signed(plan(later, hub.applied())))
    store = empty_ledger(applied_of(hub).fleet_id)
    salvage = Salvage(store)
    give(salvage, "w1", accepted_by(hub, "w1"))
    assert not give(salvage, "w2", behind)
    with pytest.raises(Incomplete, match="w2 sent nothing"):
        restore(store, MemoryHighWater(), {}, START_S)


def test_who_has_seen_no_newer_revision_is_told_where_to_start_instead() -> None:
    """Grades of older revisions cannot be judged without their tables, and a hub's word is not enough (I-37)."""
    hub = lived_in()
    store, _, mark = rebuilt(hub, {"w1": 1, "w2": 1}, directory(rich_fleet()))
    again = mailbox(store, high_water=mark)
    with pytest.raises(HoldfastError) as trouble:
        verify_since(again, applied_of(again), NO_HEAD, met_at(0))
    assert trouble.value.code == "history_not_kept"
    verify_since(again, applied_of(again), applied_of(hub).head, met_at(0))
