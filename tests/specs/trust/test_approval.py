"""Enough signatures, of the right grade, within scope; trust changes by the old and the new."""

import pytest
from msgspec.structs import replace

from holdfast.adapters.signer.memory import MemorySigner
from holdfast.errors import Corrupt, HoldfastError, NotPermitted, SignatureRequired
from holdfast.model.fleet import Grade, Operator, Thresholds
from holdfast.model.revision import NAMESPACE
from holdfast.model.ssh_key import line
from holdfast.model.trust import GRADES, Trust, of
from holdfast.trust.approval import SIGNATURES_MAX, approve

SIGNERS = {name: MemorySigner(name.encode().ljust(32, b".")) for name in ("ann", "bob", "cat", "eve", "ci")}
MESSAGE = b"a header"


def operator(name: str, grade: Grade, *scope: str) -> Operator:
    return Operator(name, line(SIGNERS[name].public_key), grade, scope=scope)


def signed(*names: str, message: bytes = MESSAGE, namespace: str = NAMESPACE) -> tuple[str, ...]:
    return tuple(SIGNERS[name].sign(message, namespace) for name in names)


def trust(*operators: Operator, **thresholds: int) -> Trust:
    return of(operators, replace(Thresholds(), **thresholds))


TEAM = trust(operator("ann", "root"), operator("bob", "destroy"), operator("cat", "apply"), destroy=2)


@pytest.mark.parametrize("have", GRADES)
@pytest.mark.parametrize("need", GRADES)
def test_a_grade_covers_itself_and_everything_below(have: Grade, need: Grade) -> None:
    alone = trust(operator("ann", have))
    if GRADES.index(have) >= GRADES.index(need):
        assert [s.operator for s in approve(MESSAGE, signed("ann"), need, (), alone).signers] == ["ann"]
    else:
        with pytest.raises(SignatureRequired) as refused:
            approve(MESSAGE, signed("ann"), need, (), alone)
        assert refused.value.exit_code == 4 and "holdfast sign" in refused.value.remedy


def test_a_threshold_counts_operators_not_signatures() -> None:
    with pytest.raises(SignatureRequired, match=r"needs 2 signatures, 1 given; these could sign: ann"):
        approve(MESSAGE, signed("bob", "bob"), "destroy", (), TEAM)
    with pytest.raises(SignatureRequired, match="1 given"):
        approve(MESSAGE, signed("bob", "cat"), "destroy", (), TEAM)
    assert len(approve(MESSAGE, signed("bob", "ann"), "destroy", (), TEAM).signers) == 2


@pytest.mark.parametrize(
    "signatures",
    [
        signed("ann", message=b"another header"),
        signed("ann", namespace="holdfast-invite"),
        ("-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n",),
        ("",),
        signed("ann") * (SIGNATURES_MAX + 1),
    ],
)
def test_a_forged_signature_is_corruption_even_beside_a_good_one(signatures: tuple[str, ...]) -> None:
    """S07: other message, other namespace, garbage, flood."""
    with pytest.raises(Corrupt) as refused:
        approve(MESSAGE, (*signed("bob"), *signatures), "apply", (), TEAM)
    assert refused.value.exit_code == 7


def test_a_stranger_is_not_permitted_even_beside_an_operator() -> None:
    with pytest.raises(NotPermitted, match="belongs to no operator"):
        approve(MESSAGE, signed("ann", "eve"), "apply", (), TEAM)


def test_no_signature_is_not_enough() -> None:
    with pytest.raises(SignatureRequired, match="0 given"):
        approve(MESSAGE, (), "apply", (), TEAM)


def test_a_scope_is_kept_to() -> None:
    with_ci = trust(operator("ann", "root"), operator("ci", "apply", "service.web"))
    assert approve(MESSAGE, signed("ci"), "apply", ("service.web",), with_ci)
    with pytest.raises(SignatureRequired, match=r"ci may not sign for service\.db"):
        approve(MESSAGE, signed("ci"), "apply", ("service.web", "service.db"), with_ci)


ROTATED = trust(operator("eve", "root"), operator("bob", "destroy"))


@pytest.mark.parametrize(
    ("names", "enough"),
    [(("ann", "eve"), True), (("ann",), False), (("eve",), False), (("bob", "eve"), False), (("ann", "bob"), False)],
)
def test_trust_changes_by_the_root_threshold_of_the_old_and_the_new(names: tuple[str, ...], enough: bool) -> None:
    """design §3, like TUF roots."""
    try:
        approve(MESSAGE, signed(*names), "root", ("trust",), TEAM, ROTATED)
    except HoldfastError as refused:
        assert not enough and isinstance(refused, SignatureRequired)
    else:
        assert enough
