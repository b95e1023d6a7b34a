"""An object of a backup is deleted only if no kept backup needs it and a proven one stays (H-30, design.md §5)."""

from itertools import product

import pytest

from holdfast.gate.authority import NOBODY, Authority
from holdfast.gate.copies import may_prune
from holdfast.gate.decide import Park
from holdfast.model.fleet import Grade
from holdfast.ports.backup_target import Prunable
from tests.fleets.backup_targets import pack

KEY = pack(b"content")


def signed(grade: Grade | None, address: str = "service.web") -> Authority:
    return Authority(grade, None, 7, address) if grade is not None else NOBODY


@pytest.mark.parametrize(("own", "needed", "stays"), list(product((True, False), repeat=3)))
def test_an_applied_revision_prunes_what_the_node_made_and_no_kept_backup_needs(
    own: bool, needed: bool, stays: bool
) -> None:
    found = may_prune(KEY, is_own=own, is_needed=needed, proven_stays=stays, node="w1", authority=signed("apply"))
    assert isinstance(found, Prunable) == (own and stays and not needed)
    if isinstance(found, Prunable):
        assert found.key == KEY
    else:
        assert found.grade == "destroy" and found.sign


@pytest.mark.parametrize("authority", [NOBODY, signed("apply", "service.other")])
def test_it_needs_the_authority_of_its_service(authority: Authority) -> None:
    found = may_prune(KEY, is_own=True, is_needed=False, proven_stays=True, node="w1", authority=authority)
    assert isinstance(found, Park)


def test_grade_destroy_deletes_the_last_one() -> None:
    found = may_prune(KEY, is_own=False, is_needed=True, proven_stays=False, node="w1", authority=signed("destroy"))
    assert found == Prunable(KEY)
