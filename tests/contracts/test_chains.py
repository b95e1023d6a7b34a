"""Chains as authorities send them, good and bad: read by the adapter, judged by the rules; no bad one becomes a proof.

I-16: without a `Servable` no proxy shows anything. M-06, M-24, M-82, I-17, I-18.
"""

import ipaddress
from collections.abc import Callable
from functools import cache

import pytest
from cryptography import x509 as lib
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from holdfast.adapters.certificates import issuer as issuing
from holdfast.adapters.certificates.files import X509Certificates
from holdfast.adapters.certificates.memory import MemoryCertificates
from holdfast.adapters.disk.memory import MemoryDisk
from holdfast.errors import Failed, HoldfastError
from holdfast.model.certificate import DAY_S, Constraints
from holdfast.ports.certificates import Certificates
from holdfast.ports.proxy import Servable
from holdfast.trust.servable import servable
from tests.fleets.chains import NAME, Authority, pem

NOW_S = 1_760_000_000.0
INTERNAL = "web.shop.svc.lab.test"
READER = X509Certificates("/agent", MemoryDisk())

Sent = tuple[bytes, bytes]


@cache
def public() -> Authority:
    return Authority(NOW_S)


@cache
def stranger() -> Authority:
    return Authority(NOW_S, "Another Root")


def sent(leaf: tuple[lib.Certificate, bytes], *above: lib.Certificate) -> Sent:
    return pem(leaf[0]) + b"".join(pem(one) for one in above), leaf[1]


def judged(chain: bytes, private: bytes, names: tuple[str, ...] = (NAME,), now_s: float = NOW_S) -> Servable:
    return servable(READER.chain(chain, private), chain, private, names, now_s)


# ---- good ones


def rsa_key(bits: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


GOOD: dict[str, Callable[[], Sent]] = {
    "leaf and intermediate, as public authorities send it": lambda: sent(public().leaf(), public().intermediate),
    "with its root": lambda: sent(public().leaf(), public().intermediate, public().root),
    "RSA 2048": lambda: sent(public().leaf(key=rsa_key(2048)), public().intermediate),
    "P-384": lambda: sent(public().leaf(key=ec.generate_private_key(ec.SECP384R1())), public().intermediate),
}


@pytest.mark.parametrize("kind", GOOD)
def test_a_full_chain_for_exactly_its_names_may_be_shown(kind: str) -> None:
    chain, private = GOOD[kind]()
    proof = judged(chain, private)
    assert (proof.chain, proof.private) == (chain, private)
    assert proof.digest == READER.facts(chain).digest


@pytest.mark.parametrize("maker", [lambda: X509Certificates("/agent", MemoryDisk()), MemoryCertificates])
def test_what_a_node_issues_itself_may_be_shown(maker: Callable[[], Certificates]) -> None:
    """The twin in memory says the same of its own kind."""
    made = maker()
    made.issuer("w1", Constraints(("svc.lab.test",)), NOW_S)
    issued = made.issue((INTERNAL,), NOW_S)
    facts = made.chain(issued.chain, issued.private)
    assert facts.own_kind and facts.key_belongs and len(facts.links) == 2
    assert facts.anchor == made.current()
    assert servable(facts, issued.chain, issued.private, (INTERNAL,), NOW_S).digest == issued.facts.digest
    for wrong in (issued.chain[: len(issued.chain) // 2], b"", b"junk"):
        with pytest.raises(HoldfastError):
            servable(made.chain(wrong, issued.private), wrong, issued.private, (INTERNAL,), NOW_S)
    assert not made.chain(issued.chain, made.issue((INTERNAL,), NOW_S).private).key_belongs


# ---- bad ones


def half(chain: bytes) -> bytes:
    return chain[: len(chain) * 3 // 4]


def later(days: float) -> float:
    return NOW_S + days * DAY_S


def own_leaf_alone() -> Sent:
    key = issuing.make_key()
    issued = issuing.issue(issuing.make_issuer(key, "e1", Constraints(("example.test",)), NOW_S), key, (NAME,), NOW_S)
    return issued.chain[: issued.chain.index(b"-----END CERTIFICATE-----\n") + 26], issued.private


BAD: dict[str, tuple[Callable[[], Sent], str]] = {
    "expired": (lambda: sent(public().leaf(made_s=later(-91)), public().intermediate), "expired"),
    "not yet valid": (lambda: sent(public().leaf(made_s=later(1)), public().intermediate), "not valid yet"),
    "leaf alone": (lambda: sent(public().leaf()), "leaf alone"),
    "own leaf alone": (own_leaf_alone, "leaf alone"),
    "wrong name": (lambda: sent(public().leaf(("shop.example.test",)), public().intermediate), "not for"),
    "no name at all": (lambda: sent(public().leaf(()), public().intermediate), "for no name"),
    "look-alike": (lambda: sent(public().leaf(("wwwxexample.test",)), public().intermediate), "not for"),
    "suffix look-alike": (lambda: sent(public().leaf((f"{NAME}.evil",)), public().intermediate), "not for"),
    "wildcard": (lambda: sent(public().leaf(("*.example.test",)), public().intermediate), "not for"),
    "wildcard besides": (
        lambda: sent(public().leaf((NAME, "*.example.test")), public().intermediate),
        "were not requested",
    ),
    "internal name besides": (
        lambda: sent(public().leaf((NAME, INTERNAL)), public().intermediate),
        "were not requested",
    ),
    "address besides": (
        lambda: sent(public().leaf(others=[lib.IPAddress(ipaddress.ip_address("100.64.0.1"))]), public().intermediate),
        "were not requested",
    ),
    "mail besides": (
        lambda: sent(public().leaf(others=[lib.RFC822Name("root@example.test")]), public().intermediate),
        "were not requested",
    ),
    "wrong key": (
        lambda: (sent(public().leaf(), public().intermediate)[0], public().leaf()[1]),
        "key belongs to another",
    ),
    "no key": (lambda: (sent(public().leaf(), public().intermediate)[0], b""), "key belongs to another"),
    "half a key": (
        lambda: (lambda pair: (pair[0], half(pair[1])))(sent(public().leaf(), public().intermediate)),
        "key belongs to another",
    ),
    "out of order": (lambda: sent(public().leaf(), public().root, public().intermediate), "out of order"),
    "leaf last": (lambda: (lambda leaf: (pem(public().intermediate) + pem(leaf[0]), leaf[1]))(public().leaf()), "key"),
    "intermediate missing": (lambda: sent(public().leaf(), public().root), "missing"),
    "another's intermediate": (lambda: sent(public().leaf(), stranger().intermediate), "missing"),
    "another's root behind": (lambda: sent(public().leaf(), public().intermediate, stranger().root), "missing"),
    "twice the leaf": (lambda: (lambda leaf: sent(leaf, leaf[0]))(public().leaf()), "not signed by the next"),
    "an authority": (lambda: sent(public().leaf(ca=True), public().intermediate), "authority"),
    "for clients": (lambda: sent(public().leaf(serves=False), public().intermediate), "serverAuth"),
    "weak RSA": (lambda: sent(public().leaf(key=rsa_key(1024)), public().intermediate), "weak"),
    "weak curve": (
        lambda: sent(public().leaf(key=ec.generate_private_key(ec.SECP224R1())), public().intermediate),
        "weak",
    ),
    "garbage": (lambda: (b"\x00\xff" * 500, public().leaf()[1]), "cannot read"),
    "empty": (lambda: (b"", public().leaf()[1]), "cannot read"),
    "half a file": (
        lambda: (lambda pair: (half(pair[0]), pair[1]))(sent(public().leaf(), public().intermediate)),
        "cannot read",
    ),
    "a key inside the chain": (
        lambda: (lambda pair: (pair[0] + pair[1], pair[1]))(sent(public().leaf(), public().intermediate)),
        "cannot read",
    ),
    "too long": (lambda: (pem(public().root) * 200, public().leaf()[1]), "cannot read"),
    "too many": (lambda: (pem(public().root) * 11, public().leaf()[1]), "cannot read"),
}


@pytest.mark.parametrize("kind", BAD)
def test_no_bad_chain_becomes_a_proof(kind: str) -> None:
    """I-16, M-06, M-82: told with its reason and a remedy, and never with a byte of the key (I-18)."""
    make, why = BAD[kind]
    chain, private = make()
    with pytest.raises(HoldfastError) as refused:
        judged(chain, private)
    assert why in refused.value.message, refused.value.message
    assert refused.value.remedy
    words = f"{refused.value.message} {refused.value.remedy} {refused.value!r}".encode()
    assert b"PRIVATE" not in words and not any(line in words for line in private.splitlines()[1:-1] if len(line) > 20)


@pytest.mark.parametrize("kind", ["leaf alone", "intermediate missing"])
def test_a_chain_that_is_not_full_is_refused_with_what_to_send_instead(kind: str) -> None:
    """M-06."""
    with pytest.raises(Failed) as refused:
        judged(*BAD[kind][0]())
    assert "full chain" in refused.value.remedy and refused.value.code == "certificate_failed"


def test_a_chain_ends_with_the_first_of_its_certificates_to_end() -> None:
    """An intermediate that is over takes the leaf with it."""
    above = Authority(NOW_S - 3650 * DAY_S + 5 * DAY_S)
    chain, private = sent(above.leaf(made_s=NOW_S), above.intermediate)
    assert judged(chain, private)
    with pytest.raises(Failed, match="expired"):
        judged(chain, private, now_s=NOW_S + 6 * DAY_S)


def test_one_chain_is_not_judged_and_another_shown() -> None:
    good, bad = sent(public().leaf(), public().intermediate), sent(public().leaf(), stranger().intermediate)
    with pytest.raises(Failed, match="not the chain that was verified"):
        servable(READER.chain(*good), bad[0], good[1], (NAME,), NOW_S)


def test_a_chain_is_read_in_every_spelling_of_its_key() -> None:
    """Authorities and operators have keys in the older form, too."""
    key = ec.generate_private_key(ec.SECP256R1())
    chain, _ = sent(public().leaf(key=key), public().intermediate)
    old = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    assert judged(chain, old)


def test_no_proof_prints_its_key() -> None:
    """I-18."""
    chain, private = GOOD["with its root"]()
    assert "PRIVATE" not in repr(judged(chain, private)) and "PRIVATE" not in repr(READER.chain(chain, private))
