"""S04 once more, through TLS, signatures and the permission table: fifty requests, two accepted, fifty audit lines."""

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from holdfast.model.checkin import CheckInAnswer, JoinRequest
from holdfast.model.invite import INVITE_NAMESPACE, SignedInvite
from holdfast.wire import codec
from tests.fleets.build import commit, mailbox, operator_signer, small_fleet
from tests.fleets.serving import ALICE, Caller, Machine, Person, Served, served

NODES = ("w1", "w2", "e1")
NAMES = ("w2", "e1", "w9", "W1", "w1 ", " w1", "w1\n", "w１", "w1\u200b", "w1.", "./w1", "ｗ1")


def joins(hub: Served, request: JoinRequest, as_: Caller) -> bool:
    answer = hub.signed("POST", "/v1/join", codec.write(request), as_)
    assert answer.status < 500, answer
    return answer.status == 200 and bool(answer.json()["accepted"])


def reports(hub: Served, machine: Machine, node: str, roles: tuple[str, ...] = ()) -> bool:
    answer = hub.check_in(machine, node, roles=roles)
    assert answer.status < 500, answer
    return answer.status == 200 and codec.read(answer.body, CheckInAnswer).registered


def attempts(hub: Served, w1: Machine) -> list[tuple[str, Callable[[], bool]]]:
    stranger, thief = Machine("stranger"), Machine("thief")
    known = hub.joining("w1")
    found: list[tuple[str, Callable[[], bool]]] = []
    for name in NAMES:  # 12 and 12: an enrolled node as somebody else
        found.append((f"w1 registers as {name!r}", partial(joins, hub, replace(known, name=name), w1)))
        found.append((f"w1 reports as {name!r}", partial(reports, hub, w1, name)))
    for name in (*NODES, "w9"):  # 4: a key that nobody knows
        found.append((f"a stranger reports as {name}", partial(reports, hub, stranger, name)))
    eve = operator_signer("eve")[1]
    for name in ("w2", "e1", "w9"):  # 3: invited by nobody
        real = hub.joining(name, key="stranger")
        invite = real.enrolment.invite.invite
        forged = SignedInvite(invite, (eve.sign(invite, INVITE_NAMESPACE),))
        fake = replace(real, enrolment=replace(real.enrolment, invite=forged))
        found.append((f"a stranger's own invite for {name}", partial(joins, hub, fake, stranger)))
    good = hub.joining("w2", key="stranger")
    promoted = hub.joining("w2", ("edge",), key="stranger")
    swapped = replace(good.enrolment, invite=hub.joining("w2", key="stranger").enrolment.invite)
    stolen = replace(good.enrolment, signature=hub.joining("w2", key="thief").enrolment.signature)
    bob = Person("bob", operator_signer("eve")[1])
    found += [
        ("invited, but not in the revision", lambda: joins(hub, hub.joining("w9", key="stranger"), stranger)),
        ("another key signs the request", lambda: joins(hub, good, thief)),
        ("nobody signs the request", lambda: joins(hub, good, Caller())),
        ("a token signs nothing", lambda: joins(hub, good, hub.token())),
        ("an operator is no node", lambda: joins(hub, good, ALICE)),
        ("a session of no operator", lambda: joins(hub, good, bob)),
        ("the invite of w2 used for e1", lambda: joins(hub, replace(good, name="e1"), stranger)),
        ("as edge", lambda: joins(hub, replace(good, roles=("edge",)), stranger)),
        ("invited as edge", lambda: joins(hub, promoted, stranger)),
        ("another invite beside it", lambda: joins(hub, replace(good, enrolment=swapped), stranger)),
        ("without the one-time key", lambda: joins(hub, replace(good, enrolment=stolen), stranger)),
        ("a name that has a key", lambda: joins(hub, hub.joining("w1", key="stranger"), stranger)),
        ("roles it does not have", lambda: reports(hub, w1, "w1", ("edge",))),
        ("no name at all", lambda: reports(hub, w1, "")),
        ("a clock an hour off", lambda: joins(hub, good, Machine("stranger", skew_s=3600))),
    ]
    return found


def test_of_fifty_requests_the_two_legitimate_ones_are_accepted_and_all_fifty_are_audited() -> None:
    """S04, I-12, I-13, M-21, M-22, M-23."""
    hub = mailbox()
    commit(hub, small_fleet(nodes=NODES))
    with served(hub) as door:
        w1 = door.joined("w1")
        before = len(door.events())
        hostile = attempts(door, w1)
        taken = [why for why, attempt in hostile if attempt()]
        assert taken == []
        if joins(door, replace(door.joining("w1"), address="100.64.0.99"), w1):
            taken.append("re-register")
        request = door.joining("w2")
        if joins(door, request, Machine("w2")):
            taken.append("first use")
        reuse = door.joining("w2", key="thief")
        spent = replace(reuse, enrolment=replace(reuse.enrolment, invite=request.enrolment.invite))
        for thief in ("thief", "second thief"):
            if joins(door, spent, Machine(thief)):
                taken.append(f"reuse by {thief}")
        assert taken == ["re-register", "first use"]
        count = len(hostile) + 4
        door.denials(count - 2)
        lines = door.events()[before:]
        assert len(lines) == count == 50
        assert sum(1 for line in lines if line.result == "done") == 2
        assert {line.result for line in lines} == {"done", "denied"}
        again = next(line for line in lines if line.result == "done")
        assert again.target == "node.w1" and "previous address" in again.detail
        assert all(line.source for line in lines)
