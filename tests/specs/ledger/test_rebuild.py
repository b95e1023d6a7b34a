"""Whatever was applied, its table can be put together again from the manifests of its nodes."""

from hypothesis import given, settings

from holdfast.ledger.rebuild import Spare, rebuild
from holdfast.model.fleet import Fleet
from holdfast.planning.kinds.every import documents, holders
from holdfast.planning.plan import plan
from tests.fleets.build import mailbox, signed
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
