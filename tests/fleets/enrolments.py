"""Invites, enrolments and revocations, whole and spoiled, and what must hold of whoever judges them."""

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.errors import HoldfastError
from holdfast.model import canonical
from holdfast.model.fleet import Thresholds
from holdfast.model.invite import (
    INVITE_NAMESPACE,
    INVITE_S_MAX,
    JOIN_NAMESPACE,
    REVOKE_NAMESPACE,
    Enrolment,
    Invite,
    Joining,
    Revocation,
    SignedInvite,
    SignedRevocation,
    decode_joining,
)
from holdfast.model.trust import Trust, of
from holdfast.ports.signer import Signer
from holdfast.trust.enrolment import STATEMENT_BYTES_MAX
from holdfast.trust.own_signature import armoured
from tests.fleets.orders import (
    ANN,
    ANN_SIGNER,
    BOB,
    BOB_SIGNER,
    CAT,
    CAT_SIGNER,
    EVE_SIGNER,
    FLEET,
    NOW_S,
    hexed,
    operator_signer,
)

SCOPED, SCOPED_SIGNER = operator_signer("racker", "destroy", ("node.w2",))
TRUST = of((ANN, BOB, CAT, SCOPED), Thresholds())
PAIR_TRUST = of((ANN, BOB, CAT, SCOPED), Thresholds(destroy=2))


def key(word: str) -> MemoryIdentityKey:
    return MemoryIdentityKey(sha256(word.encode()).digest())


ONCE, NODE_KEY, OTHER_KEY = key("once"), key("node"), key("other")


def invite(**changed: Any) -> Invite:
    whole: dict[str, Any] = {
        "fleet": FLEET,
        "id": hexed("invite"),
        "node": "w1",
        "roles": ("worker",),
        "once": ONCE.line,
        "issued_s": int(NOW_S),
        "expires_s": int(NOW_S) + 3600,
    }
    return Invite(**(whole | changed))


def signed_invite(value: Invite | bytes, *signers: Signer, namespace: str = INVITE_NAMESPACE) -> SignedInvite:
    content = value if isinstance(value, bytes) else canonical.encode(value)
    return SignedInvite(content, tuple(s.sign(content, namespace) for s in signers or (BOB_SIGNER,)))


def enrolment(
    invited: SignedInvite | None = None,
    once: MemoryIdentityKey = ONCE,
    own: MemoryIdentityKey = NODE_KEY,
    namespace: str = JOIN_NAMESPACE,
    **changed: Any,
) -> Enrolment:
    invited = invited or signed_invite(invite())
    whole: dict[str, Any] = {
        "fleet": FLEET,
        "invite": canonical.digest(invited.invite),
        "node": "w1",
        "key": NODE_KEY.line,
        "joined_s": int(NOW_S) + 10,
    }
    content = canonical.encode(Joining(**(whole | changed)))
    return Enrolment(invited, content, armoured(once, content, namespace), armoured(own, content, namespace))


def revocation(*signers: Signer, namespace: str = REVOKE_NAMESPACE, **changed: Any) -> SignedRevocation:
    whole: dict[str, Any] = {"fleet": FLEET, "node": "w1", "key": NODE_KEY.line, "revoked_s": int(NOW_S)}
    content = canonical.encode(Revocation(**(whole | changed)))
    return SignedRevocation(content, tuple(s.sign(content, namespace) for s in signers or (BOB_SIGNER,)))


class Joined(Struct, frozen=True):
    """One presentation; `expect` is the code that refuses it, "" for a sound one."""

    name: str
    enrolment: Enrolment
    expect: str
    trust: Trust = TRUST
    fleet: str = FLEET
    now_s: float | None = NOW_S + 20


def joins() -> Iterator[Joined]:
    good, short = enrolment(), "signature_required"
    yield Joined("sound", good, "")
    yield Joined("sound, years later", good, "", now_s=None)
    yield Joined(
        "two signatures where two are needed",
        enrolment(signed_invite(invite(), ANN_SIGNER, BOB_SIGNER)),
        "",
        PAIR_TRUST,
    )
    yield Joined("by a scope that covers it", _for_w2(SCOPED_SIGNER), "")
    yield Joined("the last second", good, "", now_s=NOW_S + 3599.9)
    yield Joined("a clock sixty seconds behind", good, "", now_s=NOW_S - 60)
    yield Joined("for a whole week", enrolment(signed_invite(invite(expires_s=int(NOW_S) + INVITE_S_MAX))), "")

    room = STATEMENT_BYTES_MAX - len(canonical.encode(invite(id="")))
    yield Joined("an invite as long as one may be", enrolment(signed_invite(invite(id="x" * room))), "")

    replacing = signed_invite(invite(replaces=True, over=OTHER_KEY.line))
    yield Joined("replaces a key", enrolment(replacing), "")
    commented = signed_invite(invite(replaces=True, over=OTHER_KEY.line + " old"))
    yield Joined("replaces a key with a comment", enrolment(commented), "key_form")

    yield Joined("expired", good, "expired", now_s=NOW_S + 3600)
    yield Joined("not valid yet", good, "not_yet_valid", now_s=NOW_S - 60.5)
    yield Joined("joined after expiry", enrolment(joined_s=int(NOW_S) + 3600), "expired", now_s=None)
    yield Joined("joined before the invite", enrolment(joined_s=int(NOW_S) - 61), "not_yet_valid", now_s=None)
    yield Joined("at another fleet", good, "other_fleet", fleet=hexed("f") * 2)
    too_long = signed_invite(invite(expires_s=int(NOW_S) + INVITE_S_MAX + 1))
    yield Joined("good for too long", enrolment(too_long), "expiry_too_long")
    yield Joined("good for no time", enrolment(signed_invite(invite(expires_s=int(NOW_S)))), "expiry_too_long")
    yield Joined("an invite of another fleet", enrolment(signed_invite(invite(fleet=hexed("f") * 2))), "other_fleet")
    yield Joined("joining another fleet", enrolment(fleet=hexed("f") * 2), "other_fleet")

    yield Joined(
        "nobody signed the invite", enrolment(SignedInvite(canonical.encode(invite()), ())), "signature_required"
    )
    yield Joined("grade apply", enrolment(signed_invite(invite(), CAT_SIGNER)), "signature_required")
    yield Joined("one of two", good, "signature_required", PAIR_TRUST)
    yield Joined("one key twice", enrolment(signed_invite(invite(), BOB_SIGNER, BOB_SIGNER)), short, PAIR_TRUST)
    twins = of((*PAIR_TRUST.operators, replace(BOB, name="twin")), PAIR_TRUST.thresholds)
    yield Joined("one key of two names", good, short, twins)
    low = enrolment(signed_invite(invite(), BOB_SIGNER, CAT_SIGNER))
    yield Joined("one of the grade, one below", low, short, PAIR_TRUST)
    part = enrolment(signed_invite(invite(), BOB_SIGNER, SCOPED_SIGNER))
    yield Joined("one of the two outside of its scope", part, short, PAIR_TRUST)
    yield Joined("outside of a scope", enrolment(signed_invite(invite(), SCOPED_SIGNER)), "signature_required")
    yield Joined("a stranger", enrolment(signed_invite(invite(), EVE_SIGNER)), "unknown_signer")
    yield Joined("a stranger as well", enrolment(signed_invite(invite(), BOB_SIGNER, EVE_SIGNER)), "unknown_signer")
    yield Joined("too many signatures", enrolment(signed_invite(invite(), *(BOB_SIGNER,) * 33)), "signature_invalid")
    for namespace in ("holdfast-order", "holdfast-revision", JOIN_NAMESPACE):
        misused = signed_invite(invite(), namespace=namespace)
        yield Joined(f"an invite signed for {namespace}", enrolment(misused), "signature_invalid")
        if namespace != JOIN_NAMESPACE:
            yield Joined(f"a joining signed for {namespace}", enrolment(namespace=namespace), "signature_invalid")
    swapped = replace(good, invite=replace(good.invite, invite=canonical.encode(invite(node="w9"))))
    yield Joined("the invite was changed", swapped, "signature_invalid")

    yield Joined("belongs to another invite", enrolment(invite=hexed("d") * 2), "enrolment_broken")
    yield Joined("another invite beside it", replace(good, invite=signed_invite(invite(id="x"))), "enrolment_broken")
    yield Joined("another name", enrolment(node="w2"), "enrolment_broken")
    yield Joined("another one-time key", enrolment(once=OTHER_KEY), "signature_invalid")
    yield Joined("no possession of the key", enrolment(own=OTHER_KEY), "signature_invalid")
    yield Joined("the one-time key as its own", enrolment(own=ONCE, key=ONCE.line), "enrolment_broken")
    yield Joined("a key with a comment", enrolment(key=NODE_KEY.line + " me"), "key_form")
    yield Joined("no key", enrolment(key="ssh-ed25519 AAAA"), "invalid_argument")
    yield Joined("a one-time key with a comment", enrolment(signed_invite(invite(once=ONCE.line + " x"))), "key_form")
    named = signed_invite(invite(node="W1"))
    yield Joined("no proper name", enrolment(named, node="W1"), "integrity")
    changed = replace(good, joining=good.joining.replace(b'"w1"', b'"w2"'))
    yield Joined("changed after signing", changed, "enrolment_broken")
    yield Joined("not canonical", replace(good, joining=good.joining + b" "), "not_canonical")
    yield Joined("without end", replace(good, joining=good.joining + b" " * 9000), "integrity")
    endless = SignedInvite(good.invite.invite + b" " * 9000, good.invite.signatures)
    yield Joined("an invite without end", replace(good, invite=endless), "integrity")
    rsa = "ssh-rsa " + _RSA_BLOB
    yield Joined("a node key that is RSA", enrolment(key=rsa), "key_form")


# A public key nobody has the private half of any more.
_RSA_BLOB = (
    "AAAAB3NzaC1yc2EAAAADAQABAAABAQDMaaKNRsBQ1aVltn39r04Z3Dh8RrVPniRm9FZlm/qWtUtojaH3HmOPlP2I17PrHkQaGhyD"
    "UM6Njfu19IbbFNEAJhhl3ERKWKkhLTuv4zxzjy5JGpyujEu9wqRHQmwF56h+cCqgPujJIbmHCZuofeCicU2KQ5zQY7SSzV9vDcQm"
    "M5Mc7eh6cDgOKUvmiyz9HgdCZONzhPuDwHqckeDmdFiZXw2MMdOBqlIATztaKzxaCMYFtgMekAZ+/dTDPvPjjJLd0v48VMCdrhoG"
    "eXQs1FHSbcyC7xHrhXsy0xWSCU85JMU/EwbR7/nIhSMEwBIF5g8o6S5xV4Vs8AFIaEqhQ1iJ"
)


def _for_w2(*signers: Signer) -> Enrolment:
    return enrolment(signed_invite(invite(node="w2"), *signers), node="w2")


def revocations() -> Iterator[tuple[str, SignedRevocation, str, Trust]]:
    good = revocation()
    yield "sound", good, "", TRUST
    yield "two of two", revocation(ANN_SIGNER, BOB_SIGNER), "", PAIR_TRUST
    yield "one of two", good, "signature_required", PAIR_TRUST
    yield "one key twice", revocation(BOB_SIGNER, BOB_SIGNER), "signature_required", PAIR_TRUST
    yield "one of the grade, one below", revocation(BOB_SIGNER, CAT_SIGNER), "signature_required", PAIR_TRUST
    yield "one of the two outside", revocation(BOB_SIGNER, SCOPED_SIGNER), "signature_required", PAIR_TRUST
    yield "grade apply", revocation(CAT_SIGNER), "signature_required", TRUST
    yield "outside of a scope", revocation(SCOPED_SIGNER), "signature_required", TRUST
    yield "a stranger", revocation(EVE_SIGNER), "unknown_signer", TRUST
    yield "another fleet", revocation(fleet=hexed("f") * 2), "other_fleet", TRUST
    yield "another namespace", revocation(namespace=INVITE_NAMESPACE), "signature_invalid", TRUST
    yield "no name", revocation(node="../w1"), "integrity", TRUST
    yield "a key with a comment", revocation(key=NODE_KEY.line + " x"), "key_form", TRUST
    yield "another key", replace(good, revocation=revocation(key=OTHER_KEY.line).revocation), "signature_invalid", TRUST
    yield "without end", SignedRevocation(good.revocation + b" " * 9000, good.signatures), "integrity", TRUST


class Succession(Struct, frozen=True):
    """May a proven key follow the recorded one? `expect` is the code that refuses it, "" for yes."""

    name: str
    invite: Invite
    expect: str = ""
    recorded: str = ""
    revoked_s: float | None = None
    now_s: float = NOW_S + 20


def successions() -> Iterator[Succession]:
    made_s, week_s, no = int(NOW_S), 7 * 86_400, "invite_outdated"
    ended_s = made_s + 3600
    yield Succession("nothing recorded", invite())
    yield Succession("recorded, and made to replace it", invite(replaces=True, over=OTHER_KEY.line), "", OTHER_KEY.line)
    yield Succession("recorded, and not made to replace", invite(over=OTHER_KEY.line), no, OTHER_KEY.line)
    yield Succession("recorded, made to replace another", invite(replaces=True, over=ONCE.line), no, OTHER_KEY.line)
    yield Succession("recorded, made to replace just any", invite(replaces=True), no, OTHER_KEY.line)
    yield Succession("made after the revocation", invite(), revoked_s=made_s - 1)
    yield Succession("made with the revocation", invite(), no, revoked_s=made_s)
    yield Succession("made before the revocation", invite(), no, revoked_s=made_s + 1)
    yield Succession("revoked at the beginning of time", invite(issued_s=0), no, revoked_s=0.0)
    yield Succession("a week after its end, almost", invite(), now_s=ended_s + week_s - 1)
    yield Succession("a week after its end", invite(), no, now_s=ended_s + week_s)


def _succeeding(judge: Any) -> Iterator[str]:
    joining = decode_joining(enrolment().joining)
    for case in successions():
        found = _code(
            lambda case=case: judge.check_succeeds(  # type: ignore[misc]
                judge.Proven(joining, case.invite), case.recorded, case.revoked_s, case.now_s
            )
        )
        if found != case.expect:
            yield f"succession, {case.name}: {found or 'believed'}, not {case.expect or 'believed'}"


def complaints(judge: Any) -> Iterator[str]:
    yield from _succeeding(judge)
    for case in joins():
        found = _code(lambda case=case: judge.verify(case.enrolment, case.fleet, case.trust, case.now_s))  # type: ignore[misc]
        if found != case.expect:
            yield f"{case.name}: {found or 'believed'}, not {case.expect or 'believed'}"
    for name, signed, expect, trust in revocations():
        found = _code(lambda signed=signed, trust=trust: judge.verify_revocation(signed, FLEET, trust))  # type: ignore[misc]
        if found != expect:
            yield f"revocation, {name}: {found or 'believed'}, not {expect or 'believed'}"


def _code(question: Callable[[], Any]) -> str:
    try:
        question()
    except HoldfastError as refused:
        return refused.code
    except Exception as trouble:
        return f"fell over: {trouble!r}"
    return ""
