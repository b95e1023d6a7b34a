"""Without fleet.lock a chain alone is not believed: anybody can found a fleet and have a hub show it (I-12, W14)."""

import pytest
from msgspec.structs import replace

from holdfast.adapters.disk.memory import MemoryDisk
from holdfast.cli.fleet.seen_heads import Heads
from holdfast.errors import Corrupt
from holdfast.hub.ledger.revisions import Revisions
from holdfast.model.fleet import Fleet, Thresholds
from tests.fleets.build import ALICE, commit, mailbox, operator_signer, small_fleet
from tests.fleets.directories import files

URL = "https://hub.test:9555"
MALLORY, MALLORY_SIGNER = operator_signer("mallory", "apply")
TEAM = small_fleet(operators=(ALICE, MALLORY))


def founded(fleet: Fleet, *signers: object) -> Revisions:
    hub = mailbox()
    commit(hub, fleet, *signers)  # type: ignore[arg-type]
    return hub


def fleet_id(hub: Revisions) -> str:
    found = hub.applied()
    assert found is not None
    return found.fleet_id


OURS = founded(TEAM)
HERS = founded(replace(TEAM, operators=(ALICE, replace(MALLORY, grade="root"))), MALLORY_SIGNER)


def cloned(disk: MemoryDisk, fleet: Fleet | None = TEAM, hub: str = "", fleet_dir: str = "/fleet") -> Heads:
    """A directory as version control has it, but without fleet.lock."""
    disk.make_directory(fleet_dir)
    if fleet is not None:
        disk.replace(f"{fleet_dir}/fleet.toml", files(fleet)["fleet.toml"])
    return Heads(disk, fleet_dir, "/state", hub)


def test_a_clone_without_its_lock_works_if_its_operators_are_the_applied_ones() -> None:
    assert cloned(MemoryDisk()).check(OURS) == OURS.applied()


def test_a_fleet_of_other_operators_is_not_taken_for_this_one() -> None:
    """Mallory has the lesser key in this fleet, and founds one of her own where it is the greater."""
    heads = cloned(MemoryDisk())
    with pytest.raises(Corrupt) as refused:
        heads.check(HERS, adopt=True)
    assert refused.value.code == "fleet_unproven" and "fleet.lock" in refused.value.remedy
    assert "mallory apply" in refused.value.message and "mallory root" in refused.value.message
    assert heads.memory(fleet_id(HERS)) is None, "nothing of it is remembered"


def test_thresholds_and_the_fleets_own_id_count_as_well() -> None:
    for other in (Thresholds(destroy=2), Thresholds(id="0123456789abcdef")):
        with pytest.raises(Corrupt) as refused:
            cloned(MemoryDisk(), replace(TEAM, thresholds=other)).check(OURS)
        assert refused.value.code == "fleet_unproven"


@pytest.mark.parametrize("fleet", [TEAM, None])
def test_a_directory_that_was_another_fleet_before_is_not_believed(fleet: Fleet | None) -> None:
    disk = MemoryDisk()
    heads = cloned(disk, fleet)
    heads.check(OURS)
    with pytest.raises(Corrupt) as refused:
        heads.check(HERS)
    assert refused.value.code == "other_fleet" and "/state/places/" in refused.value.remedy


def test_a_hub_that_was_another_fleet_before_is_not_believed_from_anywhere() -> None:
    disk = MemoryDisk()
    cloned(disk, TEAM, URL).check(OURS)
    for fleet_dir, fleet in (("/home", None), ("/other", replace(TEAM, operators=(ALICE,)))):
        with pytest.raises(Corrupt) as refused:
            cloned(disk, fleet, URL, fleet_dir).check(HERS)
        assert refused.value.code == "other_fleet"
    declaring = replace(TEAM, settings=replace(TEAM.settings, hub=URL))
    with pytest.raises(Corrupt) as refused:
        cloned(disk, declaring, "", "/third").check(HERS)
    assert refused.value.code == "other_fleet"


def test_somebody_who_stands_anywhere_may_look_at_two_hubs() -> None:
    disk = MemoryDisk()
    assert cloned(disk, None, URL, "/home").check(OURS) == OURS.applied()
    assert cloned(disk, None, "https://other.test:9555", "/home").check(HERS) == HERS.applied()


def test_a_fleet_seen_before_may_be_planned_from_a_directory_that_changes_its_operators() -> None:
    disk = MemoryDisk()
    cloned(disk).check(OURS)
    grown = replace(TEAM, operators=(*TEAM.operators, operator_signer("carol")[0]))
    assert cloned(disk, grown, fleet_dir="/second").check(OURS) == OURS.applied()


def test_a_fleet_founded_anew_takes_the_place_of_the_one_before() -> None:
    """What removing fleet.lock is for: the operator's own commit says so, no hub's word."""
    disk = MemoryDisk()
    heads = cloned(disk)
    heads.check(OURS)
    new = founded(replace(TEAM, thresholds=Thresholds(id="0123456789abcdef")))
    applied = new.applied()
    assert applied is not None
    heads.moved(applied.fleet_id, applied.head)
    for kept in (disk.files, disk.modes):
        del kept["/fleet/fleet.lock"]
    assert heads.check(new) == applied


def test_a_memory_of_a_place_that_cannot_be_read_is_said() -> None:
    disk = MemoryDisk()
    heads = cloned(disk, TEAM)
    heads.check(OURS)
    (path,) = [path for path in disk.files if path.startswith("/state/places/")]
    disk.replace(path, b"{")
    with pytest.raises(Corrupt) as refused:
        heads.check(OURS)
    assert refused.value.code == "memory_damaged" and path in refused.value.remedy
