"""Who may issue which names (M-24, M-26, I-17), when a certificate is renewed, and what proves a hub (S01)."""

from itertools import chain, combinations
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.errors import HoldfastError, Invalid, NotPermitted
from holdfast.model.certificate import DAY_S, CertificateFacts, Constraints
from holdfast.model.fleet import Role, Settings
from holdfast.model.route import within
from holdfast.trust import certificates as rules

ZONE, PUBLIC = "svc.lab.test", "example.test"
APART = Settings("lab", internal_zone=ZONE, public_domains=(PUBLIC, "example.org"))
NESTED = Settings("lab", internal_zone="svc.example.test", public_domains=(PUBLIC,))
INVERSE = Settings("lab", internal_zone="example.test", public_domains=("www.example.test",))
ROLES: tuple[Role, ...] = get_args(Role)

KEY = MemoryIdentityKey(b"h" * 32)
NOW_S = 1_700_000_000.0
SHOWN = CertificateFacts(
    digest="d" * 64,
    names=("hub.example",),
    addresses=("192.0.2.7", "2001:db8::7"),
    not_before_s=NOW_S - 3600,
    not_after_s=NOW_S + 90 * DAY_S,
    key=KEY.line,
    self_signed=True,
)


def test_every_role_has_a_row() -> None:
    assert set(rules.TREES_OF_ROLE) == set(ROLES)


@pytest.mark.parametrize("role", ["worker", "hub", "provider", "builder"])
def test_inner_roles_issue_within_the_internal_zone_and_never_public_names(role: Role) -> None:
    """M-26."""
    allowed = rules.constraints("w1", (role,), APART)
    assert allowed == Constraints((ZONE,))
    assert rules.may_issue(allowed, "web.shop." + ZONE)
    assert not rules.may_issue(allowed, "www." + PUBLIC)


def test_an_edge_issues_public_names_and_of_internal_ones_only_its_own_listener() -> None:
    """M-26, M-82, I-17."""
    allowed = rules.constraints("e1", ("edge",), APART)
    assert allowed.permitted == ("e1.nodes.svc.lab.test", "example.org", PUBLIC)
    assert rules.may_issue(allowed, "www." + PUBLIC) and rules.may_issue(allowed, PUBLIC)
    assert rules.may_issue(allowed, "e1.nodes." + ZONE)
    for internal in (ZONE, "web." + ZONE, "w1.nodes." + ZONE, "nodes." + ZONE):
        assert not rules.may_issue(allowed, internal)


def test_the_zone_is_cut_out_of_an_edge_when_it_lies_within_a_public_domain() -> None:
    """svc.mcp.metacircular.net below metacircular.net, as M-25 and M-26 have it."""
    allowed = rules.constraints("e1", ("edge",), NESTED)
    assert rules.may_issue(allowed, "www.example.test")
    assert not rules.may_issue(allowed, "web.svc.example.test")
    own = rules.listener_name("e1", ("edge",), NESTED)
    assert rules.may_issue(allowed, own) and not within(own, "example.test")


def test_public_domains_are_cut_out_of_a_worker_when_they_lie_within_the_zone() -> None:
    allowed = rules.constraints("w1", ("worker",), INVERSE)
    assert rules.may_issue(allowed, "db.example.test")
    assert not rules.may_issue(allowed, "www.example.test") and not rules.may_issue(allowed, "a.www.example.test")


def test_a_node_that_is_edge_and_worker_issues_for_both() -> None:
    allowed = rules.constraints("one", ("hub", "worker", "edge"), APART)
    assert rules.may_issue(allowed, "www." + PUBLIC) and rules.may_issue(allowed, "web." + ZONE)


def test_without_a_zone_there_is_a_private_one() -> None:
    assert rules.constraints("w1", ("worker",), Settings("lab")).permitted == ("holdfast.internal",)


@pytest.mark.parametrize("settings", [APART, NESTED, INVERSE, Settings("lab"), Settings("x", public_domains=(PUBLIC,))])
def test_every_node_may_serve_under_its_own_name(settings: Settings) -> None:
    for roles in chain.from_iterable(combinations(ROLES, count) for count in range(1, len(ROLES) + 1)):
        allowed = rules.constraints("n1", roles, settings)
        assert rules.may_issue(allowed, rules.listener_name("n1", roles, settings)), (roles, settings)


@pytest.mark.parametrize("name", ["evilexample.test", "xexample.test", "example.test.evil", "example.tes", "test"])
def test_look_alikes_of_a_domain_fail(name: str) -> None:
    """M-24: by labels, not by letters."""
    assert not within(name, "example.test")
    with pytest.raises(NotPermitted):
        rules.checked_names(Constraints(("example.test",)), (name,))


@pytest.mark.parametrize(
    "name",
    ["", "*.example.test", "a b.example.test", "exämple.test", "a..example.test", "-a.example.test", "a\n", "1.2:3"],
)
def test_what_is_no_hostname_is_never_signed(name: str) -> None:
    with pytest.raises(Invalid):
        rules.checked_names(Constraints(("example.test",)), (name,))


def test_a_certificate_for_nobody_is_not_made() -> None:
    with pytest.raises(HoldfastError):
        rules.checked_names(Constraints(("example.test",)), ())


@given(st.integers(1, 10_000), st.floats(-0.5, 1.5))
def test_renewal_is_due_in_the_last_third_and_before_its_time(days: int, at: float) -> None:
    start_s, life_s = 1e9, days * float(DAY_S)
    due = rules.renew_due(start_s, start_s + life_s, start_s + at * life_s)
    if at < -0.001 or at > 2 / 3 + 0.001:
        assert due
    elif 0.001 < at < 2 / 3 - 0.001:
        assert not due


def test_an_issuer_is_made_anew_when_zones_change_or_a_third_is_left() -> None:
    kept = replace(SHOWN, constraints=Constraints((ZONE,)))
    assert rules.needs_reissue(kept, Constraints((ZONE,)), NOW_S) is None
    assert "zones" in (rules.needs_reissue(kept, Constraints((ZONE, PUBLIC)), NOW_S) or "")
    assert "third" in (rules.needs_reissue(kept, Constraints((ZONE,)), NOW_S + 70 * DAY_S) or "")


# ---- the hub, as a client sees it


@pytest.mark.parametrize("host", ["hub.example", "HUB.example", "192.0.2.7", "2001:db8::7", "[2001:DB8:0::7]"])
def test_the_pinned_hub_is_believed_under_each_of_its_names(host: str) -> None:
    assert rules.hub_complaint(SHOWN, KEY.line, host, NOW_S) is None


@pytest.mark.parametrize(
    ("shown", "host", "why"),
    [
        (replace(SHOWN, key=MemoryIdentityKey(b"x" * 32).line), "hub.example", "pinned key is"),
        (replace(SHOWN, key=""), "hub.example", "another kind"),
        (replace(SHOWN, self_signed=False), "hub.example", "not signed"),
        (replace(SHOWN, not_before_s=NOW_S + 1), "hub.example", "not valid yet"),
        (replace(SHOWN, not_after_s=NOW_S), "hub.example", "expired"),
        (SHOWN, "www.hub.example", "not for www.hub.example"),
        (SHOWN, "192.0.2.8", "not for 192.0.2.8"),
        (replace(SHOWN, names=("192.0.2.9",)), "192.0.2.9", "not for"),
        (replace(SHOWN, names=("*.example",)), "hub.example", "not for"),
        (replace(SHOWN, names=(), addresses=()), "hub.example", "for no name"),
    ],
)
def test_every_other_certificate_is_refused_with_its_reason(shown: CertificateFacts, host: str, why: str) -> None:
    """S01: wrong key, other kind of key, not its own signature, before or after its time, another name."""
    assert why in (rules.hub_complaint(shown, KEY.line, host, NOW_S) or "")
