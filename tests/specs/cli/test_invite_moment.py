"""An invite is dated after a revocation of its node: one that was made before it, or in the same second, is refused."""

import pytest

from holdfast.cli.nodes import node_invite
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.invite import Revocation, SignedRevocation
from holdfast.model.node_view import NodeView
from holdfast.model.revision import FORMAT, Head, Header, Table
from holdfast.model.verified_report import VerifiedReport
from tests.fleets.enrolments import NODE_KEY, TRUST
from tests.fleets.orders import FLEET

NOW_S = 1_700_000_000


def moment(revocation: bytes | None) -> int:
    signed = SignedRevocation(revocation, ()) if revocation is not None else None
    known = VerifiedReport(NodeView("w1", ("worker",), "unknown", joined=False, revocation=signed))
    header = Header(FORMAT, FLEET, 5, "a" * 64, canonical.digest(canonical.encode(TRUST)), "b" * 64, {})
    return node_invite._moment(known, Applied(Head(5, "5" * 64), header, Table({}), TRUST, {}), NOW_S)


@pytest.mark.parametrize(
    ("revoked_s", "found_s"), [(NOW_S - 9, NOW_S), (NOW_S, NOW_S + 1), (NOW_S + 9_999_999, NOW_S + 1)]
)
def test_a_revocation_whose_signers_do_not_suffice_any_more_counts_up_to_now(revoked_s: int, found_s: int) -> None:
    """The hub took it under the trust of then, and refuses what is not newer."""
    assert moment(canonical.encode(Revocation(FLEET, "w1", NODE_KEY.line, revoked_s))) == found_s


def test_no_revocation_and_one_that_cannot_be_read_change_nothing() -> None:
    assert moment(None) == moment(b"nonsense") == NOW_S
