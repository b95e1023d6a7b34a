"""A hub shows keys, pulses and reports; only what operators' and nodes' signatures prove counts (I-12, D10)."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.node_view import NodesAnswer, NodeView
from holdfast.model.report import PULSE_NAMESPACE, Pulse, Report, SignedPulse
from holdfast.model.revision import FORMAT, Entry, Head, Header, NodeIdentity, Table
from holdfast.trust.own_signature import armoured
from holdfast.trust.reports import Identities, Reports, verify
from tests.fleets.enrolments import (
    NODE_KEY,
    OTHER_KEY,
    TRUST,
    enrolment,
    invite,
    key,
    revocation,
    signed_invite,
)
from tests.fleets.orders import EVE_SIGNER, FLEET, NOW_S

ISSUER = b"der of an issuing certificate"


def applied(known: NodeIdentity | UnsetType = UNSET) -> Applied:
    digest = canonical.digest(canonical.encode(TRUST))
    header = Header(FORMAT, FLEET, 3, "a" * 64, digest, "b" * 64, {})
    return Applied(Head(3, "c" * 64), header, Table({"node.w1": Entry("d" * 64, identity=known)}), TRUST, {})


def signed_report(key: Any = NODE_KEY, node: str = "w1", fleet: str = FLEET) -> dict[str, Any]:
    report = msgspec.json.encode(Report(fleet, node, "1", issuer=ISSUER))
    pulse = msgspec.json.encode(Pulse(fleet, node, 1, 1.0, report=canonical.digest(report)))
    return {"pulse": SignedPulse(pulse, armoured(key, pulse, PULSE_NAMESPACE)), "report": report}


def looked(known: NodeIdentity | UnsetType = UNSET, at_s: float = NOW_S + 60, **shown: Any) -> Reports:
    view = NodeView("w1", ("worker",), "healthy", **shown)
    return verify(NodesAnswer((view,), 0.0), applied(known), at_s)


def seen(known: NodeIdentity | UnsetType = UNSET, at_s: float = NOW_S + 60, **shown: Any) -> Identities:
    return looked(known, at_s, **shown).identities


MINE = NodeIdentity(NODE_KEY.line)
PINNED = NodeIdentity(NODE_KEY.line, canonical.digest(ISSUER), ISSUER)
THEIRS = NodeIdentity(OTHER_KEY.line)
REPLACING = signed_invite(invite(replaces=True, over=OTHER_KEY.line))


def test_an_enrolment_proves_the_key_and_its_report_the_certificate() -> None:
    assert seen(enrolment=enrolment()).proven == {"w1": MINE}
    assert seen(enrolment=enrolment(), **signed_report()).proven == {"w1": PINNED}


def test_the_word_of_the_hub_proves_nothing() -> None:
    assert seen(key=NODE_KEY.line, joined=True).proven == {}
    assert seen(MINE, key=OTHER_KEY.line, joined=True).proven == {"w1": MINE}


def test_a_forged_enrolment_is_a_doubt_and_changes_nothing() -> None:
    found = seen(enrolment=enrolment(signed_invite(invite(), EVE_SIGNER)))
    assert found.proven == {}
    assert "does not prove" in found.doubts[0]


def test_a_report_that_another_key_signed_pins_no_certificate() -> None:
    found = seen(enrolment=enrolment(), **signed_report(OTHER_KEY))
    assert (found.proven, len(found.doubts)) == ({}, 1)
    for wrong in (signed_report(node="w2"), signed_report(fleet="9" * 64)):
        assert seen(enrolment=enrolment(), **wrong).proven == {"w1": MINE}
    swapped = signed_report() | {"report": msgspec.json.encode(Report(FLEET, "w1", "2", issuer=b"other"))}
    assert seen(enrolment=enrolment(), **swapped).proven == {"w1": MINE}


def test_a_recorded_key_gives_way_only_to_an_invite_that_says_so_w4() -> None:
    """An enrolment of long ago, replayed by a hub, brings no old key back."""
    found = seen(THEIRS, enrolment=enrolment())
    assert found.proven == {"w1": THEIRS} and "not made to replace" in found.doubts[0]
    assert seen(THEIRS, enrolment=enrolment(REPLACING)).proven == {"w1": MINE}


def test_a_replacing_invite_replaces_the_key_it_names_and_no_other() -> None:
    """I-12, W4: a machine that was replaced keeps its enrolment; once a third key is recorded that is no way back."""
    once = enrolment(signed_invite(invite(replaces=True, over=key("first").line)))
    for unbound in (once, enrolment(signed_invite(invite(replaces=True)))):
        found = looked(THEIRS, enrolment=unbound)
        assert (found.identities.proven, found.nodes["w1"].key) == ({"w1": THEIRS}, OTHER_KEY.line)
    odd = signed_invite(invite(replaces=False, over=OTHER_KEY.line))
    assert seen(THEIRS, enrolment=enrolment(odd)).proven == {"w1": THEIRS}


def test_a_spent_token_proves_no_second_key_once_one_is_recorded() -> None:
    """Whoever keeps the token can sign any key with it, and date that as he likes."""
    second = enrolment(REPLACING, own=(new := key("second")), key=new.line)
    assert seen(MINE, enrolment=second).proven == {"w1": MINE}
    plain = enrolment(own=new, key=new.line)
    assert seen(MINE, enrolment=plain).proven == {"w1": MINE}


def test_an_invite_is_no_proof_for_ever() -> None:
    """Seven days after it expired an apply may still record who joined, then a backdated joining proves nothing."""
    ends_s = NOW_S + 3600 + 7 * 86_400
    for known, proof in ((UNSET, enrolment()), (THEIRS, enrolment(REPLACING))):
        assert looked(known, ends_s - 1, enrolment=proof).nodes["w1"].key == NODE_KEY.line
        late = looked(known, ends_s, enrolment=proof)
        assert late.nodes["w1"].key == ("" if known is UNSET else OTHER_KEY.line)
        doubt = late.identities.doubts[0]
        assert "expired 7 days ago" in doubt and "holdfast node invite w1 --replace" in doubt


def test_after_a_revocation_only_a_younger_invite_counts() -> None:
    """The token of the machine that was shut out makes no second key of it (I-12)."""
    new = key("second")
    for revoked_s, believed in ((int(NOW_S) - 1, True), (int(NOW_S), False), (int(NOW_S) + 5, False)):
        shut_out = revocation(key=OTHER_KEY.line, revoked_s=revoked_s)
        for invited in (None, REPLACING):
            found = looked(THEIRS, revocation=shut_out, enrolment=enrolment(invited, own=new, key=new.line))
            assert found.nodes["w1"].key == (new.line if believed else "")
            assert bool(found.identities.doubts) is not believed


def test_a_revocation_counts_only_with_operators_signatures() -> None:
    assert seen(MINE, revocation=revocation()).revoked == {NODE_KEY.line}
    assert seen(MINE, revocation=revocation(EVE_SIGNER)).revoked == frozenset()
    assert seen(MINE, revoked=True).revoked == frozenset()
    assert seen(MINE, revocation=revocation(node="w2")).revoked == frozenset()


def test_who_joins_after_a_revocation_needs_no_replacing_invite() -> None:
    shut_out = revocation(key=OTHER_KEY.line, revoked_s=int(NOW_S) - 1)
    found = seen(THEIRS, revocation=shut_out, enrolment=enrolment())
    assert (found.proven, found.revoked) == ({"w1": MINE}, frozenset({OTHER_KEY.line}))


def test_a_node_that_is_not_applied_has_no_identity_c_10() -> None:
    view = NodeView("w2", ("worker",), "healthy", enrolment=enrolment())
    found = verify(NodesAnswer((view,), 0.0), applied(), NOW_S)
    assert found.identities == Identities() and found.nodes.keys() == {"w1"}


def test_where_a_node_says_it_is_counts_only_in_a_report_that_its_key_signed_c25() -> None:
    """C-25: an address that a hub alone speaks of is recorded nowhere."""
    report = msgspec.json.encode(Report(FLEET, "w1", "1", address="100.64.0.7:9444", issuer=ISSUER))
    pulse = msgspec.json.encode(Pulse(FLEET, "w1", 1, 1.0, report=canonical.digest(report)))
    own: dict[str, Any] = {"pulse": SignedPulse(pulse, armoured(NODE_KEY, pulse, PULSE_NAMESPACE)), "report": report}
    forged: dict[str, Any] = {
        "pulse": SignedPulse(pulse, armoured(OTHER_KEY, pulse, PULSE_NAMESPACE)),
        "report": report,
    }
    assert seen(MINE, **own).addresses == {"w1": "100.64.0.7:9444"}
    assert seen(MINE, address="100.64.0.9", **forged).addresses == {}
    assert seen(MINE, address="100.64.0.9").addresses == {}


# ---- reports --------------------------------------------------------------------------------------------------------


def test_a_report_counts_if_the_recorded_key_signed_its_digest() -> None:
    found = looked(MINE, at_s=31.0, **signed_report()).nodes["w1"]
    assert found.report is not None and found.report.issuer == ISSUER
    assert (found.key, found.doubt, found.age_s) == (NODE_KEY.line, "", 30.0)


def test_a_pulse_that_is_forged_foreign_or_unreadable_is_a_doubt_and_no_report() -> None:
    torn = SignedPulse(b"{", armoured(NODE_KEY, b"{", PULSE_NAMESPACE))
    content = msgspec.json.encode({"fleet": FLEET, "node": "w1", "sequence": 1, "at_s": 1.0, "release": 5})
    absurd = SignedPulse(content, armoured(NODE_KEY, content, PULSE_NAMESPACE))
    for wrong in (
        signed_report(OTHER_KEY),
        signed_report(node="w2"),
        signed_report(fleet="9" * 64),
        signed_report() | {"pulse": torn},
        signed_report() | {"pulse": absurd},
    ):
        found = looked(MINE, **wrong).nodes["w1"]
        assert (found.pulse, found.report, found.status) == (None, None, "unknown") and found.doubt


def test_a_forged_pulse_without_a_report_takes_no_key_away() -> None:
    forged = {"pulse": signed_report(OTHER_KEY)["pulse"]}
    found = looked(MINE, **forged)
    assert found.identities == Identities({"w1": MINE}) and found.nodes["w1"].pulse is None


def test_a_report_that_the_pulse_does_not_name_is_none() -> None:
    other = msgspec.json.encode(Report(FLEET, "w1", "2"))
    found = looked(MINE, **(signed_report() | {"report": other})).nodes["w1"]
    assert found.pulse is not None and found.report is None


def test_an_old_pulse_proves_no_health_m47() -> None:
    found = looked(MINE, at_s=1_000.0, **signed_report()).nodes["w1"]
    assert found.is_old and not found.verified and found.status == "unknown"


def test_a_pulse_without_a_proven_key_is_a_doubt() -> None:
    found = looked(key=NODE_KEY.line, **signed_report()).nodes["w1"]
    assert (found.pulse, found.key) == (None, "") and "key" in found.doubt


def test_of_two_views_of_one_node_the_last_one_counts() -> None:
    first = NodeView("w1", (), "healthy", enrolment=enrolment(), **signed_report())
    found = verify(NodesAnswer((first, NodeView("w1", (), "unknown")), 0.0), applied(), NOW_S)
    assert found.identities == Identities() and found.nodes["w1"].key == ""


def test_a_node_that_the_hub_leaves_out_is_unknown() -> None:
    found = verify(NodesAnswer((), 0.0), applied(MINE), NOW_S).nodes["w1"]
    assert (found.status, found.key, found.pulse) == ("unknown", NODE_KEY.line, None)
