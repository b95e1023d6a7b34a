"""The bundle holds what operators pinned and nothing else, whatever a hub or a node says (M-26, I-17, D16)."""

import ssl

import pytest
from cryptography import x509 as lib
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.adapters.certificates import issuer as issuing
from holdfast.adapters.certificates import x509
from holdfast.cli.nodes.ca_bundle import Bundle, bundle
from holdfast.cli.nodes.issuers import fit_only
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.certificate import CertificateFacts, Constraints
from holdfast.model.fleet import FleetDocument, Node, Settings
from holdfast.model.ids import FLEET
from holdfast.model.node_view import NodesAnswer, NodeView
from holdfast.model.report import Report
from holdfast.model.revision import Entry, Head, Header, NodeIdentity, Table
from holdfast.model.trust import Trust
from holdfast.trust import certificates as rules
from holdfast.trust.reports import Identities

NOW_S = 1_760_000_000.0
SETTINGS = Settings("lab", internal_zone="svc.lab.test", public_domains=("example.test",))
NODES = {"w1": Node("w1", ("worker",)), "e1": Node("e1", ("edge",))}
KEYS = {name: issuing.make_key() for name in NODES}


def issuer(name: str, wanted: Constraints | None = None, at_s: float = NOW_S) -> bytes:
    allowed = wanted or rules.constraints(name, NODES[name].roles, SETTINGS)
    return x509.der_of(issuing.make_issuer(KEYS[name], name, allowed, at_s))


def applied(pins: dict[str, str]) -> Applied:
    documents: dict[str, bytes] = {FLEET: canonical.encode(FleetDocument(SETTINGS))}
    documents |= {f"node.{name}": canonical.encode(node) for name, node in NODES.items()}
    entries: dict[str, Entry] = {}
    for address, content in documents.items():
        pin = pins.get(address.removeprefix("node."))
        identity = NodeIdentity("ssh-ed25519 x", pin) if pin is not None else UNSET
        entries[address] = replace(Entry(canonical.digest(content)), identity=identity)
    contents: dict[str, bytes] = {canonical.digest(content): content for content in documents.values()}
    header = Header(1, "f" * 64, 1, "", "t" * 64, "r" * 64, {})
    return Applied(Head(1, "1" * 64), header, Table(entries, {}), Trust(()), contents)


def views(reported: dict[str, bytes]) -> NodesAnswer:
    reports = {name: canonical.encode(Report("f" * 64, name, "0", issuer=der)) for name, der in reported.items()}
    return NodesAnswer(tuple(NodeView(name, (), "healthy", report=report) for name, report in reports.items()), NOW_S)


def of(reported: dict[str, bytes], pins: dict[str, str]) -> Bundle:
    return bundle(views(reported), applied(pins), x509.facts, NOW_S)


def whys(found: Bundle) -> dict[str, str]:
    return {one.node: one.why for one in found.left_out}


def test_pinned_certificates_are_in_and_openssl_can_load_them() -> None:
    ders = {name: issuer(name) for name in NODES}
    found = of(ders, {name: x509.pin(der) for name, der in ders.items()})
    assert [one.node for one in found.certificates] == ["e1", "w1"] and found.left_out == ()
    for one in found.certificates:
        assert ssl.PEM_cert_to_DER_cert(one.pem) == ders[one.node]
        assert one.digest == x509.pin(ders[one.node])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata="".join(one.pem for one in found.certificates))
    assert len(context.get_ca_certs(binary_form=True)) == 2


def test_what_is_not_pinned_or_not_reported_is_named_and_left_out() -> None:
    found = of({"w1": issuer("w1")}, {"e1": "e" * 64})
    assert found.certificates == ()
    assert "not pinned" in whys(found)["w1"]
    assert "not reported" in whys(found)["e1"]


def test_a_lying_hub_cannot_slip_one_in() -> None:
    """Another certificate under a pinned name, and a node that the revision does not know."""
    found = of({"w1": issuer("w1", at_s=NOW_S - 1), "evil": issuer("w1")}, {"w1": x509.pin(issuer("w1"))})
    assert found.certificates == ()
    assert "is pinned" in whys(found)["w1"] and "evil" not in whys(found)


def unbounded(name: str, *, path_length: int | None, critical: bool, addresses: bool) -> bytes:
    """What a node that was taken over would like to have pinned."""
    wanted = rules.constraints(name, NODES[name].roles, SETTINGS)
    bounds = x509.bounds(wanted)
    if addresses:
        bounds = lib.NameConstraints(bounds.permitted_subtrees, None)
    subject = x509.common_name(name)
    return (
        x509.begun(subject, subject, KEYS[name].public_key(), NOW_S, 100)
        .add_extension(lib.BasicConstraints(ca=True, path_length=path_length), critical=True)
        .add_extension(x509.usage(signs_certificates=True), critical=True)
        .add_extension(bounds, critical=critical)
        .sign(KEYS[name], x509.HASH)
        .public_bytes(Encoding.DER)
    )


@pytest.mark.parametrize(
    "der",
    [
        pytest.param(issuer("w1", Constraints(("svc.lab.test", "example.test"))), id="public names on a worker"),
        pytest.param(issuer("w1", Constraints(("test",))), id="a wider zone"),
        pytest.param(unbounded("w1", path_length=1, critical=True, addresses=False), id="may make issuers"),
        pytest.param(unbounded("w1", path_length=None, critical=True, addresses=False), id="no path length"),
        pytest.param(unbounded("w1", path_length=0, critical=False, addresses=False), id="not critical"),
        pytest.param(unbounded("w1", path_length=0, critical=True, addresses=True), id="addresses"),
        pytest.param(issuer("w1", at_s=NOW_S - 4000 * 86_400), id="expired"),
        pytest.param(issuer("w1", at_s=NOW_S + 86_400), id="not yet valid"),
        pytest.param(b"junk", id="no certificate"),
    ],
)
def test_even_a_pinned_one_is_left_out_when_it_is_not_bound_to_its_role(der: bytes) -> None:
    """M-26: a node says itself which issuer it has; that it was recorded makes an unbounded one no better."""
    found = of({"w1": der}, {"w1": canonical.digest(der)})
    assert found.certificates == () and whys(found)["w1"]


def test_the_cases_above_would_pass_if_they_were_sound() -> None:
    der = unbounded("w1", path_length=0, critical=True, addresses=False)
    assert [one.node for one in of({"w1": der}, {"w1": canonical.digest(der)}).certificates] == ["w1"]


def test_an_unreadable_report_is_no_report() -> None:
    answer = NodesAnswer((NodeView("w1", (), "healthy", report=b"{"),), NOW_S)
    assert "not reported" in whys(bundle(answer, applied({"w1": "a" * 64}), x509.facts, NOW_S))["w1"]


def recorded(der: bytes, pin: str) -> tuple[str, tuple[str, ...]]:
    """What a plan would record as w1's issuer, and what it doubts."""
    known = Identities({"w1": NodeIdentity("ssh-ed25519 x", x509.pin(der), der)})
    found = fit_only(known, applied({"w1": pin}), x509.facts, NOW_S)
    return found.proven["w1"].issuer, found.doubts


def test_a_plan_records_an_issuer_only_within_the_names_of_its_role_m_26() -> None:
    good, wide = issuer("w1"), issuer("w1", Constraints(("test",)))
    assert recorded(good, "") == (x509.pin(good), ())
    kept, doubts = recorded(wide, x509.pin(good))
    assert kept == x509.pin(good) and "not pinned" in doubts[0]
    assert recorded(wide, "")[0] == ""


def test_what_is_pinned_already_is_not_opened_again() -> None:
    der = issuer("w1")
    known = Identities({"w1": NodeIdentity("ssh-ed25519 x", x509.pin(der))})

    def unread(der: bytes) -> CertificateFacts:
        raise AssertionError("35 ms that every plan would pay")

    assert fit_only(known, applied({"w1": x509.pin(der)}), unread, NOW_S) == known
