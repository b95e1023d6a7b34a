"""S04: fifty attempts to become a node or to speak for one. Two are legitimate, and exactly those two are accepted."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future

import pytest
from msgspec.structs import replace

from holdfast.errors import Conflict, HoldfastError, Limited, NotPermitted
from holdfast.model.checkin import CheckIn, JoinRequest
from holdfast.model.fleet import Fleet, Node, Settings
from holdfast.model.principal import ANONYMOUS, Principal
from holdfast.ports.ledger_store import Transaction
from tests.fleets.build import operator_signer, small_fleet
from tests.fleets.desks import OPERATOR, Puppet, Rig, key_of
from tests.fleets.virtual import VirtualLoop, run

Attempt = Callable[[], Awaitable[bool]]
SOURCE = "198.51.100.7"


async def attempted(rig: Rig, principal: Principal, request: JoinRequest) -> bool:
    try:
        return (await rig.desk.join(principal, request, SOURCE)).accepted
    except HoldfastError as refused:
        assert refused.remedy
        return False


async def reported(rig: Rig, principal: Principal, message: CheckIn) -> bool:
    """Whether the hub took it as the word of a node."""
    try:
        answer = await rig.desk.check_in(principal, message, SOURCE)
    except HoldfastError as refused:
        assert refused.remedy
        return False
    assert answer.registered or not (answer.links or answer.manifest or answer.orders), "a stranger learns nothing"
    return answer.registered


def spellings(name: str) -> list[str]:
    """Names that look like it, to people or to careless code."""
    return [name.upper(), f"{name} ", f"{name}\n", f" {name}", "w１", "w\u0031\u200b", f"{name}.", f"./{name}", "ｗ1"]


def attempts(rig: Rig, w1: Puppet) -> list[tuple[str, Attempt]]:
    """Everything but the two legitimate ones; w1 is enrolled, w2 and e1 are allowed and have not come, nobody else."""
    found: list[tuple[str, Attempt]] = []

    def join(why: str, principal: Principal, request: JoinRequest) -> None:
        found.append((why, lambda: attempted(rig, principal, request)))

    def check_in(why: str, principal: Principal, message: CheckIn) -> None:
        found.append((why, lambda: reported(rig, principal, message)))

    node, stranger = w1.principal, Principal("joining", "", key_of("stranger").line)
    own = rig.enrolment(rig.invite("w1", "used"), "w1", w1.key, "used")
    for other in ("w2", "e1", "w9", *spellings("w1")):  # 12: an enrolled node registers as somebody else
        join(f"w1 registers as {other!r}", node, JoinRequest(own, other, ("worker",)))
    for other in ("w2", "e1", "w9", *spellings("w1")):  # 12: … or reports as somebody else
        check_in(f"w1 reports as {other!r}", node, CheckIn(other))
    for name in ("w1", "w2", "e1", "w9"):  # 4: an identity that nobody knows
        check_in(f"a stranger reports as {name}", stranger, CheckIn(name))
    eve = operator_signer("eve")[1]
    for name in ("w2", "e1", "w9"):  # 3: an invite that no operator of this fleet signed
        forged = rig.enrolment(rig.invite(name, "forged", eve), name, key_of("stranger"), "forged")
        join(f"a stranger's own invite for {name}", stranger, JoinRequest(forged, name, ("worker",)))
    w9 = rig.enrolment(rig.invite("w9", "w9"), "w9", key_of("stranger"), "w9")
    join("invited, but not in the revision", stranger, JoinRequest(w9, "w9", ("worker",)))
    good = rig.enrolment(rig.invite("w2", "good"), "w2", key_of("stranger"), "good")
    join("another key signs the request", Principal("joining", "", key_of("thief").line), JoinRequest(good, "w2"))
    join("nobody signs the request", ANONYMOUS, JoinRequest(good, "w2"))
    join("an operator is no node", OPERATOR, JoinRequest(good, "w2"))
    join("the invite of w2 used for e1", stranger, JoinRequest(good, "e1"))
    join("as edge, the revision says worker", stranger, JoinRequest(good, "w2", ("edge",)))
    promoted = rig.enrolment(rig.invite("w2", "edge", roles=("edge",)), "w2", key_of("stranger"), "edge")
    join("invited as edge", stranger, JoinRequest(promoted, "w2"))
    swapped = replace(good, invite=rig.invite("w2", "other"))
    join("another invite beside it", stranger, JoinRequest(swapped, "w2"))
    stolen = rig.enrolment(rig.invite("w2", "stolen"), "w2", key_of("stranger"), "guess")
    join("without the one-time key", stranger, JoinRequest(stolen, "w2"))
    past = rig.invite("w2", "past", issued_s=rig.now_s() - 7200, expires_s=rig.now_s() - 3600)
    late = rig.enrolment(past, "w2", key_of("stranger"), "past", joined_s=rig.now_s() - 3700)
    join("expired token", stranger, JoinRequest(late, "w2"))
    taken = rig.enrolment(rig.invite("w1", "again"), "w1", key_of("stranger"), "again")
    join("a name that has a key, no replacement signed", stranger, JoinRequest(taken, "w1"))
    check_in("roles it does not have", node, CheckIn("w1", roles=("edge",)))
    check_in("the pulse of another", node, CheckIn("w1", heartbeat=True, pulse=Puppet(rig, "w2").pulse()))
    other_fleet = rig.invite("w2", "elsewhere", fleet="f" * 64)
    foreign = rig.enrolment(other_fleet, "w2", key_of("stranger"), "elsewhere", fleet="f" * 64)
    join("another fleet's invite", stranger, JoinRequest(foreign, "w2"))
    return found


def test_of_fifty_attempts_the_two_legitimate_ones_are_accepted_and_all_fifty_are_audited() -> None:
    """S04, I-12, M-21, M-22, M-23, M-54, C-10, C-36."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        w1, w2 = Puppet(rig, "w1"), Puppet(rig, "w2")
        await w1.join(address="100.64.0.1")
        before = len(rig.audited())
        accepted: list[str] = []
        hostile = attempts(rig, w1)
        token = rig.invite("w2", "w2's token")
        for why, attempt in hostile:
            if await attempt():
                accepted.append(why)
        moved = JoinRequest(rig.enrolment(token, "w1", w1.key, "w2's token"), "w1", ("worker",), "100.64.0.99")
        if await attempted(rig, w1.principal, moved):
            accepted.append("re-register")
        first = JoinRequest(rig.enrolment(token, "w2", w2.key, "w2's token"), "w2", ("worker",), "100.64.0.2")
        if await attempted(rig, w2.principal, first):
            accepted.append("first use")
        for thief in ("thief", "second thief"):  # the token reused, twice
            key = key_of(thief)
            reuse = JoinRequest(rig.enrolment(token, "w2", key, "w2's token"), "w2")
            if await attempted(rig, Principal("joining", "", key.line), reuse):
                accepted.append(f"reuse by {thief}")
        # The 17th node: the fleet takes no more than it has.
        rig.commit(_with(nodes_max=2))
        e1 = JoinRequest(rig.enrolment(rig.invite("e1", "last"), "e1", key_of("e1"), "last"), "e1", ("worker",))
        with pytest.raises(Limited) as full:
            await rig.desk.join(Principal("joining", "", key_of("e1").line), e1, SOURCE)
        assert full.value.code == "resource_exhausted"
        count = len(hostile) + 2 + 2 + 1
        assert count == 50
        assert accepted == ["re-register", "first use"]
        lines = [line for line in rig.audited()[before:] if line.event.action != "commit"]
        assert len(lines) == 50
        assert sum(1 for line in lines if line.event.result == "done") == 2
        again = next(line.event for line in lines if line.event.result == "done")
        assert again.target == "node.w1" and "previous address 100.64.0.1" in again.detail
        assert all(line.event.source == SOURCE for line in lines)
        assert rig.audit.verify() == rig.audit.head()

    run(main)


def _with(**settings: int) -> Fleet:
    fleet = small_fleet(nodes=("w1", "w2", "e1"))
    return replace(fleet, settings=replace(Settings("small"), **settings))


def test_a_token_is_spent_across_a_restart_of_the_hub_and_its_owner_may_come_again() -> None:
    """M-51: the answer of a join may be lost; the same machine asks again, a thief does not get in (S04)."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        w1 = Puppet(rig, "w1")
        await w1.join("token")
        rig = w1.rig = rig.restarted()
        assert w1.principal.kind == "node" and w1.principal.name == "w1"
        enrolment = rig.enrolment(rig.invite("w1", "token"), "w1", w1.key, "token")
        same = Principal("joining", "", w1.key.line)  # as a hub that has not looked yet would see it
        assert (await rig.desk.join(same, JoinRequest(enrolment, "w1"), "x")).accepted
        thief = key_of("thief")
        stolen = rig.enrolment(rig.invite("w1", "token"), "w1", thief, "token")
        with pytest.raises(NotPermitted) as used:
            await rig.desk.join(Principal("joining", "", thief.line), JoinRequest(stolen, "w1"), "x")
        assert used.value.code == "invite_used"

    run(main)


def test_two_machines_with_one_token_at_the_same_moment_are_one_node() -> None:
    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        first, second = Puppet(rig, "w1", "a"), Puppet(rig, "w1", "b")
        rig.store.submit = _slowly(rig, loop)  # type: ignore[method-assign, assignment]
        results = await asyncio.gather(first.join("token"), second.join("token"), return_exceptions=True)
        assert sum(1 for result in results if not isinstance(result, BaseException)) == 1
        (view,) = [view for view in rig.desk.nodes().nodes if view.name == "w1"]
        assert view.key == first.key.line

    run(main)


def _slowly(rig: Rig, loop: VirtualLoop) -> Callable[[Transaction], "Future[int]"]:
    """As a disk does it: others are served in between."""

    def submit(tx: Transaction) -> "Future[int]":
        future: Future[int] = Future()

        def write() -> None:
            try:
                future.set_result(rig.store.commit(tx))
            except HoldfastError as trouble:
                future.set_exception(trouble)

        loop.call_later(0.01, write)
        return future

    return submit


def test_a_replacement_needs_an_invite_that_says_so_and_ends_the_old_key() -> None:
    """W4, design.md §3: replacing a node's key needs grade destroy; the machine before is a stranger from then on."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        old, new = Puppet(rig, "w1", "old"), Puppet(rig, "w1", "new")
        await old.join("first")
        with pytest.raises(Conflict) as taken:
            await new.join("second")
        assert taken.value.code == "already_joined"
        for over in ("", key_of("somebody before").line, new.key.line):
            with pytest.raises(Conflict) as outdated:
                await new.join(f"over {over}", replaces=True, over=over)
            assert outdated.value.code == "invite_outdated"
        await new.join("third", replaces=True, over=old.key.line)
        assert new.principal.name == "w1"
        assert old.principal.kind == "joining"
        assert not (await old.says()).registered

    run(main)


def test_an_invite_made_before_a_revocation_lets_nobody_in_after_it() -> None:
    """I-12: shutting a machine out ends every token of its name, also the ones not used yet."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        early = {"issued_s": rig.now_s(), "expires_s": rig.now_s() + 3600}
        await asyncio.sleep(5)
        await rig.desk.revoke(OPERATOR, rig.revocation("w1", w1.key.line), "x")
        new = Puppet(rig, "w1", "new")
        for changed in (early, early | {"replaces": True, "over": w1.key.line}, {}):  # {}: in the same second
            with pytest.raises(NotPermitted) as outdated:
                await new.join(f"token {changed}", **changed)
            assert outdated.value.code == "invite_outdated" and outdated.value.remedy
        await asyncio.sleep(1)
        await new.join("token made since")
        assert new.principal.name == "w1"

    run(main)


def test_two_invites_of_one_name_used_in_the_same_moment_make_one_node() -> None:
    """M-22, S04: neither invite may replace anybody, so that whoever comes second finds the name taken."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        first, second = Puppet(rig, "w1", "a"), Puppet(rig, "w1", "b")
        rig.store.submit = _slowly(rig, loop)  # type: ignore[method-assign, assignment]
        results = await asyncio.gather(first.join("token a"), second.join("token b"), return_exceptions=True)
        (refused,) = [result for result in results if isinstance(result, BaseException)]
        assert isinstance(refused, Conflict) and refused.code == "already_joined"
        assert rig.desk.node_of_key(first.key.line) is not None and rig.desk.node_of_key(second.key.line) is None
        later = Puppet(rig, "w1", "c")
        await later.join("token c", replaces=True, over=first.key.line)
        assert later.principal.name == "w1", "over the one enrolled before, once it is known"

    run(main)


def test_a_revoked_key_is_refused_at_once_and_its_held_question_ends() -> None:
    """M-58, S04: revoking one node touches no other; ≤ 60 s is promised, at once is kept."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        w1, w2 = await rig.joined("w1", "w2")
        await w1.follows()
        await w2.follows()
        held = asyncio.create_task(w1.says(wait_s=50.0))
        other = asyncio.create_task(w2.says(wait_s=50.0))
        await asyncio.sleep(5)
        at_s = loop.time()
        await rig.desk.revoke(OPERATOR, rig.revocation("w1", w1.key.line), "x")
        answer = await held
        assert not answer.registered and loop.time() == at_s
        assert not other.done(), "nobody else was disturbed"
        assert rig.desk.node_of_key(w1.key.line) is None
        assert not (await w1.says()).registered
        with pytest.raises(NotPermitted) as shut_out:
            await w1.join("another invite", replaces=True)
        assert shut_out.value.code == "revoked"
        rig = rig.restarted()
        assert rig.desk.node_of_key(w1.key.line) is None, "a restart forgets no revocation"
        (view,) = [view for view in rig.desk.nodes().nodes if view.name == "w1"]
        assert view.revoked and view.revocation is not None and not view.joined

    run(main)


def test_a_revocation_that_operators_did_not_sign_changes_nothing() -> None:
    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        forged = replace(rig.revocation("w1", w1.key.line), signatures=())
        with pytest.raises(HoldfastError):
            await rig.desk.revoke(OPERATOR, forged, "x")
        assert w1.principal.kind == "node"
        assert rig.audited()[-1].event.result == "denied"

    run(main)


def test_a_name_that_left_the_fleet_and_comes_back_is_another_machine() -> None:
    """C-10: a node exists if and only if the applied revision has it; its old key does not come back with the name."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        w1, e1 = await rig.joined("w1", "e1")
        held = asyncio.create_task(e1.says(seen=rig.head, wait_s=30.0))
        await asyncio.sleep(1)
        rig.commit(small_fleet(nodes=("w1", "w2")))
        assert not (await held).registered
        assert rig.desk.node_of_key(e1.key.line) is None
        rig.commit(small_fleet(nodes=("w1", "w2", "e1")))
        assert rig.desk.node_of_key(e1.key.line) is None
        assert rig.desk.node_of_key(w1.key.line) is not None
        assert rig.restarted().desk.node_of_key(e1.key.line) is None

    run(main)


def test_roles_come_from_the_revision_and_a_mismatch_names_both() -> None:
    """C-36, D-19."""

    async def main(loop: VirtualLoop) -> None:
        fleet = small_fleet(nodes=("w1",))
        rig = Rig(loop, replace(fleet, nodes={"w1": Node("w1", ("hub", "worker"))}))
        w1 = Puppet(rig, "w1")
        enrolment = rig.enrolment(rig.invite("w1", roles=("worker", "hub")), "w1", w1.key)
        await rig.desk.join(
            w1.principal, JoinRequest(enrolment, "w1", ("worker", "hub")), "x"
        )  # the order is no matter
        assert w1.principal.roles == ("hub", "worker")
        with pytest.raises(Conflict) as said:
            await w1.says(roles=("edge",))
        assert said.value.code == "failed_precondition"
        assert "edge" in said.value.message and "hub, worker" in said.value.message

    run(main)
