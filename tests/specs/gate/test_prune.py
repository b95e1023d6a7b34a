"""An object of a backup is deleted only if no backup there needs it, and one that was read back stays (H-30, design.md
§5)."""

import pytest

from holdfast.gate.authority import UNSIGNED, Authority
from holdfast.gate.copies import may_prune
from holdfast.gate.decide import Park
from holdfast.gate.spare import There
from holdfast.model import backup_key
from holdfast.model.fleet import Grade
from holdfast.ports.backup_target import Prunable
from tests.fleets.backup_targets import FLEET, backup_of, pack

PACK = b"content"
KEY = pack(PACK)


def signed(grade: Grade | None, address: str = "service.web") -> Authority:
    return Authority(grade, None, 7, address) if grade is not None else UNSIGNED


def there(
    sequence: int, *packs: bytes, proven: bool = False, read: bool = True, node: str = "w1", epoch: int = 1
) -> There:
    return There(backup_of(sequence, *packs, node=node, epoch=epoch), proven, read, mine=node == "w1")


def receipt(one: There) -> str:
    above = f"{FLEET[: backup_key.FLEET_DIGITS]}/{one.found.receipt.service}/receipts"
    return f"{above}/{one.found.receipt.sequence:08}-{one.found.digest}"


def may(key: str, *found: There, all_known: bool = True, authority: Authority | None = None) -> bool:
    asked = may_prune(key, found, all_known=all_known, node="w1", authority=authority or signed("apply"))
    if isinstance(asked, Park):
        assert asked.grade == "destroy" and asked.sign
        return False
    assert asked == Prunable(key)
    return True


# ---- objects


def test_an_object_that_no_backup_there_needs_is_deleted_while_one_that_was_read_back_stays() -> None:
    assert may(KEY, there(1, b"other"))
    assert not may(KEY), "nothing is known of what is there"
    assert not may(KEY, there(1, b"other", read=False)), "none was read back"
    assert not may(KEY, there(1, b"other"), there(2, b"x", PACK)), "a backup needs it"
    assert not may(backup_key.sealed(FLEET, "web", 1, "manifests", b"manifest 1"), there(1), there(2))


def test_an_object_may_be_of_a_backup_of_another_node() -> None:
    assert not may(KEY, there(1), all_known=False), "a receipt that cannot be verified may need it"
    assert not may(KEY, there(1), there(2, node="w2"))


def test_backups_of_another_service_stay_for_nothing() -> None:
    other = There(backup_of(1, service="shop"), proven=True, read=True)
    assert not may(KEY, other)


def test_no_key_is_deleted() -> None:
    assert not may(backup_key.sealed(FLEET, "web", 1, "keys", b"sealed"), there(1), there(2))


# ---- receipts


def test_the_newest_backup_stays() -> None:
    old, new = there(1), there(2)
    assert may(receipt(old), old, new) and not may(receipt(new), old, new)
    assert not may(receipt(old), old), "it is the last one"


def test_the_newest_proven_backup_stays() -> None:
    one, two, three = there(1, proven=True), there(2, proven=True), there(3)
    assert may(receipt(one), one, two, three) and not may(receipt(two), one, two, three)
    assert not may(receipt(one), one, three), "there is no other proven one any more"


def test_one_that_was_read_back_stays() -> None:
    one, two, three = there(1), there(2, read=False), there(3, read=False)
    assert may(receipt(two), one, two, three) and not may(receipt(one), one, two, three)


def test_a_backup_that_is_not_known_or_of_another_node_stays() -> None:
    one, two, foreign = there(1), there(2), there(1, node="w2")
    assert not may(receipt(there(7)), one, two) and not may(receipt(foreign), foreign, one, two)


# ---- of a node that had the service before


def test_a_backup_of_the_node_before_goes_once_this_one_has_its_own_proven_and_read() -> None:
    old = there(500, PACK, node="w2", read=True, proven=True)
    for mine in ((there(1, epoch=2),), (there(1, proven=True, read=False, epoch=2),), (there(9, proven=True),)):
        assert not may(receipt(old), old, *mine) and not may(KEY, *mine, old)
    proven, read = there(1, proven=True, read=False, epoch=2), there(2, epoch=2)
    assert may(receipt(old), old, proven, read)
    assert not may(KEY, old, proven, read), "as long as it is there it needs its objects"
    assert may(pack(b"of no backup"), old, proven, read) and may(KEY, proven, read)
    assert not may(receipt(old), old, proven, there(2, node="w3", epoch=2)), "what another node claims is no reading"
    assert not may(receipt(old), old, read, there(1, node="w3", epoch=2, proven=True))
    between = there(500, node="w2", epoch=2)
    first, last = there(1), there(2, proven=True, read=False, epoch=3)
    assert not may(receipt(between), between, first, last), "what was read is older than it"
    assert may(receipt(between), between, first, last, there(3, epoch=3))


def test_what_another_node_claims_protects_and_endangers_nothing_of_this_one() -> None:
    one, two = there(1, proven=True), there(2)
    claims = there(900, node="w2", epoch=9, proven=True)
    assert may(receipt(one), one, there(3, proven=True), claims) and not may(receipt(two), one, two, claims)
    assert not may(receipt(one), one, two, claims), "a proof of another node's backup is none"
    plain = there(1)
    assert not may(receipt(plain), plain, there(2, read=False), claims), "nor is a reading"
    assert not may(receipt(claims), claims, one, two)


def test_a_later_epoch_is_newer_whatever_the_number() -> None:
    before, now = there(500), there(1, epoch=2)
    assert may(receipt(before), before, now) and not may(receipt(now), before, now)


# ---- authority


@pytest.mark.parametrize("authority", [UNSIGNED, signed("apply", "service.other")])
def test_it_needs_the_authority_of_its_service(authority: Authority) -> None:
    found = may_prune(KEY, [there(1)], all_known=True, node="w1", authority=authority)
    assert isinstance(found, Park)


def test_grade_destroy_deletes_the_last_one() -> None:
    last = there(1)
    assert may(receipt(last), last, authority=signed("destroy"))
