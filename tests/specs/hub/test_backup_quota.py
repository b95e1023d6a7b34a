"""How much the store of backups takes of the hub's disk: the ledger can always write, and no node takes all (R05)."""

import pytest

from holdfast.hub.backups import quota
from holdfast.hub.backups.quota import MIB, Held
from holdfast.ports.backup_objects import StoreRoom

GIB = 1024 * MIB
ALONE = Held(0, 0, 1)


@pytest.mark.parametrize(
    ("disk", "reserve"),
    [(100 * MIB, 64 * MIB), (10 * GIB, 512 * MIB), (20 * GIB, GIB), (4096 * GIB, GIB)],
)
def test_a_twentieth_stays_free_within_bounds(disk: int, reserve: int) -> None:
    room = StoreRoom(disk, reserve + 10)
    assert quota.reserve_bytes(room) == reserve and quota.free_bytes(room) == 10
    assert quota.refusal(room, 0, 10, ALONE) is None
    trouble = quota.refusal(room, 0, 11, ALONE)
    assert trouble is not None and trouble.code == "no_space"
    assert quota.refusal(room, 1, 10, ALONE) is not None, "what is being written counts"
    assert quota.free_bytes(StoreRoom(disk, 0)) == 0


def test_a_twentieth_of_the_inodes_stays_free() -> None:
    assert quota.refusal(StoreRoom(100 * GIB, 50 * GIB, 1000, 50), 0, 1, ALONE) is None
    assert quota.refusal(StoreRoom(100 * GIB, 50 * GIB, 1000, 49), 0, 1, ALONE) is not None
    assert quota.refusal(StoreRoom(100 * GIB, 50 * GIB, 0, 0), 0, 1, ALONE) is None, "btrfs has no limit"


def test_the_last_tenth_is_for_nodes_that_have_less_than_an_equal_share() -> None:
    """100 GiB: 1 is reserved, the ten above it are common. Four nodes, 80 GiB stored."""
    nearly = StoreRoom(100 * GIB, 11 * GIB)
    greedy, modest = Held(70 * GIB, 80 * GIB, 4), Held(2 * GIB, 80 * GIB, 4)
    assert quota.refusal(nearly, 0, 16 * MIB, greedy) is not None
    assert quota.refusal(nearly, 0, 16 * MIB, modest) is None
    assert quota.refusal(StoreRoom(100 * GIB, 12 * GIB), 0, 16 * MIB, greedy) is None, "there is room for all"
    assert quota.refusal(nearly, 0, 16 * MIB, Held(80 * GIB, 80 * GIB, 1)) is None, "nobody else needs it"
    assert quota.refusal(StoreRoom(100 * GIB, GIB), 0, 16 * MIB, modest) is not None, "the reserve is for the ledger"
