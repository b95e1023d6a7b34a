"""A session stands for an operator of one fleet, for at most twelve hours and while the trust says so (A7)."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from holdfast.adapters.clock.virtual import VirtualClock
from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.adapters.sessions.memory import MemorySessions
from holdfast.adapters.signer.memory import MemorySigner
from holdfast.errors import Invalid, Unauthenticated
from holdfast.model import canonical, ssh_key
from holdfast.model.fleet import Thresholds
from holdfast.model.revision import NAMESPACE as REVISION_NAMESPACE
from holdfast.model.session import NAMESPACE, SESSION_S_MAX, SessionCertificate, SessionGrant
from holdfast.model.trust import Trust, of
from holdfast.ports.sessions import Session
from holdfast.trust import sessions
from holdfast.wire import session_header
from tests.fleets.build import ALICE, ALICE_SIGNER, operator_signer

FLEET, OTHER_FLEET = "a" * 64, "b" * 64
NOW_S = 1_700_000_000
KEY = MemoryIdentityKey(b"session".ljust(32))
BOB, BOB_SIGNER = operator_signer("bob", "apply")
TRUST = of((ALICE, BOB), Thresholds())


def grant(**changes: object) -> SessionGrant:
    line = ssh_key.line(ALICE_SIGNER.public_key)
    return replace(SessionGrant(FLEET, line, KEY.line, NOW_S, NOW_S + SESSION_S_MAX), **changes)


def certificate(granted: SessionGrant, signer: MemorySigner = ALICE_SIGNER) -> SessionCertificate:
    content = canonical.encode(granted)
    return SessionCertificate(content, signer.sign(content, NAMESPACE))


def refusal(
    made: SessionCertificate, line: str = KEY.line, fleet: str = FLEET, trust: Trust | None = TRUST, at_s: float = NOW_S
) -> Unauthenticated:
    with pytest.raises(Unauthenticated) as raised:
        sessions.verify_session(made, line, fleet, trust, at_s)
    assert raised.value.remedy
    return raised.value


def test_a_session_stands_for_its_operator() -> None:
    who = sessions.verify_session(certificate(grant()), KEY.line, FLEET, TRUST, NOW_S + 3600)
    assert (who.kind, who.name, who.grade) == ("operator", "alice", "root")
    assert who.key == ssh_key.line(ALICE_SIGNER.public_key)


def test_an_operator_who_left_the_trust_is_out_at_once() -> None:
    made = certificate(grant())
    sessions.verify_session(made, KEY.line, FLEET, TRUST, NOW_S)
    without = of((BOB,), Thresholds())
    assert refusal(made, trust=without).code == "unknown_operator"
    proven = sessions.prove(made, KEY.line)  # also from a cache of proofs
    with pytest.raises(Unauthenticated):
        sessions.admit(proven, FLEET, without, NOW_S)


@pytest.mark.parametrize(
    ("at_s", "code"),
    [
        (NOW_S - sessions.EARLY_S - 1, "session_early"),
        (NOW_S + SESSION_S_MAX, "session_expired"),
        (NOW_S + 10 * SESSION_S_MAX, "session_expired"),
    ],
)
def test_a_session_has_a_beginning_and_an_end(at_s: int, code: str) -> None:
    assert refusal(certificate(grant()), at_s=at_s).code == code
    sessions.verify_session(certificate(grant()), KEY.line, FLEET, TRUST, NOW_S - sessions.EARLY_S)
    sessions.verify_session(certificate(grant()), KEY.line, FLEET, TRUST, NOW_S + SESSION_S_MAX - 1)


@pytest.mark.parametrize("length_s", [SESSION_S_MAX + 1, 10**9, 0])
def test_a_session_longer_than_twelve_hours_is_none(length_s: int) -> None:
    refusal(certificate(grant(expires_s=NOW_S + length_s)))
    refusal(certificate(grant(not_before_s=NOW_S, expires_s=NOW_S - 1)))


def test_a_session_belongs_to_one_fleet() -> None:
    assert refusal(certificate(grant()), fleet=OTHER_FLEET).code == "other_fleet"
    assert refusal(certificate(grant(fleet=""))).code == "other_fleet"
    assert refusal(certificate(grant()), fleet="", trust=None).code == "other_fleet"


def test_before_the_first_revision_anybody_may_be_the_founder() -> None:
    who = sessions.verify_session(certificate(grant(fleet="")), KEY.line, "", None, NOW_S)
    assert (who.kind, who.grade) == ("founder", None)
    forged = certificate(grant(fleet=""), BOB_SIGNER)
    refusal(forged, fleet="", trust=None)


def forgeries() -> dict[str, Callable[[], SessionCertificate]]:
    good = certificate(grant())
    mallory = operator_signer("mallory")[1]
    return {
        "signed by another operator": lambda: certificate(grant(), BOB_SIGNER),
        "signed by a stranger": lambda: certificate(grant(), mallory),
        "a stranger's own": lambda: certificate(grant(operator=ssh_key.line(mallory.public_key)), mallory),
        "prolonged": lambda: replace(good, grant=canonical.encode(grant(expires_s=NOW_S + SESSION_S_MAX - 1))),
        "made for a revision": lambda: replace(good, signature=ALICE_SIGNER.sign(good.grant, REVISION_NAMESPACE)),
        "not canonical": lambda: SessionCertificate(good.grant + b" ", ALICE_SIGNER.sign(good.grant + b" ", NAMESPACE)),
        "no JSON": lambda: SessionCertificate(b"\xff", ALICE_SIGNER.sign(b"\xff", NAMESPACE)),
        "no signature": lambda: replace(good, signature=""),
        "truncated signature": lambda: replace(good, signature=good.signature[:-40]),
        "too long": lambda: replace(good, grant=good.grant + b" " * sessions.GRANT_BYTES_MAX),
        "a key that is none": lambda: certificate(grant(operator="ssh-ed25519 AAAA")),
        "the operator's own key as session": lambda: certificate(grant(session=grant().operator)),
    }


@pytest.mark.parametrize("case", forgeries())
def test_a_forged_session_is_refused(case: str) -> None:
    made = forgeries()[case]()
    refusal(made)
    refusal(made, line=grant().operator)


def test_a_session_fits_only_its_own_key() -> None:
    refusal(certificate(grant()), line=MemoryIdentityKey(b"thief".ljust(32)).line)


# ---- in a header


def test_a_certificate_travels_in_one_header() -> None:
    made = certificate(grant())
    text = session_header.write(made)
    assert session_header.read(text) == made
    assert text.isascii() and len(text) < 2000


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:-1],
        lambda text: text[:40],
        lambda text: text + "=",
        lambda text: " " + text,
        lambda text: text.replace("A", "\n", 1),
        lambda text: "",
        lambda text: "e30=",
        lambda text: "ü",
        lambda text: "A" * 100_000,
        lambda text: "W1tb" * 1500,
    ],
)
def test_a_spoilt_header_is_refused(spoil: Callable[[str], str]) -> None:
    with pytest.raises(Unauthenticated):
        session_header.read(spoil(session_header.write(certificate(grant()))))


def test_a_key_too_long_for_a_header_says_what_to_do() -> None:
    with pytest.raises(Invalid, match="too long"):
        session_header.write(SessionCertificate(b"x" * session_header.CHARS_MAX, ""))


def test_memory_sessions_are_real_ones() -> None:
    clock = VirtualClock(float(NOW_S))
    made: Session = MemorySessions(ALICE_SIGNER, clock, SeededRandom(1)).session(FLEET)
    assert sessions.verify_session(made.certificate, made.key.line, FLEET, TRUST, NOW_S).name == "alice"
