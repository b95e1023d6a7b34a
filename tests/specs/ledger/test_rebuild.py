"""Whatever was applied, its table can be put together again from the manifests of its nodes."""

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from holdfast.hub.nodes.node_contents import named
from holdfast.ledger.rebuild import Incomplete, Spare, rebuild
from holdfast.model import canonical
from holdfast.model.applied import EMPTY_TABLE
from holdfast.model.fleet import AlertTarget, Fleet, Node
from holdfast.planning.kinds.every import documents, holders
from holdfast.planning.plan import plan
from holdfast.planning.table import draft
from tests.fleets.build import commit, mailbox, signed, small_fleet
from tests.fleets.sealing import node_key, sealed_to
from tests.fleets.strategies import SIGNER, fleets


@settings(max_examples=60, deadline=None)
@given(fleets(), fleets())
def test_manifests_and_the_directory_are_the_whole_table_i_22(first: Fleet, second: Fleet) -> None:
    """Also after removals of every kind: each tombstone is in some node's manifest."""
    hub = mailbox()
    hub.commit(signed(plan(first, None), SIGNER))
    planned = plan(second, hub.applied())
    if planned.candidate is not None:
        hub.commit(signed(planned, SIGNER))
    applied = hub.applied()
    assert applied is not None
    handed = {node: hub.blob(digest) or b"" for node, digest in applied.header.manifests.items()}
    texts = documents(second)
    alerts = {
        address: Spare(applied.table.entries[address], text, holders(address, applied.table))
        for address, text in texts.items()
        if address.startswith("alert.")
    }
    found = rebuild(applied.header, handed, applied.contents, alerts)
    assert found.table == applied.table
    assert found.contents.keys() == {entry.digest for entry in applied.table.entries.values()}


@pytest.mark.parametrize("absent", ["", "w1", "w1 w2"])
def test_a_target_that_nodes_send_to_comes_back_from_one_of_them_or_from_the_directory_x17(absent: str) -> None:
    phone = AlertTarget("phone", secret="phone-url", nodes=("w1", "w2"), after="5m")
    url = sealed_to("w1", "w2", "@ada")
    nodes = {name: Node(name, ("worker",), key=node_key(name)) for name in ("w1", "w2", "w3")}
    fleet = replace(small_fleet(), nodes=nodes, alerts={"phone": phone}, secrets={"phone-url": url})
    hub, texts = mailbox(), documents(fleet)
    commit(hub, fleet)
    applied = hub.applied()
    assert applied is not None
    handed = {
        node: hub.blob(digest) or b"" for node, digest in applied.header.manifests.items() if node not in absent.split()
    }
    contents = {digest: applied.contents[digest] for text in handed.values() for digest in named(text)}
    contents[applied.header.trust] = applied.contents[applied.header.trust]  # comes with the chain
    drafted = draft(fleet, texts, EMPTY_TABLE, {}, {}, 1).table
    spares = {a: Spare(entry, texts[a], holders(a, drafted), (url,)) for a, entry in drafted.entries.items()}
    found = rebuild(applied.header, handed, contents, spares if absent else {})
    assert found.table == applied.table and found.contents[canonical.digest(url)] == url
    assert ("alert.phone" in found.guessed) == (absent == "w1 w2")
    if absent:
        with pytest.raises(Incomplete):
            rebuild(applied.header, handed, contents, {})
