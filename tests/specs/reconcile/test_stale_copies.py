"""Which copy the data of a service is that is not placed here any more, and of which epoch."""

import pytest

from holdfast.model.manifest import NodeManifest
from holdfast.model.move import Move
from holdfast.model.revision import Entry, Tombstone
from holdfast.reconcile.moves import Out
from holdfast.reconcile.stale_copies import Left, epoch_of, is_in_transit, leaving, state_of

WEB, DIGEST = "service.web", "a" * 64
HERE = Entry(DIGEST, "w1", 3)
AWAY = Entry(DIGEST, "w2", 4, move=Move("w1"))
STONE = Tombstone(DIGEST, 9, "w1", 3)
OUT, SIGNED = Out(4, HERE), Out(4, HERE, handover=b"signed")


def manifest(**changed: dict[str, Entry] | dict[str, Tombstone]) -> NodeManifest:
    return NodeManifest("f" * 64, "w1", DIGEST, Entry(DIGEST), **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (manifest(services={WEB: HERE}), manifest(), Left(3, 5.0)),
        (manifest(services={WEB: HERE}), manifest(retired={WEB: STONE}), Left(3, 5.0, is_removed=True)),
        (manifest(services={WEB: HERE}), manifest(handover={WEB: AWAY}), None),
        (manifest(handover={WEB: AWAY}), manifest(), Left(4, 5.0)),
        (manifest(services={WEB: HERE}), manifest(services={WEB: HERE}), None),
        (None, manifest(), None),
        (manifest(services={WEB: HERE}), None, None),
    ],
)
def test_what_a_revision_takes_away(
    before: NodeManifest | None, after: NodeManifest | None, found: Left | None
) -> None:
    assert dict(leaving(before, after, 5.0)) == ({"web": found} if found is not None else {})


@pytest.mark.parametrize(
    ("epoch", "out", "left", "state"),
    [
        (3, SIGNED, None, "superseded"),
        (3, SIGNED, Left(4, 5.0), "superseded"),  # the move ended, and a later revision does not mention this node
        (3, OUT, None, ""),  # not handed over: it still runs here
        (3, OUT, Left(4, 5.0), "fenced"),  # before it was handed over, a newer epoch began with a backup
        (5, SIGNED, Left(5, 5.0), "fenced"),  # it had come back here since
        (3, None, Left(3, 5.0), "fenced"),
        (3, None, Left(3, 5.0, is_removed=True), ""),
        (3, None, None, ""),
    ],
)
def test_whose_copy_it_is(epoch: int, out: Out | None, left: Left | None, state: str) -> None:
    assert state_of(epoch, out, left) == state


def test_the_epoch_is_that_of_what_wrote_the_data_and_else_that_of_the_books() -> None:
    assert epoch_of(7, OUT, Left(5, 0.0), 2) == 7
    assert epoch_of(0, OUT, Left(5, 0.0), 2) == 3, "as it was before the move"
    assert epoch_of(0, None, Left(5, 0.0), 2) == 5
    assert epoch_of(0, None, None, 2) == 2
    assert epoch_of(0, Out(4), None, 2) == 2


def test_data_is_in_transit_until_the_other_node_has_all_of_it() -> None:
    moving = manifest(handover={WEB: AWAY})
    assert is_in_transit(WEB, moving, SIGNED) and is_in_transit(WEB, moving, OUT)
    assert not is_in_transit(WEB, moving, Out(4, HERE, handover=b"signed", is_taken=True))
    assert not is_in_transit(WEB, manifest(), SIGNED), "the revision in force moves it no more"
    assert not is_in_transit(WEB, moving, Out(2, HERE, handover=b"signed")), "an earlier move"
    assert not is_in_transit(WEB, moving, None)
