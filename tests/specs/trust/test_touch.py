"""`destroy_requires = "touch"`: for destroy and root only touched security keys count (A7, D23, S07)."""

from collections.abc import Callable

import pytest

from holdfast.errors import Corrupt, HoldfastError, SignatureRequired
from holdfast.model import canonical
from holdfast.model.fleet import Grade, Thresholds
from holdfast.model.revision import NAMESPACE
from holdfast.model.trust import Trust, of
from holdfast.ports.signer import Signer
from holdfast.trust import enrolment, orders
from holdfast.trust.approval import approve
from tests.fleets.authenticator import Authenticator
from tests.fleets.enrolments import invite, revocation, signed_invite
from tests.fleets.orders import ANN, ANN_SIGNER, BOB, BOB_SIGNER, CAT, CAT_SIGNER, FLEET, NODE, NOW_S, purge, signed

MESSAGE = b"a header"
TOUCH = Thresholds(destroy_requires="touch")
DEE, SAM = Authenticator("dee"), Authenticator("sam", "ecdsa", b"ssh:work")
CLERK = Authenticator("clerk")
OPERATORS = (
    ANN,
    BOB,
    CAT,
    DEE.operator("root"),
    SAM.operator("destroy"),
    CLERK.operator("apply"),
    Authenticator("web", application=b"https://example.org").operator("root"),
)
TRUST = of(OPERATORS, TOUCH)
LIARS: dict[str, Authenticator] = {
    "the bit of the touch is cleared": Authenticator("dee", flags=0),
    "only the bit of the PIN is set": Authenticator("dee", flags=0x04),
    "made for a web site": Authenticator("dee", asked_by=b"https://example.org"),
    "made for another application of SSH": Authenticator("dee", asked_by=b"ssh:work"),
    "ecdsa, the bit is cleared": Authenticator("sam", "ecdsa", b"ssh:work", flags=0),
    "ecdsa, made for another application": Authenticator("sam", "ecdsa", b"ssh:work", asked_by=b"ssh:"),
}
Judge = Callable[[Trust, Signer], object]


def revision(grade: Grade) -> Judge:
    return lambda trust, by: approve(MESSAGE, (by.sign(MESSAGE, NAMESPACE),), grade, (), trust)


def order(trust: Trust, by: Signer) -> object:
    return orders.verify(signed(purge(), by), FLEET, NODE, trust, NOW_S)


JUDGES: dict[str, Judge] = {
    "revision": revision("destroy"),
    "order": order,
    "invite": lambda trust, by: enrolment.verify_invite(signed_invite(invite(), by), FLEET, trust, NOW_S),
    "revocation": lambda trust, by: enrolment.verify_revocation(revocation(by), FLEET, trust),
}


@pytest.mark.parametrize("judge", JUDGES.values(), ids=list(JUDGES))
def test_only_a_touched_security_key_of_the_grade_counts(judge: Judge) -> None:
    assert judge(TRUST, DEE) and judge(TRUST, SAM)
    for other in (ANN_SIGNER, BOB_SIGNER, CAT_SIGNER, CLERK):
        with pytest.raises(SignatureRequired) as refused:
            judge(TRUST, other)
        assert refused.value.exit_code == 4 and "these could sign: dee, sam" in refused.value.message
        assert 'security keys (destroy_requires = "touch"), 0 given' in refused.value.message


@pytest.mark.parametrize("judge", JUDGES.values(), ids=list(JUDGES))
def test_without_the_key_of_trust_nothing_changes(judge: Judge) -> None:
    assert judge(of(OPERATORS, Thresholds()), BOB_SIGNER)


@pytest.mark.parametrize("judge", JUDGES.values(), ids=list(JUDGES))
@pytest.mark.parametrize("liar", LIARS.values(), ids=list(LIARS))
def test_an_authenticator_that_lies_is_refused(liar: Authenticator, judge: Judge) -> None:
    with pytest.raises(Corrupt) as refused:
        judge(TRUST, liar)
    assert refused.value.code == "signature_invalid" and refused.value.remedy


def test_a_key_that_a_web_site_registered_is_no_key_for_ssh() -> None:
    with pytest.raises(SignatureRequired):
        revision("destroy")(TRUST, Authenticator("web", application=b"https://example.org"))


def test_grade_apply_needs_no_touch_and_root_does() -> None:
    for by in (ANN_SIGNER, CAT_SIGNER, CLERK, DEE):
        assert revision("apply")(TRUST, by)
    assert revision("root")(TRUST, DEE)
    for by in (ANN_SIGNER, SAM):
        with pytest.raises(SignatureRequired):
            revision("root")(TRUST, by)


def test_a_threshold_counts_touched_keys_only() -> None:
    pair = of(OPERATORS, Thresholds(destroy=2, destroy_requires="touch"))
    both = tuple(by.sign(MESSAGE, NAMESPACE) for by in (DEE, SAM))
    assert approve(MESSAGE, both, "destroy", (), pair)
    mixed = (both[0], ANN_SIGNER.sign(MESSAGE, NAMESPACE), BOB_SIGNER.sign(MESSAGE, NAMESPACE))
    with pytest.raises(SignatureRequired, match="1 given; these could sign: sam"):
        approve(MESSAGE, mixed, "destroy", (), pair)


@pytest.mark.parametrize(
    ("before", "after", "signers", "enough"),
    [
        (Thresholds(), TOUCH, (ANN_SIGNER,), False),  # who cannot touch under the new trust cannot bring it
        (Thresholds(), TOUCH, (ANN_SIGNER, DEE), True),
        (Thresholds(), TOUCH, (DEE,), True),
        (TOUCH, Thresholds(), (ANN_SIGNER,), False),  # and no file takes it back
        (TOUCH, Thresholds(), (DEE,), True),
    ],
)
def test_the_touch_comes_and_goes_by_a_touch(
    before: Thresholds, after: Thresholds, signers: tuple[Signer, ...], enough: bool
) -> None:
    given = tuple(by.sign(MESSAGE, NAMESPACE) for by in signers)
    try:
        approve(MESSAGE, given, "root", ("trust",), of(OPERATORS, before), of(OPERATORS, after))
    except HoldfastError as refused:
        assert not enough and isinstance(refused, SignatureRequired)
    else:
        assert enough


def test_the_bytes_of_a_trust_without_it_do_not_change() -> None:
    assert b"requires" not in canonical.encode(of(OPERATORS, Thresholds(destroy=2)))
    assert b'"destroy_requires":"touch"' in canonical.encode(TRUST)
    assert canonical.decode(canonical.encode(TRUST), Trust, "the trust") == TRUST
