"""Everything that is signed, and every credential, is encoded as it was: one fixed example of each."""

from typing import Any

import msgspec

from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.agent import membership
from holdfast.model import audit, canonical
from holdfast.model.audit import NO_ENTRIES, AuditEntry, Event
from holdfast.model.checkin import CheckIn, CheckInAnswer, JoinAnswer, JoinRequest
from holdfast.model.fleet import Thresholds
from holdfast.model.invite import (
    JOIN_NAMESPACE,
    Invite,
    JoinToken,
    SignedInvite,
    decode_token,
    encode_token,
)
from holdfast.model.order import (
    ACTIONS,
    NAMESPACE,
    Delivered,
    HubOrder,
    OrderResult,
    SignedOrder,
    decode_order,
)
from holdfast.model.record import (
    Approval,
    Link,
    Pin,
    Rebuilt,
    Recovery,
    RevisionRecord,
    Signer,
)
from holdfast.model.report import PULSE_NAMESPACE, Facts, Pulse, SignedPulse
from holdfast.model.revision import Head
from holdfast.model.session import NAMESPACE as SESSION_NAMESPACE
from holdfast.model.session import SessionCertificate, SessionGrant
from holdfast.model.stream import Alive, CaughtUp, Ended, StreamedLine
from holdfast.model.token import StoredToken
from holdfast.model.trust import of
from holdfast.trust import enrolment as enrolment_rules
from holdfast.trust import orders, own_signature, sessions, tokens
from holdfast.wire import codec, http_signature, session_header, stream
from tests.fleets.build import operator_signer
from tests.fleets.desks import key_of
from tests.fleets.enrolments import ONCE, enrolment, invite, revocation, signed_invite
from tests.fleets.orders import ANN, ANN_SIGNER, BOB, BOB_SIGNER, CAT, FLEET, NODE, NOW_S, PULSE, hexed
from tests.golden import stored

TRUST = of((ANN, BOB, CAT), Thresholds())
NODE_KEY: MemoryIdentityKey = key_of("w1")
HUB_KEY: MemoryIdentityKey = key_of("hub")
HEAD = Head(7, "ab" * 32)
LINK = Link(b'{"number":7}', ("signature",), b'{"operators":[]}')
ARGUMENTS: dict[str, dict[str, str]] = {
    "exec": {"component": "main", "command": "true"},
    "logs": {"component": "main", "tail": "100", "since": "3600"},
    "purge": {"reason": "moved away"},
}
TARGETS = {"node": f"node.{NODE}", "service": "service.web", "data": "data.web"}


def order_of(action: str, number: int) -> SignedOrder:
    target, arguments = TARGETS[ACTIONS[action].target], ARGUMENTS.get(action, {})
    known = (number, hexed(f"id {action}"), hexed(f"nonce {action}"), NOW_S, NOW_S + 900)
    order, written = orders.draft(FLEET, NODE, target, action, arguments, *known, PULSE)
    return SignedOrder(order, written, (ANN_SIGNER.sign(order, NAMESPACE), BOB_SIGNER.sign(order, NAMESPACE)))


def test_orders_of_every_action() -> None:
    sheet = stored.Sheet()
    for number, (action, rule) in enumerate(ACTIONS.items(), 1):
        signed = order_of(action, number)
        sheet.title(f"order {action}")
        sheet.add("order", signed.order)
        sheet.add("arguments", signed.arguments)
        sheet.add("signature", signed.signatures[0])
        sheet.add("wire", codec.write(signed))
        assert orders.verify(signed, FLEET, NODE, TRUST, NOW_S).order == decode_order(signed.order)
        if rule.hub_may:
            sheet.add("wire of a hub", codec.write(HubOrder(hexed(action), NODE, action, TARGETS[rule.target])))
    sheet.title("delivery and result")
    sheet.add("delivered", codec.write(Delivered(3, order_of("restart", 1))))
    sheet.add("delivered of a hub", codec.write(Delivered(1, hub=HubOrder("id", NODE, "ping"))))
    sheet.add("result done", codec.write(OrderResult(hexed("id"), 1, "done", finished_s=NOW_S)))
    whole = OrderResult(hexed("id"), 2, "refused", "replayed", "a message", "a remedy", NOW_S)
    sheet.add("result refused", codec.write(whole))
    stored.check("signed/orders.txt", sheet.text())


def test_invites_enrolments_and_revocations() -> None:
    sheet = stored.Sheet()
    plain = signed_invite(invite())
    replacing: Invite = invite(replaces=True, over=NODE_KEY.line, roles=("worker", "edge"))
    for name, value in {"invite": plain, "invite that replaces": signed_invite(replacing)}.items():
        sheet.title(name)
        sheet.add("invite", value.invite)
        sheet.add("signature", value.signatures[0])
        sheet.add("wire", codec.write(value))
    token = JoinToken(plain, b"\x01" * 32, "https://hub.example.com:9555", HUB_KEY.line, HEAD)
    sheet.title("join token")
    sheet.add("token", encode_token(token))
    assert decode_token(encode_token(token)) == token
    joining = enrolment()
    enrolment_rules.verify(joining, FLEET, TRUST, NOW_S)
    sheet.title("enrolment")
    sheet.add("joining", joining.joining)
    sheet.add("signature of the one-time key", joining.signature)
    sheet.add("signature of the node", joining.possession)
    request = JoinRequest(joining, "w1", ("worker",), "100.64.0.1", "x86_64")
    sheet.add("join request", codec.write(request))
    sheet.add("join answer", codec.write(JoinAnswer(True, HEAD, NOW_S)))
    sheet.title("revocation")
    gone = revocation()
    sheet.add("revocation", gone.revocation)
    sheet.add("wire", codec.write(gone))
    stored.check("signed/enrolment.txt", sheet.text())


def test_what_an_agent_keeps_of_its_enrolment() -> None:
    token = JoinToken(signed_invite(invite()), b"\x01" * 32, "https://hub.example.com", HUB_KEY.line, HEAD)
    kept = membership.enrol(token, ONCE, NODE_KEY, NOW_S, "100.64.0.1")
    stored.check("stored/identity.json", membership.encode(kept).decode())


def a_pulse(**changed: Any) -> SignedPulse:
    whole: dict[str, Any] = {"fleet": FLEET, "node": NODE, "sequence": 12, "at_s": NOW_S}
    content = msgspec.json.encode(Pulse(**(whole | changed)))
    return SignedPulse(content, own_signature.armoured(NODE_KEY, content, PULSE_NAMESPACE))


def test_pulses_and_check_ins() -> None:
    sheet = stored.Sheet()
    full = a_pulse(
        accepted=HEAD,
        manifest="cd" * 32,
        report="ef" * 32,
        counter=9,
        facts=Facts(4000, 8 << 30, 2 << 30, 100 << 30, 50 << 30, 3),
        results={hexed("one"): "done", hexed("two"): "refused"},
    )
    sheet.title("pulse")
    sheet.add("least", a_pulse().pulse)
    sheet.add("all fields", full.pulse)
    sheet.add("signature", full.signature)
    sheet.title("check-in")
    sheet.add("least", codec.write(CheckIn("w1")))
    request = CheckIn(
        node="w1",
        seen=HEAD,
        heartbeat=True,
        pulse=full,
        report=b'{"node":"w1"}',
        results=(OrderResult("id", 1, "done"),),
        wait_s=30.0,
        clock_s=NOW_S,
        roles=("worker",),
        address="100.64.0.1",
        audit=(b"line",),
    )
    sheet.add("all fields", codec.write(request))
    sheet.title("answer")
    sheet.add("least", codec.write(CheckInAnswer(HEAD, NOW_S)))
    answer = CheckInAnswer(
        head=HEAD,
        time_s=NOW_S,
        links=(LINK,),
        manifest=b"{}",
        orders=(Delivered(1, order_of("ping", 1)), Delivered(2, hub=HubOrder("id", "w1", "ping"))),
        results_taken=("id",),
        report_wanted=True,
        salvage_wanted=True,
        registered=False,
        audit_seen=4,
        standby=("service.web",),
        released=("service.old",),
        withdrawn=("web.svc.test",),
    )
    sheet.add("all fields", codec.write(answer))
    stored.check("signed/check_in.txt", sheet.text())


def test_sessions_tokens_and_signed_requests() -> None:
    sheet = stored.Sheet()
    operator, signer = operator_signer("ann", "root")
    session = key_of("session")
    grant = canonical.encode(SessionGrant(FLEET, operator.key, session.line, int(NOW_S), int(NOW_S) + 3600))
    certificate = SessionCertificate(grant, signer.sign(grant, SESSION_NAMESPACE))
    sheet.title("session certificate")
    sheet.add("grant", grant)
    sheet.add("signature", certificate.signature)
    sheet.add(f"header {session_header.HEADER}", session_header.write(certificate))
    sessions.verify_session(certificate, session.line, FLEET, of((operator,), Thresholds()), NOW_S)
    sheet.title("token")
    token_id, text = tokens.mint(bytes(range(40)))
    sheet.add("text", text)
    kept = StoredToken(token_id, "laptop", "read", "alice", int(NOW_S), int(NOW_S) + 60, hash=tokens.digest(text))
    sheet.add("kept by the hub", msgspec.json.encode(kept))
    sheet.title("signed request")
    nonce = "AAAAAAAAAAAAAAAAAAAAAA=="
    to = "SHA256:" + "A" * 43
    for name, body in {"without a body": None, "with a body": b'{"wire":1}'}.items():
        found = http_signature.sign(session, "POST", "/v1/tokens?x=1", body, FLEET, to, int(NOW_S), nonce)
        for header, value in found.items():
            sheet.add(f"{name}: {header}", value)
    parsed = http_signature.read("POST", "/v1/tokens?x=1", found)
    http_signature.check_signature(parsed)
    sheet.add("what the key signs", parsed.base)
    for header, value in http_signature.sign_response(HUB_KEY, 401, int(NOW_S), nonce).items():
        sheet.add(f"answer: {header}", value)
    stored.check("signed/sessions.txt", sheet.text())


def test_records_links_audit_lines_and_stream_frames() -> None:
    sheet = stored.Sheet()
    sheet.title("records of the ledger")
    approval = Approval("destroy", (Signer("alice", "SHA256:x", "root"),), ("service.web",))
    record = RevisionRecord(7, "ab" * 32, ("signature",), NOW_S, approval, {"create": 1, "move": 2})
    recovery = Recovery("id", 6, "cd" * 32, "ab" * 32, NOW_S, ("ef" * 32,))
    for name, value in {
        "record": record,
        "link": LINK,
        "pin": Pin(1, FLEET),
        "rebuilt": Rebuilt(3, NOW_S),
        "recovery": recovery,
    }.items():
        sheet.add(name, codec.write(value))
    sheet.title("audit lines")
    first = audit.encode(AuditEntry(1, int(NOW_S) * 1000, Event("alice", "commit"), NO_ENTRIES.digest))
    head = audit.follow(NO_ENTRIES, first)
    event = Event("hub", "order", "data.web", "refused", "a detail", "192.0.2.1", 3)
    second = audit.encode(AuditEntry(2, int(NOW_S) * 1000 + 1, event, head.digest))
    sheet.add("first", first)
    sheet.add("second", second)
    audit.verify([first, second])
    sheet.title("frames of a stream")
    sheet.add(
        "frames", stream.written([StreamedLine("c1", "main", 0, NOW_S, False, "grüß"), CaughtUp(), Alive(), Ended()])
    )
    sheet.add("end with a failure", stream.written([Ended("runtime_away", "a message", "a remedy")]))
    stored.check("signed/records.txt", sheet.text())


def test_namespaces_of_signatures() -> None:
    """A signature for one purpose is worth nothing for another: the purposes have these names."""
    from holdfast.model import invite as invites
    from holdfast.model import revision

    names = {
        "revision": revision.NAMESPACE,
        "order": NAMESPACE,
        "invite": invites.INVITE_NAMESPACE,
        "join": JOIN_NAMESPACE,
        "revocation": invites.REVOKE_NAMESPACE,
        "session": SESSION_NAMESPACE,
        "pulse": PULSE_NAMESPACE,
    }
    stored.check("signed/namespaces.json", stored.pretty(names))


def test_an_invite_is_read_back() -> None:
    value = signed_invite(invite())
    assert codec.read(codec.write(value), SignedInvite) == value
