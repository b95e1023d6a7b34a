"""A node's issuer, in memory and real: the same rules (M-26, I-17); openssl is asked about the real ones."""

import ipaddress
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509 as lib
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding

from holdfast.adapters.certificates import issuer as issuing
from holdfast.adapters.certificates import x509
from holdfast.adapters.certificates.files import X509Certificates
from holdfast.adapters.certificates.memory import MemoryCertificates
from holdfast.adapters.disk.memory import MemoryDisk
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.errors import Corrupt, HoldfastError, NotPermitted
from holdfast.model.certificate import DAY_S, Constraints
from holdfast.ports.certificates import Certificates

NOW_S = 1_760_000_000.0
ZONE = Constraints(("svc.lab.test",))
NAME = "w1.nodes.svc.lab.test"

Maker = Callable[[Path], Certificates]
MAKERS: dict[str, Maker] = {
    "memory": lambda path: MemoryCertificates(),
    "x509": lambda path: X509Certificates(str(path / "agent"), PosixDisk()),
}


@pytest.fixture(params=list(MAKERS))
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Certificates:
    return MAKERS[request.param](tmp_path)


def test_the_issuer_is_made_once_and_stays(made: Certificates) -> None:
    first = made.issuer("w1", ZONE, NOW_S)
    assert made.issuer("w1", ZONE, NOW_S + 100 * DAY_S) == first
    facts = made.facts(first)
    assert facts.constraints == ZONE
    assert facts.not_after_s - NOW_S == 3650 * DAY_S


def test_other_zones_or_old_age_make_another_issuer(made: Certificates) -> None:
    first = made.facts(made.issuer("w1", ZONE, NOW_S))
    second = made.facts(made.issuer("w1", Constraints(("other.test",)), NOW_S))
    third = made.facts(made.issuer("w1", Constraints(("other.test",)), NOW_S + 2500 * DAY_S))
    assert len({first.digest, second.digest, third.digest}) == 3
    assert second.constraints == Constraints(("other.test",))


def test_a_leaf_lives_90_days_and_is_renewed_with_a_third_left(made: Certificates) -> None:
    made.issuer("w1", ZONE, NOW_S)
    first = made.serving((NAME,), NOW_S)
    assert first.facts.names == (NAME,) and first.facts.addresses == ()
    assert first.facts.not_after_s - NOW_S == 90 * DAY_S
    assert made.serving((NAME,), NOW_S + 59 * DAY_S).facts == first.facts
    renewed = made.serving((NAME,), NOW_S + 61 * DAY_S)
    assert renewed.facts.digest != first.facts.digest
    assert renewed.facts.not_after_s > first.facts.not_after_s


def test_a_leaf_asked_for_anew_replaces_the_kept_one(made: Certificates) -> None:
    made.issuer("w1", ZONE, NOW_S)
    first = made.serving((NAME,), NOW_S)
    second = made.serving((NAME,), NOW_S, anew=True)
    assert second.facts.digest != first.facts.digest
    assert made.serving((NAME,), NOW_S).facts == second.facts


def test_another_name_or_another_issuer_is_another_leaf(made: Certificates) -> None:
    made.issuer("w1", ZONE, NOW_S)
    first = made.serving((NAME,), NOW_S).facts.digest
    other = made.serving(("w2.nodes.svc.lab.test",), NOW_S).facts.digest
    made.issuer("w1", Constraints(("svc.lab.test", "more.test")), NOW_S)
    after = made.serving(("w2.nodes.svc.lab.test",), NOW_S).facts.digest
    assert len({first, other, after}) == 3


@pytest.mark.parametrize("name", ["www.example.test", "xsvc.lab.test", "lab.test", "*.svc.lab.test", "10.0.0.1", ""])
def test_names_outside_the_constraints_are_refused_before_signing(made: Certificates, name: str) -> None:
    made.issuer("w1", ZONE, NOW_S)
    for ask in (made.issue, made.serving):
        with pytest.raises(HoldfastError) as refused:
            ask((NAME, name), NOW_S)
        assert refused.value.code == "certificate_name"


def test_no_leaf_without_an_issuer(made: Certificates) -> None:
    with pytest.raises(NotPermitted):
        made.issue((NAME,), NOW_S)


def test_a_leaf_never_outlives_its_issuer(made: Certificates) -> None:
    until_s = made.facts(made.issuer("w1", ZONE, NOW_S)).not_after_s
    assert made.issue((NAME,), until_s - 10 * DAY_S).facts.not_after_s == until_s


def test_what_is_no_certificate_is_refused(made: Certificates) -> None:
    for junk in (b"", b"junk", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", b"\x30\x82" * 50_000):
        with pytest.raises(Corrupt):
            made.facts(junk)


# ---- the real ones, and what others think of them


def openssl_verify(tmp_path: Path, issuer: bytes, chain: bytes, name: str) -> subprocess.CompletedProcess[str]:
    """With a trusted issuer and the moment of the test; openssl knows nothing of our rules."""
    (tmp_path / "issuer.pem").write_text(x509.pem_of(issuer))
    (tmp_path / "leaf.pem").write_bytes(chain)
    asked = ["-attime", str(int(NOW_S)), "-purpose", "sslserver", "-x509_strict", "-verify_hostname", name]
    files = ["-CAfile", str(tmp_path / "issuer.pem"), str(tmp_path / "leaf.pem")]
    return subprocess.run(["openssl", "verify", *asked, *files], capture_output=True, text=True, timeout=60)


def leaf_without_asking(
    issuer: bytes, private: ec.EllipticCurvePrivateKey, alternative: list[lib.GeneralName]
) -> bytes:
    """What a stolen issuer key could sign: no rule of ours stands in the way."""
    above, key = x509.parse(issuer), issuing.make_key()
    identifier = above.extensions.get_extension_for_class(lib.SubjectKeyIdentifier).value
    return (
        x509.begun(x509.common_name("x"), above.subject, key.public_key(), NOW_S, 10)
        .add_extension(lib.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(lib.SubjectAlternativeName(alternative), critical=False)
        .add_extension(lib.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(private, x509.HASH)
        .public_bytes(Encoding.PEM)
    )


def test_openssl_accepts_our_chain(tmp_path: Path) -> None:
    real = X509Certificates(str(tmp_path / "agent"), PosixDisk())
    issuer = real.issuer("w1", ZONE, NOW_S)
    said = openssl_verify(tmp_path, issuer, real.serving((NAME,), NOW_S).chain, NAME)
    assert said.returncode == 0, said.stdout + said.stderr


@pytest.mark.parametrize(
    ("name", "alternative"),
    [
        ("www.example.test", [lib.DNSName("www.example.test")]),
        ("xsvc.lab.test", [lib.DNSName("xsvc.lab.test")]),
        (NAME, [lib.DNSName(NAME), lib.IPAddress(ipaddress.ip_address("192.0.2.1"))]),
        (NAME, [lib.DNSName(NAME), lib.IPAddress(ipaddress.ip_address("2001:db8::1"))]),
        (NAME, [lib.DNSName(NAME), lib.RFC822Name("root@svc.lab.test")]),
        (NAME, [lib.DNSName(NAME), lib.UniformResourceIdentifier("https://svc.lab.test/")]),
    ],
)
def test_openssl_refuses_whatever_a_stolen_issuer_key_signs_outside_its_names(
    tmp_path: Path, name: str, alternative: list[lib.GeneralName]
) -> None:
    """D16: the bounds are in the certificate, not in the good will of who holds the key. No address, mail or URI."""
    private = issuing.make_key()
    issuer = issuing.make_issuer(private, "w1", ZONE, NOW_S)
    good = leaf_without_asking(issuer, private, [lib.DNSName(NAME)])
    assert openssl_verify(tmp_path, issuer, good, NAME).returncode == 0
    said = openssl_verify(tmp_path, issuer, leaf_without_asking(issuer, private, alternative), name)
    assert said.returncode != 0 and "subtree violation" in said.stderr, said.stderr


def test_an_issuer_makes_no_issuers(tmp_path: Path) -> None:
    """pathlen 0: a certificate below one of its children is worth nothing."""
    private, below = issuing.make_key(), issuing.make_key()
    issuer = issuing.make_issuer(private, "w1", ZONE, NOW_S)
    above = x509.parse(issuer)
    middle = (
        x509.begun(x509.common_name("middle"), above.subject, below.public_key(), NOW_S, 10)
        .add_extension(lib.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.usage(signs_certificates=True), critical=True)
        .sign(private, x509.HASH)
        .public_bytes(Encoding.PEM)
    )
    leaf = leaf_without_asking(middle, below, [lib.DNSName(NAME)])
    (tmp_path / "middle.pem").write_bytes(middle)
    (tmp_path / "issuer.pem").write_bytes(issuer)
    (tmp_path / "leaf.pem").write_bytes(leaf)
    said = subprocess.run(
        [
            "openssl",
            "verify",
            "-attime",
            str(int(NOW_S)),
            "-CAfile",
            "issuer.pem",
            "-untrusted",
            "middle.pem",
            "leaf.pem",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert said.returncode != 0 and "path length" in said.stderr, said.stderr


def test_files_are_for_the_owner_alone_and_survive_a_new_process(tmp_path: Path) -> None:
    state = tmp_path / "agent"
    first = X509Certificates(str(state), PosixDisk())
    issuer, leaf = first.issuer("w1", ZONE, NOW_S), first.serving((NAME,), NOW_S)
    files = sorted(state.iterdir())
    assert [file.name for file in files] == ["issuer.crt", "issuer.key", "serving.crt", "serving.key"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600} and state.stat().st_mode & 0o777 == 0o700
    second = X509Certificates(str(state), PosixDisk())
    assert second.issuer("w1", ZONE, NOW_S) == issuer
    assert second.serving((NAME,), NOW_S).chain == leaf.chain


@pytest.mark.parametrize("lost", ["issuer.crt", "serving.crt", "serving.key"])
@pytest.mark.parametrize("how", ["gone", "damaged", "of another pair"])
def test_a_pair_cut_in_half_by_a_crash_is_made_whole(lost: str, how: str) -> None:
    """Certificates can be made anew at any time; the issuer's key stays what it is."""
    disk = MemoryDisk()
    real = X509Certificates("/agent", disk)
    real.issuer("w1", ZONE, NOW_S)
    real.serving((NAME,), NOW_S)
    key = disk.files["/agent/issuer.key"]
    other = MemoryDisk()
    stranger = X509Certificates("/agent", other)
    stranger.issuer("w1", ZONE, NOW_S)
    stranger.serving((NAME,), NOW_S)
    if how == "gone":
        del disk.files[f"/agent/{lost}"], disk.modes[f"/agent/{lost}"]
    else:
        disk.files[f"/agent/{lost}"] = b"junk" if how == "damaged" else other.files[f"/agent/{lost}"]
    again = X509Certificates("/agent", disk)
    issuer = again.issuer("w1", ZONE, NOW_S)
    leaf = again.serving((NAME,), NOW_S)
    assert disk.files["/agent/issuer.key"] == key
    x509.parse(leaf.chain).verify_directly_issued_by(x509.parse(issuer))
    assert x509.parse(leaf.chain).public_key() == x509.private_key(leaf.private).public_key()


# ---- the hub's


def test_the_hubs_certificate_is_its_own_key_for_90_days_under_all_its_names(tmp_path: Path) -> None:
    private = Ed25519PrivateKey.generate()
    pem = x509.make_hub_certificate(private, ("hub.example", "192.0.2.7", "2001:db8::7"), NOW_S)
    facts = x509.facts(pem)
    assert facts.self_signed and facts.key.startswith("ssh-ed25519 ")
    assert (facts.names, facts.addresses) == (("hub.example",), ("192.0.2.7", "2001:db8::7"))
    assert facts.not_after_s - NOW_S == 90 * DAY_S
    said = openssl_verify(tmp_path, x509.der_of(pem), pem, "hub.example")
    assert said.returncode == 0, said.stderr


def test_a_certificate_with_the_hubs_public_key_but_signed_by_another_is_not_self_signed() -> None:
    hub, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    name = x509.common_name("hub.example")
    forged = x509.begun(name, name, hub.public_key(), NOW_S, 90).sign(other, None)
    assert not x509.facts(forged.public_bytes(Encoding.DER)).self_signed


def test_a_private_key_is_not_shown_by_printing(tmp_path: Path) -> None:
    real = X509Certificates(str(tmp_path / "agent"), PosixDisk())
    real.issuer("w1", ZONE, NOW_S)
    assert "PRIVATE" not in repr(real.serving((NAME,), NOW_S))
