"""Signed orders, whole and spoiled in every way an attacker could think of (S07). Nothing is random."""

import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.adapters.signer.memory import MemorySigner
from holdfast.model import canonical, ssh_key
from holdfast.model.fleet import Grade, Operator, Thresholds
from holdfast.model.order import FORMAT, NAMESPACE, Order, SignedOrder
from holdfast.model.report import Pulse, SignedPulse
from holdfast.model.trust import Trust, of
from holdfast.ports.signer import Signer
from holdfast.trust.lives import PULSE_BYTES_MAX
from tests.fleets.lives import pulse_of


def operator_signer(name: str, grade: Grade, scope: tuple[str, ...] = ()) -> tuple[Operator, MemorySigner]:
    signer = MemorySigner(sha256(f"operator {name}".encode()).digest(), name)
    return Operator(name, ssh_key.line(signer.public_key), grade, scope=scope), signer


ANN, ANN_SIGNER = operator_signer("ann", "root")
BOB, BOB_SIGNER = operator_signer("bob", "destroy")
CAT, CAT_SIGNER = operator_signer("cat", "apply")
WEB, WEB_SIGNER = operator_signer("web-keeper", "destroy", ("service.web",))
RACK, RACK_SIGNER = operator_signer("racker", "apply", ("node.w1",))
EVE, EVE_SIGNER = operator_signer("eve", "root")  # in no trust: a stranger, or somebody whose key was taken away

TRUST = of((ANN, BOB, CAT, WEB, RACK), Thresholds(destroy=2))
LONE_TRUST = of((ANN, BOB, CAT, WEB, RACK), Thresholds())
FLEET = sha256(b"the fleet").hexdigest()
NODE, NOW_S = "w1", 1_700_000_000.0
PULSE = pulse_of(FLEET, NODE, MemoryIdentityKey(sha256(b"key of w1").digest()), NOW_S - 5, counter=6)
ARGUMENTS = canonical.encode({"reason": "moved away"})


def hexed(word: str) -> str:
    return sha256(word.encode()).hexdigest()[:32]


def purge(**changed: Any) -> Order:
    """An order to purge data.web on w1, valid for a quarter of an hour from now."""
    whole: dict[str, Any] = {
        "format": FORMAT,
        "fleet": FLEET,
        "id": hexed("id"),
        "node": NODE,
        "target": "data.web",
        "action": "purge",
        "arguments": canonical.digest(ARGUMENTS),
        "counter": 7,
        "nonce": hexed("nonce"),
        "not_before_s": int(NOW_S),
        "expires_s": int(NOW_S) + 900,
        "pulse": PULSE,
    }
    return Order(**(whole | changed))


def signed(order: Order | bytes, *signers: Signer, arguments: bytes = ARGUMENTS) -> SignedOrder:
    content = order if isinstance(order, bytes) else canonical.encode(order)
    return SignedOrder(content, arguments, tuple(s.sign(content, NAMESPACE) for s in signers))


GOOD = signed(purge(), ANN_SIGNER, BOB_SIGNER)


class Case(Struct, frozen=True):
    """One presentation of an order to a node; `expect` are the codes that refuse it, none for a sound one."""

    name: str
    order: SignedOrder
    expect: tuple[str, ...]
    fleet: str = FLEET
    node: str = NODE
    trust: Trust = TRUST
    now_s: float = NOW_S


def spoiled() -> Iterator[Case]:
    """More than five hundred ways to present an order that must not be run."""
    yield from _changed_fields()
    yield from _flipped_bytes()
    yield from _wrong_signatures()
    yield from _signed_nonsense()
    yield from _other_places_and_times()
    yield from _other_spellings()
    yield from _arguments()


_ANY = ("order_malformed", "signature_invalid")


def _changed_fields() -> Iterator[Case]:
    """Every field changed after signing: some are caught by what they say, the rest by the signature."""
    others: dict[str, list[Any]] = {
        "format": [0, 3, -1],
        "fleet": [hexed("x") * 2, FLEET.upper(), FLEET[:-1], FLEET + "\n", ""],
        "id": [hexed("other"), "", hexed("id").upper(), hexed("id") + "\n"],
        "node": ["w2", "W1", "w1 ", "w1\n", "", "w1/../w2"],
        "target": [
            "data.db",
            "data.web2",
            "service.web",
            "node.w1",
            "data.",
            "data.../etc",
            "data.web\n",
            "data.*",
            "",
        ],
        "action": ["ping", "restore", "decommission", "PURGE", "purge ", "", "destroy"],
        "arguments": [hexed("x") * 2, ""],
        "counter": [0, 6, 8, 2**53 - 1, 2**53, 2**63, 2**64, 10**300, -1],
        "nonce": [hexed("y"), "", hexed("nonce") + "0"],
        "not_before_s": [0, int(NOW_S) - 1, int(NOW_S) + 1, 2**53, -5],
        "expires_s": [int(NOW_S) + 901, int(NOW_S) + 7 * 86_400, 2**53 - 1, 2**70],
        "pulse": ["", 7, {}, {"pulse": "", "signature": ""}],
    }
    for field, values in others.items():
        for value in values:
            spoken = json.loads(GOOD.order) | {field: value}
            content = json.dumps(spoken, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
            yield Case(f"{field} becomes {str(value)[:30]!r}", replace(GOOD, order=content), ())
    for field in others:
        spoken = json.loads(GOOD.order)
        del spoken[field]
        yield Case(f"{field} is missing", replace(GOOD, order=_dump(spoken)), ("order_malformed",))
        spoken = json.loads(GOOD.order) | {field: None}
        yield Case(f"{field} is null", replace(GOOD, order=_dump(spoken)), ("order_malformed",))


def _dump(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _flipped_bytes() -> Iterator[Case]:
    for at in range(0, len(GOOD.order), 2):
        for bit in (0x01, 0x20):
            content = bytearray(GOOD.order)
            content[at] ^= bit
            yield Case(f"order byte {at} ^ {bit:#x}", replace(GOOD, order=bytes(content)), ())
    for which in (0, 1):
        text = GOOD.signatures[which]
        for at in range(0, len(text), 9):
            broken = text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]
            both = (broken, GOOD.signatures[1]) if which == 0 else (GOOD.signatures[0], broken)
            yield Case(f"signature {which}, character {at}", replace(GOOD, signatures=both), ())
    for length in range(0, len(GOOD.order), 16):
        yield Case(f"cut to {length} bytes", replace(GOOD, order=GOOD.order[:length]), ("order_malformed",))


def _wrong_signatures() -> Iterator[Case]:
    def case(name: str, signatures: tuple[str, ...], *codes: str) -> Case:
        return Case(name, replace(GOOD, signatures=signatures), codes)

    content = GOOD.order
    ann, bob, cat, eve = (s.sign(content, NAMESPACE) for s in (ANN_SIGNER, BOB_SIGNER, CAT_SIGNER, EVE_SIGNER))
    yield case("no signature", (), "signature_required")
    yield case("one of two", (ann,), "signature_required")
    yield case("the other one of two", (bob,), "signature_required")
    yield case("one signer twice", (bob, bob), "signature_required")
    yield case("the second has too low a grade", (ann, cat), "signature_required")
    yield case("a stranger, or a key that was revoked", (ann, eve), "unknown_signer")
    yield case("enough, and a stranger", (ann, bob, eve), "unknown_signer")
    yield case("only strangers", (eve, eve), "unknown_signer")
    yield case("too many", (ann, bob) * 17, "signature_invalid")
    yield case("no signature at all", ("",), "signature_invalid")
    for namespace in ("holdfast-revision", "holdfast-invite", "holdfast-session", "file", "holdfast-order ", "Order"):
        forged = tuple(s.sign(content, namespace) for s in (ANN_SIGNER, BOB_SIGNER))
        yield case(f"signed for {namespace!r}", forged, "signature_invalid")
        yield case(f"one signed for {namespace!r}", (ann, forged[1]), "signature_invalid")
    other = canonical.encode(purge(counter=8))
    elsewhere_signed = tuple(s.sign(other, NAMESPACE) for s in (ANN_SIGNER, BOB_SIGNER))
    yield case("signatures of another order", elsewhere_signed, "signature_invalid")
    # A scope of service.web covers data.web and no other.
    elsewhere = purge(target="data.db")
    yield Case("outside of a scope", signed(elsewhere, ANN_SIGNER, WEB_SIGNER), ("signature_required",))
    yield Case("outside of a scope, alone", signed(elsewhere, WEB_SIGNER), ("signature_required",), trust=LONE_TRUST)
    gone = of((ANN, CAT), Thresholds(destroy=2))
    yield Case("a signer's key was taken out of the trust", GOOD, ("unknown_signer",), trust=gone)
    lowered = of((ANN, replace(BOB, grade="apply"), CAT), Thresholds(destroy=2))
    yield Case("a signer was lowered to apply", GOOD, ("signature_required",), trust=lowered)
    three = of((ANN, BOB, CAT, WEB), Thresholds(destroy=3))
    yield Case("the threshold was raised", GOOD, ("signature_required",), trust=three)


def _signed_nonsense() -> Iterator[Case]:
    """Well signed by everybody, and still not an order for here and now."""
    both = (ANN_SIGNER, BOB_SIGNER)
    nonsense: list[tuple[str, Order, str]] = [
        ("an unknown format", purge(format=FORMAT + 1), "order_malformed"),
        ("another fleet", purge(fleet=hexed("other fleet") * 2), "other_fleet"),
        ("another node", purge(node="w2"), "other_node"),
        ("no node", purge(node=""), "other_node"),
        ("an unknown action", purge(action="wipe"), "unknown_action"),
        ("no action", purge(action=""), "unknown_action"),
        ("a service instead of data", purge(target="service.web"), "target_mismatch"),
        ("a node instead of data", purge(target="node.w1"), "target_mismatch"),
        ("another node as target", purge(action="ping", target="node.w2"), "target_mismatch"),
        ("data instead of a node", purge(action="ping", target="data.w1"), "target_mismatch"),
        ("a path as target", purge(target="data.../../etc"), "target_mismatch"),
        ("a newline in the target", purge(target="data.web\n"), "target_mismatch"),
        ("everybody's data", purge(target="data.*"), "target_mismatch"),
        ("no target", purge(target=""), "target_mismatch"),
        ("longer than a week", purge(expires_s=int(NOW_S) + 7 * 86_400 + 1), "expiry_too_long"),
        ("expires as it begins", purge(not_before_s=int(NOW_S) + 30, expires_s=int(NOW_S) + 30), "expiry_too_long"),
        ("expires before it begins", purge(not_before_s=int(NOW_S) + 30, expires_s=int(NOW_S) + 20), "expiry_too_long"),
        ("no pulse of its node", purge(pulse=None), "order_malformed"),
        ("the pulse of another node", purge(pulse=pulse(node="w2")), "order_malformed"),
        ("a pulse in another fleet", purge(pulse=pulse(fleet=hexed("x") * 2)), "order_malformed"),
        ("a pulse without a life", purge(pulse=pulse(life="")), "order_malformed"),
        ("a pulse that cannot be read", purge(pulse=replace(PULSE, pulse=b"{}")), "order_malformed"),
        ("a pulse that is too long", purge(pulse=pulse(release="x" * 60, results=_MANY)), "order_malformed"),
        ("an earlier release", purge(format=1, pulse=None), "order_format_old"),
        ("a purge that would outlive the agent", purge(after_restart=True), "not_after_restart"),
        ("other arguments", purge(arguments=canonical.digest(b"{}")), "arguments_digest"),
    ]
    for name, order, code in nonsense:
        yield Case(f"well signed: {name}", signed(order, *both), (code,))
    yield Case("for a node without a proper name", signed(purge(node="W1"), *both), ("other_node",), node="W1")


_MANY = {hexed(f"result {number}"): "done" for number in range(200)}


def pulse(**changed: Any) -> SignedPulse:
    content = msgspec.json.encode(replace(msgspec.json.decode(PULSE.pulse, type=Pulse), **changed))
    return replace(PULSE, pulse=content)


def _other_places_and_times() -> Iterator[Case]:
    for node in ("w2", "w", "w11", "", "W1"):
        yield Case(f"at the node {node!r}", GOOD, ("other_node",), node=node)
    yield Case("at another fleet", GOOD, ("other_fleet",), fleet=hexed("f") * 2)
    for late_s in (900.0, 900.001, 901.0, 86_400.0, 10 * 365 * 86_400.0):
        yield Case(f"{late_s} s after signing", GOOD, ("expired",), now_s=NOW_S + late_s)
    for early_s in (60.001, 61.0, 3600.0, 86_400.0, NOW_S):
        yield Case(f"{early_s} s before signing", GOOD, ("not_yet_valid",), now_s=NOW_S - early_s)


def _other_spellings() -> Iterator[Case]:
    """The same value written otherwise, and signed as it is written: one order has one text."""
    value = json.loads(GOOD.order)
    text = GOOD.order.decode()
    backwards = dict(reversed(value.items()))
    spellings = {
        "blanks": json.dumps(value, sort_keys=True),
        "indented": json.dumps(value, sort_keys=True, indent=1),
        "reordered": json.dumps(backwards, separators=(",", ":")),
        "blank before": " " + text,
        "newline after": text + "\n",
        "byte order mark": "\ufeff" + text,
        "escaped letter": text.replace("purge", "\\u0070urge"),
        "escaped key": text.replace('"node"', '"n\\u006fde"'),
        "number as float": text.replace('"counter":7', '"counter":7.0'),
        "number with exponent": text.replace('"counter":7', '"counter":7e0'),
        "number as text": text.replace('"counter":7', '"counter":"7"'),
        "leading zero": text.replace('"counter":7', '"counter":07'),
        "a huge number": text.replace('"counter":7', '"counter":' + "9" * 400),
        "an endless number": text.replace('"counter":7', '"counter":' + "9" * 5000),
        "minus zero": text.replace('"counter":7', '"counter":-0'),
        "an unknown field": text[:-1] + ',"scratch":true}',
        "an unknown field in order": text.replace('"target"', '"scratch":true,"target"'),
        "twice the same": text + text,
        "an array": f"[{text}]",
        "a string": json.dumps(text),
        "nothing": "",
        "null": "null",
    }
    for field, own in value.items():
        key = f'"{field}":{json.dumps(own, separators=(",", ":"))}'
        spellings[f"{field} twice"] = text.replace(key, f"{key},{key}")
        lie = f'"{field}":{json.dumps("w2" if isinstance(own, str) else 9)}'
        spellings[f"{field} twice, first a lie"] = text.replace(key, f"{lie},{key}")
        spellings[f"{field} twice, last a lie"] = text.replace(key, f"{key},{lie}")
    for name, spelt in spellings.items():
        assert spelt != text, name
        yield Case(f"spelt otherwise: {name}", signed(spelt.encode(), ANN_SIGNER, BOB_SIGNER), ("order_malformed",))
    broken = GOOD.order.replace(b"purge", b"pur\xffe")
    yield Case("not UTF-8", signed(broken, ANN_SIGNER, BOB_SIGNER), ("order_malformed",))
    deep = b"[" * 3000 + b"]" * 3000
    yield Case("nested deeply", signed(deep, ANN_SIGNER, BOB_SIGNER), ("order_malformed",))


def _arguments() -> Iterator[Case]:
    for at in range(len(ARGUMENTS)):
        flipped = bytearray(ARGUMENTS)
        flipped[at] ^= 0x01
        yield Case(f"arguments byte {at}", replace(GOOD, arguments=bytes(flipped)), ("arguments_digest",))
    for name, content in {
        "none": b"",
        "an empty object": b"{}",
        "swapped": canonical.encode({"reason": "moved in"}),
    }.items():
        yield Case(f"arguments are {name}", replace(GOOD, arguments=content), ("arguments_digest",))
    signed_as: dict[str, bytes] = {
        "not canonical": b'{"reason": "x"}',
        "doubled": b'{"reason":"x","reason":"x"}',
        "no object": b"[]",
        "not text": b'{"reason":1}',
        "too long": canonical.encode({"reason": "x" * 70_000}),
    }
    for name, content in signed_as.items():
        order = purge(arguments=canonical.digest(content))
        yield Case(
            f"well signed arguments, {name}",
            signed(order, ANN_SIGNER, BOB_SIGNER, arguments=content),
            ("order_malformed",),
        )


def sound() -> Iterator[Case]:
    """What must run, so that refusing everything is no way to pass."""
    yield Case("untouched", GOOD, ())
    yield Case("the last moment", GOOD, (), now_s=NOW_S + 899.999)
    yield Case("a clock sixty seconds behind", GOOD, (), now_s=NOW_S - 60)
    yield Case("a week", signed(purge(expires_s=int(NOW_S) + 7 * 86_400), ANN_SIGNER, BOB_SIGNER), ())
    yield Case("a scope that covers it", signed(purge(), ANN_SIGNER, WEB_SIGNER), ())
    yield Case("three where two are needed", signed(purge(), ANN_SIGNER, BOB_SIGNER, WEB_SIGNER), ())
    yield Case("as many signatures as there may be", signed(purge(), *(ANN_SIGNER, BOB_SIGNER) * 16), ())
    lasting = purge(action="ping", target="node.w1", after_restart=True)
    yield Case("ping after a restart", signed(lasting, CAT_SIGNER), ())
    full = replace(PULSE, pulse=PULSE.pulse.ljust(PULSE_BYTES_MAX))
    yield Case("a pulse of the longest length", signed(purge(pulse=full), ANN_SIGNER, BOB_SIGNER), ())
    yield Case("ping by grade apply", signed(purge(action="ping", target="node.w1"), CAT_SIGNER), ())
    yield Case("ping within a scope", signed(purge(action="ping", target="node.w1"), RACK_SIGNER), ())
    long = canonical.encode({"reason": "x" * (64 * 1024 - len(canonical.encode({"reason": ""})))})
    wordy = purge(arguments=canonical.digest(long))
    yield Case("arguments as long as they may be", signed(wordy, ANN_SIGNER, BOB_SIGNER, arguments=long), ())
    yield Case("restart of a service", signed(purge(action="restart", target="service.web"), WEB_SIGNER), ())
    yield Case("one signer where one is enough", signed(purge(), BOB_SIGNER), (), trust=LONE_TRUST)


Verify = Callable[..., Any]


def outcome(verify: Verify, case: Case) -> str:
    """The code it was refused with, or "verified". Anything else a verifier may raise is a fault of its own."""
    from holdfast.errors import HoldfastError

    try:
        verify(case.order, case.fleet, case.node, case.trust, case.now_s)
    except HoldfastError as refused:
        return refused.code
    return "verified"
