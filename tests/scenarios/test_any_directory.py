"""From any directory to any other, through every room: declare, plan, sign, commit, and rest (M-120, I-22)."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.adapters.fleet_directory.memory import MemoryFleetDirectory
from holdfast.adapters.high_water.memory import MemoryHighWater
from holdfast.declared.load import load
from holdfast.hub.ledger.ledger_check import examine
from holdfast.model.fleet import Fleet
from holdfast.planning.plan import plan
from tests.fleets.build import mailbox, signed
from tests.fleets.directories import files
from tests.fleets.strategies import SIGNER, fleets


def declared(fleet: Fleet, chance: Any = None) -> Fleet:
    """Written to files and read back, in whatever order the file system lists them."""
    found = list(files(fleet).items())
    if chance is not None:
        chance.shuffle(found)
    return load(MemoryFleetDirectory(dict(found)))


@settings(max_examples=60, deadline=None)
@given(fleets(), fleets())
def test_any_directory_after_any_other_is_applied_and_then_rests(one: Fleet, other: Fleet) -> None:
    """plan(A→B) applied, then plan(B→B) is empty; the ledger that results is sound from the first revision on."""
    hub = mailbox()
    for fleet in (one, other):
        step = plan(declared(fleet), hub.applied())
        if step.candidate is not None:
            hub.commit(signed(step, SIGNER))
        assert plan(declared(fleet), hub.applied()).changes == ()
    assert examine(hub._store, MemoryHighWater()).findings == ()
    assert mailbox(hub._writable).applied() == hub.applied(), "what is applied is what the next boot serves"


@settings(max_examples=60, deadline=None)
@given(fleets(with_data=True), st.randoms(use_true_random=False))
def test_the_order_of_files_changes_no_signed_byte(one: Fleet, chance: Any) -> None:
    """I-22."""
    assert plan(declared(one), None) == plan(declared(one, chance), None)


@settings(max_examples=30, deadline=None)
@given(fleets(with_data=True))
def test_what_is_written_is_what_is_read(one: Fleet) -> None:
    """The generator itself: nothing a drawn fleet says gets lost on the way through the files."""
    found = declared(one)
    assert (found.nodes, found.storage, found.policies) == (one.nodes, one.storage, one.policies)
    assert found.services.keys() == one.services.keys()
