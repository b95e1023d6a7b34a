"""What an edge does next for a hostname, row by row (M-78 (9–11), M-81, M-84, M-85, D-02, D-27, I-16, I-19, S09)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.model.route import EdgeRoute, Place
from holdfast.ports.proxy import Backend, ProxyRoute, Upstream
from holdfast.reconcile import edges
from holdfast.reconcile.edges import PASSED, SILENCES, STEPS, Check, EdgeFacts, Step

HOSTNAME = "blog.example.test"
W1, W2 = Place("w1", "100.64.0.1"), Place("w2", "100.64.0.2")
WANTED = EdgeRoute("blog", "app", "http", "w1", "100.64.0.1", "app.blog.holdfast.internal", 1)
LEADS = edges.route(HOSTNAME, WANTED, W1, b"issuer of w1")
WOULD = replace(LEADS, certificate="leaf")
ELSEWHERE = replace(WOULD, backends=(Backend("100.64.0.9", 443),))
BAD = Check("it does not work")
UNDEPLOY_S = 120.0


def all_passed(*but: Step) -> dict[Step, Check]:
    return {step: PASSED for step in STEPS["l7"] if step not in but}


def after(checks: dict[Step, Check], has: ProxyRoute | None = None, would: ProxyRoute | None = WOULD) -> edges.Act:
    return edges.next_act(EdgeFacts(WANTED, has, LEADS, would, checks), UNDEPLOY_S)


# ---- forward


def test_the_steps_come_in_the_order_of_m_81() -> None:
    """M-81 and M-78 (10): domain, backend's name, its address, its proxy, a certificate, then the route."""
    checks: dict[Step, Check] = {}
    taken = []
    for _ in STEPS["l7"]:
        has = WOULD if "route" in taken else None
        act = after(checks, has, WOULD if "certificate" in taken else None)
        assert act in STEPS["l7"]
        taken.append(act)
        checks[act] = PASSED
    assert taken == ["domain", "name", "dns", "backend", "certificate", "route", "handshake"]
    assert after(checks, WOULD) == "rest"


def test_what_is_passed_through_needs_no_certificate_of_the_edge() -> None:
    assert STEPS["l4"] == ("domain", "name", "dns", "backend", "route", "handshake")
    wanted = replace(WANTED, mode="l4", port=8443)
    leads = edges.route(HOSTNAME, wanted, W1, b"")
    assert leads.upstream is None and leads.certificate == "" and leads.backends == (Backend("100.64.0.1", 8443),)
    checks = dict.fromkeys(("domain", "name", "dns", "backend"), PASSED)
    assert edges.next_act(EdgeFacts(wanted, None, leads, leads, checks), UNDEPLOY_S) == "route"  # type: ignore[arg-type]


@pytest.mark.parametrize("step", ["domain", "name", "dns", "backend", "certificate"])
def test_a_step_that_failed_keeps_the_route_from_being_set(step: Step) -> None:
    """I-16, M-84: no route without name, live backend and certificate. D-27: the rest is skipped, and said so."""
    checks = {**all_passed("route", "handshake"), step: BAD}
    would = None if step == "certificate" else WOULD
    assert after(checks, None, would) == step
    later = STEPS["l7"][STEPS["l7"].index(step) + 1 :]
    assert edges.skipped("l7", step) == later and "route" in later


@given(
    st.dictionaries(st.sampled_from(STEPS["l7"]), st.sampled_from((PASSED, BAD))),
    st.sampled_from((None, LEADS, WOULD, ELSEWHERE)),
    st.sampled_from((None, WOULD)),
)
def test_no_route_is_ever_put_before_everything_else_was_proven_i_16(
    checks: dict[Step, Check], has: ProxyRoute | None, would: ProxyRoute | None
) -> None:
    act = after(checks, has, would)
    if act == "route":
        led = has is not None and replace(has, certificate="") == LEADS
        must = {"domain", "name", "certificate"} | (set() if led else {"dns", "backend"})
        assert all(checks.get(step) == PASSED for step in must if step in STEPS["l7"])
    if act == "rest":
        assert has == would and checks.get("handshake") == PASSED


def test_a_backend_has_tls_or_there_is_no_route_m_48() -> None:
    """M-48: there is no way to ask for a backend without TLS; one name, vouched for by that node's issuer alone."""
    assert LEADS.upstream is not None and LEADS.upstream.name == WANTED.backend
    assert LEADS.upstream.authority.startswith("-----BEGIN CERTIFICATE-----")
    other = edges.route(HOSTNAME, WANTED, W2, b"issuer of w2").upstream
    assert other is not None and other.authority != LEADS.upstream.authority
    assert "tls" not in {field.lower() for field in EdgeRoute.__struct_fields__}


def test_the_route_carries_the_signed_address_never_a_name_s09() -> None:
    """M-03, M-25: nothing is resolved when a connection is made, so nothing can be rebound."""
    assert LEADS.backends == (Backend("100.64.0.1", 443),)
    assert isinstance(LEADS.upstream, Upstream) and LEADS.hostnames == (HOSTNAME,) and LEADS.public


def test_an_edge_and_a_worker_pass_the_headers_that_the_route_names_x10() -> None:
    named = replace(WANTED, pass_headers=("remote-user",))
    assert (LEADS.pass_headers, edges.route(HOSTNAME, named, W1, b"").pass_headers) == ((), ("remote-user",))


# ---- live


@pytest.mark.parametrize("step", ["dns", "backend"])
def test_a_live_route_is_not_doubted_because_its_backend_is_silent(step: Step) -> None:
    """It answers 502 meanwhile (M-86), and whoever restarts the agent then changes nothing."""
    assert after({**all_passed(), step: BAD}, WOULD) == "rest"
    assert after({**all_passed("handshake"), step: BAD}, WOULD) == "handshake"


def test_a_new_place_must_prove_itself_before_the_old_one_goes() -> None:
    """Make before break: the proxy keeps what it has until everything about the new place is proven."""
    assert after({**all_passed("route", "handshake"), "backend": BAD}, ELSEWHERE) == "backend"
    assert after(all_passed("route", "handshake"), ELSEWHERE) == "route"


def test_a_renewed_certificate_puts_the_same_route_again() -> None:
    """M-88: name, place and backend are not touched by it."""
    renewed = replace(WOULD, certificate="another leaf")
    assert after(all_passed(), WOULD, renewed) == "route"
    assert replace(renewed, certificate="") == replace(WOULD, certificate="") == LEADS


def test_a_route_that_the_proxy_lost_is_put_again() -> None:
    assert after(all_passed(), None) == "route"


def test_another_certificate_than_the_current_one_is_not_rest() -> None:
    assert after({**all_passed(), "handshake": BAD}, WOULD) == "handshake"


# ---- leaving


def test_a_route_that_is_not_applied_any_more_stays_until_its_backend_is_gone_i_19() -> None:
    """M-85: the worker stops first. M-86: until the edge let go it answers 502, never another backend."""
    leaving = EdgeFacts(None, WOULD)
    assert edges.next_act(leaving, UNDEPLOY_S) == "ask"
    assert edges.next_act(replace(leaving, silences=SILENCES - 1, left_s=UNDEPLOY_S - 1), UNDEPLOY_S) == "ask"
    assert edges.next_act(replace(leaving, silences=SILENCES), UNDEPLOY_S) == "withdraw"
    assert edges.next_act(replace(leaving, left_s=UNDEPLOY_S), UNDEPLOY_S) == "withdraw"
    assert edges.next_act(EdgeFacts(None, None), UNDEPLOY_S) == "over"


@given(st.builds(EdgeFacts, st.none(), st.sampled_from((None, WOULD, ELSEWHERE)), forbidden=st.booleans()))
def test_a_leaving_route_is_never_led_elsewhere_i_19(picture: EdgeFacts) -> None:
    assert edges.next_act(picture, UNDEPLOY_S) in {"ask", "withdraw", "over"}


def test_a_route_outside_of_what_may_be_served_goes_at_once() -> None:
    """I-16, S09: whether the domain was withdrawn or the overlay changed, nothing is waited for."""
    for wanted in (WANTED, None):
        assert (
            edges.next_act(EdgeFacts(wanted, WOULD, LEADS, WOULD, all_passed(), forbidden=True), UNDEPLOY_S)
            == "withdraw"
        )
    assert (
        edges.next_act(EdgeFacts(WANTED, None, LEADS, WOULD, {"domain": BAD}, forbidden=True), UNDEPLOY_S) == "domain"
    )


# ---- phases and pauses


def test_waiting_becomes_failed_when_its_time_is_over_or_waiting_does_not_help() -> None:
    picture = EdgeFacts(WANTED, None, LEADS, None, {"backend": BAD})
    assert edges.phase_of(picture, "backend", 29.0, 30.0) == "waiting"
    assert edges.phase_of(picture, "backend", 30.0, 30.0) == "failed"
    hopeless = replace(picture, checks={"domain": Check("no", hopeless=True)})
    assert edges.phase_of(hopeless, "domain", 0.0, 30.0) == "failed"
    assert edges.phase_of(picture, "rest", 99.0, 30.0) == "live"
    assert edges.phase_of(EdgeFacts(None, WOULD), "ask", 99.0, 30.0) == "leaving"


def test_pauses_grow_and_are_bounded() -> None:
    pauses = [edges.pause_s("backend", BAD, tries, "waiting") for tries in range(1, 40)]
    assert pauses[0] == 0.01 and pauses == sorted(pauses) and pauses[-1] == 0.5
    assert edges.pause_s("backend", BAD, 39, "failed") == 10.0
    refused = Check("no", hopeless=True)
    assert [edges.pause_s("certificate", refused, tries, "failed") for tries in (1, 2, 3, 99)] == [60, 120, 240, 3600]
    assert edges.pause_s("domain", refused, 1, "failed") == 3600


# ---- places


def test_its_own_node_is_preferred_and_nobody_answering_changes_nothing() -> None:
    assert edges.places(replace(WANTED, others=(W2,))) == (W1, W2)
    assert edges.chosen((W1, W2), [W1, W2], W2) == W1
    assert edges.chosen((W1, W2), [W2], W1) == W2
    assert edges.chosen((W1, W2), [], W2) == W2
    assert edges.chosen((W1, W2), [], Place("w9", "100.64.0.9")) == W1
    assert edges.chosen((W1, W2), [], None) == W1


@pytest.mark.parametrize(
    ("found", "fine"),
    [
        (("100.64.0.1",), True),
        ((), False),
        (("100.64.0.2",), False),
        (("198.51.100.7",), False),
        (("100.64.0.1", "198.51.100.7"), False),
    ],
)
def test_the_internal_name_must_lead_where_the_revision_says_d_27(found: tuple[str, ...], fine: bool) -> None:
    """M-25: one answer too many is as wrong as none."""
    assert (edges.dns_complaint(WANTED, found) is None) == fine
