"""A hub that shows old words, other branches, forged logs and made-up results: the command line says so (I-12, D10)."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.adapters.clock.loop import LoopClock
from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.cli.orders import order_file
from holdfast.cli.waiting import receipts
from holdfast.errors import Conflict, Corrupt
from holdfast.model import canonical
from holdfast.model.audit import NO_ENTRIES, AuditEntry, AuditHead, Event, encode, follow
from holdfast.model.checkin import JoinRequest
from holdfast.model.invite import (
    JOIN_NAMESPACE,
    Enrolment,
    Joining,
    decode_invite,
    decode_token,
)
from holdfast.model.order import OrderResult, SignedOrder, decode_order
from holdfast.model.order_view import OrderView
from holdfast.model.record import Link
from holdfast.model.report import ContainerState
from holdfast.planning.plan import Inputs, plan
from holdfast.trust import own_signature, reports
from tests.fleets.build import ALICE, ALICE_SIGNER, commit, mailbox, signed, small_fleet
from tests.fleets.desks import OPERATOR, Puppet, Rig
from tests.fleets.tools import Box
from tests.specs.hub_fleet.test_verbs import APPLY_ONLY, Wire, at_once, only, scene

FLEET = {"nodes": ("w1", "w2"), "operators": (ALICE, APPLY_ONLY)}


# ---- old words


@pytest.mark.parametrize("age_s", [None, 3 * 3600.0, 1.0])
def test_a_dead_node_is_not_healthy_because_the_hub_says_so(tmp_path: Path, age_s: float | None) -> None:
    """Its last word is three hours old, whatever age the hub gives it: silence is judged by what was signed (M-47)."""

    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        (w1_itself,) = puppets
        await w1_itself.beat(w1_itself.a_report(containers=(ContainerState("web", "main", "running"),)))
        assert box.shows("ps")["services"][0]["status"] == "running"
        await asyncio.sleep(90)
        assert only(box.shows("node", "list"), "w1")["status"] == "healthy", "an idle node speaks every 30 s"
        await asyncio.sleep(3 * 3600 - 90)
        box.wire.lie = lambda v: replace(v, status="healthy", age_s=age_s) if v.name == "w1" else v
        document = box.shows("status")
        (found,) = [f for f in document["findings"] if f["code"].startswith("word_")]
        assert found["code"] == ("word_withheld" if age_s == 1.0 else "word_old")
        assert (found["address"], found["age_s"]) == ("node.w1", 10800.0) and found["remedy"]
        for w1 in (only(document, "w1"), only(box.shows("node", "list"), "w1")):
            assert (w1["status"], w1["verified"], w1["verified_age_s"]) == ("unknown", False, None)
        assert "1 unknown; 0 reports verified" in box.does("status")
        assert "verified by" not in box.does("node", "list") and "signed its last report 3 h ago" in box.does(
            "node", "list"
        )
        assert box.shows("ps")["services"][0]["status"] == "unknown"
        assert "w1: unknown" in box.does("node", "show", "w1")

    scene(tmp_path, story)


def test_a_hub_that_shows_no_word_at_all_does_not_make_a_node_healthy(tmp_path: Path) -> None:
    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        box.wire.lie = lambda view: replace(view, status="healthy", pulse=None)
        assert only(box.shows("node", "list"), "w1")["status"] == "unknown"

    scene(tmp_path, story)


def test_who_joined_and_was_not_recorded_is_named_while_an_apply_can_still_do_it(tmp_path: Path) -> None:
    """An invite is proof for 7 days after it ended; nobody should find that out on the eighth."""

    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        def named() -> list[str]:
            return [f["address"] for f in box.shows("status")["findings"] if f["code"] == "key_not_recorded"]

        assert named() == []
        await asyncio.sleep(3700)
        assert named() == ["node.w1"]
        await asyncio.sleep(7 * 86_400)
        (w1,) = puppets
        await w1.beat(w1.a_report())
        assert not only(box.shows("node", "list"), "w1")["verified"]

    scene(tmp_path, story)


# ---- other branches


class Branched(Wire):
    """Shows this operator one history, and the nodes another one."""

    def __init__(self, rig: Rig, links: Callable[[int, int], Sequence[Link]]) -> None:
        super().__init__(rig)
        self.links = links


def test_a_receipt_for_another_branch_does_not_count(tmp_path: Path) -> None:
    """A higher number is not ours because it is higher: the chain must lead from our revision to it."""

    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        (w1,) = puppets
        before = rig.hub.applied()
        other = mailbox()
        commit(other, small_fleet({"web": 1}, **FLEET))  # type: ignore[arg-type]
        assert other.applied() is not None and other.applied().head == rig.head  # type: ignore[union-attr]
        head = rig.commit(small_fleet({"web": 5}, **FLEET))  # type: ignore[arg-type]
        commit(other, small_fleet({"web": 6}, **FLEET))  # type: ignore[arg-type]
        w1.seen = commit(other, small_fleet({"web": 7}, **FLEET))  # type: ignore[arg-type]
        assert w1.seen.number > head.number
        await w1.beat(w1.a_report())
        ways: list[Callable[[int, int], Sequence[Link]]] = [rig.hub.links, other.links, lambda first, last: []]
        for links in ways:
            box.wire = Branched(rig, links)
            found = receipts.wait(box.wire, before, head, box, 0.0)
            assert (found.accepted, found.missing) == ((), ("w1",))
        with pytest.raises(Corrupt) as forked:  # … or the operator is shown the other one after his commit
            shown = Branched(rig, other.links)
            shown.applied = other.applied  # type: ignore[attr-defined]
            receipts.wait(shown, before, head, box, 0.0)  # type: ignore[arg-type]
        assert forked.value.exit_code == 7

    scene(tmp_path, story)


def test_a_receipt_for_a_revision_on_top_of_ours_counts(tmp_path: Path) -> None:
    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        (w1,) = puppets
        before = rig.hub.applied()
        head = rig.commit(small_fleet({"web": 5}, **FLEET))  # type: ignore[arg-type]
        ours = rig.hub.applied()
        box.wire.applied = lambda: ours
        for version in (6, 7):
            w1.seen = rig.commit(small_fleet({"web": version}, **FLEET))  # type: ignore[arg-type]
        await w1.beat(w1.a_report())
        found = receipts.wait(box.wire, before, head, box, 0.0)
        assert (found.accepted, found.missing) == (("w1",), ())
        box.wire.applied = rig.hub.applied
        assert receipts.wait(box.wire, before, head, box, 0.0) == receipts.NONE, "theirs to wait for"

    scene(tmp_path, story)


# ---- forged logs


def chained(first: int, count: int, word: str = "all is well", before: str = "a" * 64) -> list[bytes]:
    head, lines = (NO_ENTRIES if first == 1 else AuditHead(first - 1, before)), []
    for _ in range(count):
        event = Event("operator:alice", "ping", "node.w1", "done", word)
        lines.append(encode(AuditEntry(head.number + 1, 0, event, head.digest)))
        head = follow(head, lines[-1])
    return lines


def head_of(lines: list[bytes]) -> AuditHead:
    head = NO_ENTRIES
    for line in lines:
        head = follow(head, line)
    return head


class Shown(Wire):
    """A hub that shows these lines as the log of w1."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(rig)
        self.lines: list[bytes] = []

    def audit_lines(self, node: str = "", after: int = 0, limit: int = 1_000) -> Sequence[bytes]:
        numbered = ((line, int(line.split(b'"number":')[1].split(b",")[0])) for line in self.lines)
        return [line for line, number in numbered if number > after][:limit]

    def audit_entries(self, node: str = "") -> int:
        return len(self.lines)


@pytest.mark.parametrize(
    ("lines", "exit_code", "code"),
    [
        (chained(1, 5), 6, "audit_withheld"),
        ([], 6, "audit_withheld"),
        (chained(901, 3), 7, "audit_broken"),
        (chained(902, 3), 7, "audit_broken"),
        (chained(895, 10, "forged"), 7, "audit_broken"),
        (chained(1, 900, "forged"), 7, "audit_broken"),
    ],
)
def test_a_log_that_never_meets_what_the_node_signed_is_not_sound(
    tmp_path: Path, lines: list[bytes], exit_code: int, code: str
) -> None:
    """I-38: lines that end before, or begin after, the entry w1 signed for prove nothing of w1."""

    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        (w1,) = puppets
        await w1.beat(w1.a_report(audit_entries=900, audit_head=head_of(chained(1, 900)).digest))
        shown = Shown(rig)
        shown.lines = lines
        box.wire = shown
        box.clock = clock = Ticking(rig.loop, rig.clock.now_s())
        words = ("audit", "--node", "w1", "--verify")
        assert box.fails(exit_code, *words)["code"] == code
        assert "Sound" not in box.does(*words, code=exit_code)
        shown.lines = true = chained(1, 903)
        assert "903, head" in (said := box.does(*words)), "what was forged is not remembered as seen"
        assert "w1 signed entry 900 (not yet the 3 after it)" in said
        assert box.shows(*words)["signed"] == 900
        shown.lines = true[:20]
        clock.then = lambda: setattr(shown, "lines", true)
        assert box.fails(7, *words)["code"] == "audit_broken", "a line that was seen before is cut off"
        (tmp_path / "state" / "audit" / f"{rig.fleet_id}-w1.json").unlink()
        shown.lines = true[:20]
        assert "w1 signed entry 900" in box.does(*words), "they were on their way"
        shown.lines = true[900:]
        assert "w1 signed entry 900" in box.does(*words), "the first line kept names the one that w1 signed for"

    scene(tmp_path, story)


def test_a_log_beside_which_the_node_signed_nothing_is_unproven(tmp_path: Path) -> None:
    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        shown = Shown(rig)
        box.wire = shown
        words = ("audit", "--node", "w1", "--verify")
        assert box.shows(*words)["lines"] == 0
        shown.lines = chained(1, 5)
        assert box.fails(6, *words)["code"] == "audit_unproven"

    scene(tmp_path, story)


# ---- results made up


class Ticking(LoopClock):
    """Sleeping only counts, so that a command may wait inside the loop."""

    passed_s = 0.0
    then: Callable[[], None] = staticmethod(lambda: None)

    def monotonic_s(self) -> float:
        return self.passed_s

    def sleep(self, seconds: float) -> None:
        self.passed_s += seconds
        self.then()


class Desk(Wire):
    def submit(self, order: SignedOrder) -> str:
        return at_once(self.rig.desk.submit(OPERATOR, order, "x"))

    def orders(self, node: str = "", limit: int = 20) -> Sequence[OrderView]:
        views = self.rig.desk.orders(node or None, limit).orders
        return [replace(view, state="done", result=OrderResult(view.id, 1, "done", message="pong")) for view in views]


def test_a_result_is_verified_only_by_the_word_of_its_node(tmp_path: Path) -> None:
    """D10: the hub says done; so long as no signed word of w1 says the same, that is the hub's word alone."""

    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        (w1,) = puppets
        box.wire = Desk(rig)
        box.clock = clock = Ticking(rig.loop, rig.clock.now_s())
        applied = rig.hub.applied()
        assert applied is not None
        (tmp_path / "ping.order").write_bytes(order_file.write(order_file.of(rig.order("w1"), applied.trust)))
        words = ("order", "submit", str(tmp_path / "ping.order"), "--wait")
        assert "done: pong (unverified)" in box.does(*words) and "only the hub does" in box.err.getvalue()
        assert box.shows(*words)["verified"] is False
        assert "(unverified)" in box.does("order", "list")
        (listed,) = box.shows("order", "list")["orders"]
        assert listed["result"]["verified"] is False
        id = decode_order(rig.order("w1").order).id
        liar = Puppet(rig, "w1", "hub")
        for pulse in (
            w1.pulse(results={id: "refused"}),
            w1.pulse(results={"0" * 32: "done"}),
            liar.pulse(results={id: "done"}),
        ):
            box.wire.lie = lambda view, pulse=pulse: replace(view, pulse=pulse) if view.name == "w1" else view
            assert box.shows("order", "list")["orders"][0]["result"]["verified"] is False
        box.wire.lie = lambda view: view

        def signs() -> None:
            at_once(w1.says(heartbeat=True, pulse=w1.pulse(results={id: "done"}), clock_s=rig.clock.now_s()))

        clock.then = signs  # a moment after its result
        assert "done: pong (signed by w1)" in box.does(*words) and not box.err.getvalue()
        assert box.shows("order", "list", "--node", "w1")["orders"][0]["result"]["verified"] is True
        assert "(signed by w1)" in box.does("order", "list")

    scene(tmp_path, story)


# ---- invites and revocations


def test_an_invite_names_the_key_it_replaces_and_is_younger_than_a_revocation(tmp_path: Path) -> None:
    """W4: what `--replace` signs is good for the key there is, not for whichever comes later."""

    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        (w1,) = puppets

        def invited(*words: str) -> Any:
            return decode_invite(decode_token(box.shows("node", "invite", *words)["token"]).invite.invite)

        first = invited("w1", "--replace")
        assert (first.replaces, first.over) == (True, w1.key.line)
        assert (invited("w2").replaces, invited("w2").over) == (False, "")
        box.does("node", "revoke", "w1", "--yes")
        assert "Run now: holdfast apply" in box.err.getvalue()
        second = invited("w1")
        assert second.issued_s == rig.now_s() + 1, "in the same second, and yet after it"

    scene(tmp_path, story)


async def joined_with(rig: Rig, token: str, name: str) -> Puppet:
    """Another machine takes the token that the command line printed."""
    puppet, found = Puppet(rig, "w1", name), decode_token(token)
    content = canonical.encode(
        Joining(rig.fleet_id, canonical.digest(found.invite.invite), "w1", puppet.key.line, rig.now_s())
    )
    keys = (MemoryIdentityKey(found.once), puppet.key)
    proofs = [own_signature.armoured(key, content, JOIN_NAMESPACE) for key in keys]
    await rig.desk.join(puppet.principal, JoinRequest(Enrolment(found.invite, content, *proofs), "w1"), "x")
    await puppet.beat(puppet.a_report())
    return puppet


def record(rig: Rig) -> str:
    """As the next apply does: what is proven to the command line goes into the revision; the key of w1 then."""
    applied = rig.hub.applied()
    assert applied is not None
    known = reports.verify(rig.desk.nodes(), applied, rig.clock.now_s()).identities
    planned = plan(small_fleet(("web",), **FLEET), applied, Inputs(identities=known.proven, revoked=known.revoked))  # type: ignore[arg-type]
    if planned.candidate is not None:
        rig.hub.commit(signed(planned, ALICE_SIGNER))
        rig.desk.committed()
    after = rig.hub.applied()
    assert after is not None
    entry = after.table.entries["node.w1"]
    return entry.identity.key if entry.identity is not UNSET else ""


def test_machines_follow_one_another_by_invites_alone(tmp_path: Path) -> None:
    """M-21, W4: recorded, replaced twice between two applies, revoked and invited anew: hub and apply agree."""

    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        (w1,) = puppets
        assert record(rig) == w1.key.line
        stale = box.shows("node", "invite", "w1", "--replace")["token"]
        await joined_with(rig, box.shows("node", "invite", "w1", "--replace")["token"], "second")
        third = await joined_with(rig, box.shows("node", "invite", "w1", "--replace")["token"], "third")
        assert third.principal.name == "w1"
        assert record(rig) == third.key.line
        with pytest.raises(Conflict) as outdated:
            await joined_with(rig, stale, "late")
        assert outdated.value.code == "invite_outdated"
        await asyncio.sleep(2)
        box.does("node", "revoke", "w1", "--yes")
        await asyncio.sleep(2)
        fourth = await joined_with(rig, box.shows("node", "invite", "w1")["token"], "fourth")
        assert record(rig) == fourth.key.line, "the revoked key is not kept because nobody wrote --replace"

    scene(tmp_path, story)


def test_the_token_is_piped_where_it_is_shown_in_use(tmp_path: Path) -> None:
    """A command line is seen by everybody on a machine."""

    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        from holdfast.cli.nodes import node_invite

        assert "| ssh root@w2 holdfast agent join -" in node_invite.DETAILS and "$(holdfast" not in node_invite.DETAILS
        box.does("node", "invite", "w2")
        assert "holdfast agent join -" in box.err.getvalue()

    scene(tmp_path, story)
