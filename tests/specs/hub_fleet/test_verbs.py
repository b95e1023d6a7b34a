"""The verbs that show the fleet: what they print is what nodes signed, whatever the hub says."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.cli.waiting import receipts
from holdfast.model import canonical
from holdfast.model.checkin import JoinRequest
from holdfast.model.invite import (
    JOIN_NAMESPACE,
    Enrolment,
    Joining,
    SignedRevocation,
    decode_invite,
    decode_token,
)
from holdfast.model.node_view import NodesAnswer, NodeView
from holdfast.model.report import ContainerState, Parked
from holdfast.trust import own_signature
from tests.fleets.build import operator_signer, small_fleet
from tests.fleets.desks import OPERATOR, Puppet, Rig
from tests.fleets.tools import HUB, HUB_KEY, Box
from tests.fleets.virtual import VirtualLoop, run

T = TypeVar("T")
APPLY_ONLY, APPLY_SIGNER = operator_signer("bob", "apply")


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Over memory nothing waits, so that a coroutine is done with its first step."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise AssertionError("it waited")


class Wire:
    """The hub as a command line meets it; `lie` may change what it says of its nodes."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.lie: Callable[[NodeView], NodeView] = lambda view: view
        for name in (
            "applied",
            "records",
            "links",
            "blob",
            "observations",
            "suspects_damage",
            "damaged",
            "commit",
            "mend",
        ):
            setattr(self, name, getattr(rig.hub, name))

    def status(self) -> Any:
        status = self.rig.hub.status()
        return replace(status, findings=(*status.findings, *self.rig.desk.status_findings()))

    def nodes(self) -> NodesAnswer:
        answer = self.rig.desk.nodes()
        return replace(answer, nodes=tuple(self.lie(view) for view in answer.nodes))

    def revoke(self, revocation: SignedRevocation) -> None:
        at_once(self.rig.desk.revoke(OPERATOR, revocation, "x"))

    def audit_lines(self, node: str = "", after: int = 0, limit: int = 1_000) -> Sequence[bytes]:
        return self.rig.desk.audit_lines(node or None, after, limit)

    def audit_entries(self, node: str = "") -> int:
        return self.rig.desk.audit_entries(node or None)


def scene(home: Path, story: Callable[[Rig, Box, list[Puppet]], Coroutine[Any, Any, None]], *names: str) -> None:
    async def main(loop: VirtualLoop) -> None:
        fleet = small_fleet(("web",), names or ("w1", "w2"))
        rig = Rig(loop, replace(fleet, operators=(*fleet.operators, APPLY_ONLY)))
        puppets = await rig.joined("w1")
        for puppet in puppets:
            await puppet.follows()
            await puppet.beat(puppet.a_report(address="100.64.0.1"))
        await story(rig, Box(home, Wire(rig), rig.clock), puppets)

    run(main)


def only(document: Any, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(node for node in document["nodes"] if node["name"] == name)
    return found


def test_node_list_says_whose_word_it_is_and_how_old(tmp_path: Path) -> None:
    """contract.md: the keys of `node list`; design.md §3: signed by w1, 4 s ago."""

    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        await asyncio.sleep(4)
        document = box.shows("node", "list")
        w1, w2 = only(document, "w1"), only(document, "w2")
        assert {"name", "roles", "status", "address", "age_s"} <= w1.keys()
        assert (w1["status"], w1["roles"], w1["verified"], w1["age_s"]) == ("healthy", ["worker"], True, 4.0)
        assert w1["verified_age_s"] == 4.0 and w1["accepted"]["number"] == 1 and w1["key"] == puppets[0].key.line
        assert (w2["status"], w2["age_s"], w2["joined"], w2["verified"]) == ("unknown", None, False, False)
        text = box.does("node", "list")
        assert "signed by w1, 4 s ago" in text and "not joined" in text

    scene(tmp_path, story)


def forged(view: NodeView, rig: Rig) -> NodeView:
    """The hub invents a word of w1: it can sign anything, but not with the key of w1."""
    liar = Puppet(rig, "w1", "the hub's own key")
    return replace(view, pulse=liar.pulse(), key=liar.key.line) if view.name == "w1" else view


def invented(view: NodeView, rig: Rig) -> NodeView:
    """… or a whole enrolment, signed by nobody who may."""
    liar = Puppet(rig, "w1", "the hub's own key")
    eve = operator_signer("eve")[1]
    enrolment = rig.enrolment(rig.invite("w1", "eve", eve, replaces=True), "w1", liar.key, "eve")
    return replace(view, pulse=liar.pulse(), key=liar.key.line, enrolment=enrolment) if view.name == "w1" else view


def borrowed(view: NodeView, rig: Rig) -> NodeView:
    """… or shows the word of one node as that of another."""
    if view.name != "w1" or view.pulse is None:
        return view
    pulse = replace(view.pulse, pulse=view.pulse.pulse.replace(b'"w1"', b'"w2"'))
    return replace(view, pulse=pulse)


@pytest.mark.parametrize("lie", [forged, invented, borrowed])
def test_a_hub_that_makes_up_the_word_of_a_node_is_seen_through(
    tmp_path: Path, lie: Callable[[NodeView, Rig], NodeView]
) -> None:
    """I-12, design.md §3: a lying hub is visible."""

    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        box.wire.lie = lambda view: lie(view, rig)
        w1 = only(box.shows("node", "list"), "w1")
        assert not w1["verified"] and w1["accepted"] is None and w1["claimed"] is None
        assert "unverified" in box.does("node", "list")
        codes = [finding["code"] for finding in box.shows("status")["findings"]]
        assert "word_unverified" in codes

    scene(tmp_path, story)


def test_a_hub_that_withholds_is_named(tmp_path: Path) -> None:
    """It claims to have heard w1 just now, and shows an old word of it: a replay of a good day."""

    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        await asyncio.sleep(300)
        box.wire.lie = lambda view: replace(view, age_s=2.0, status="healthy") if view.name == "w1" else view
        found = [f for f in box.shows("status")["findings"] if f["code"] == "word_withheld"]
        assert len(found) == 1 and found[0]["address"] == "node.w1" and found[0]["age_s"] == 300.0
        box.wire.lie = lambda view: view
        assert "word_withheld" not in [f["code"] for f in box.shows("status")["findings"]], "old, and said to be old"

    scene(tmp_path, story)


def test_a_report_that_was_tampered_with_is_not_shown(tmp_path: Path) -> None:
    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        assert only(box.shows("node", "list"), "w1")["version"] == "1"
        box.wire.lie = lambda view: replace(view, report=view.report.replace(b'"version":"1"', b'"version":"2"'))
        assert only(box.shows("node", "list"), "w1")["version"] is None

    scene(tmp_path, story)


def test_status_shows_every_finding_with_code_remedy_and_age(tmp_path: Path) -> None:
    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        running = asyncio.create_task(rig.desk.run())
        await asyncio.sleep(200)
        document = box.shows("status")
        assert document["copies"] == [] and {node["name"] for node in document["nodes"]} == {"w1", "w2"}
        found = {f["code"]: f for f in document["findings"]}
        assert found["node_unhealthy"]["address"] == "node.w1" and found["node_unhealthy"]["age_s"] > 90
        assert found["node_not_joined"]["address"] == "node.w2"
        assert all({"code", "remedy", "age_s"} <= f.keys() and f["remedy"] for f in document["findings"])
        assert "1 not joined, 1 unhealthy; 1 report verified" in box.does("status")
        assert "unverified: no contact with w1 for 3 min" in box.does("ps")
        running.cancel()

    scene(tmp_path, story)


def test_ps_knows_nothing_until_a_node_says_it(tmp_path: Path) -> None:
    """M-47; contract.md: the keys of `ps`."""

    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        (row,) = box.shows("ps")["services"]
        assert {"name", "component", "node", "status", "image", "epoch"} <= row.keys()
        assert (row["name"], row["component"], row["node"], row["status"]) == ("web", "main", "w1", "unknown")
        assert (row["verified"], row["age_s"]) == (False, None)
        said = box.does("ps")
        assert "unverified: w1 reports no containers" in said and " ago" not in said, "w1 is well, and silent on web"
        (w1,) = puppets
        running = (ContainerState("web", "main", "running", "img"), ContainerState("old", "x", "running"))
        await w1.beat(w1.a_report(containers=running))
        web, old = box.shows("ps")["services"]
        assert (web["status"], web["image"], web["verified"], web["orphan"]) == ("running", "img", True, False)
        assert (old["name"], old["orphan"]) == ("old", True)
        assert web["age_s"] == 0.0
        assert "orphan" in box.does("ps") and "signed by w1, 0 s ago" in box.does("ps")
        await w1.beat(w1.a_report(containers=(ContainerState("other", "x", "running"),)))
        assert box.shows("ps")["services"][0]["status"] == "stopped"

    scene(tmp_path, story, "w1")


def test_node_show_tells_what_was_parked_and_how_to_sign_it(tmp_path: Path) -> None:
    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        (w1,) = puppets
        await w1.beat(w1.a_report(parked=(Parked("service.db", "data", "holdfast order sign X", rig.clock.now_s()),)))
        text = box.does("node", "show", "w1")
        assert "parked    service.db" in text and "remedy: holdfast order sign X" in text
        assert box.shows("node", "show", "w1")["parked"][0]["remedy"].startswith("holdfast order sign X --fleet ")
        assert box.fails(2, "node", "show", "w9")["code"] == "unknown_node"

    scene(tmp_path, story)


def test_an_invite_is_one_word_that_makes_one_machine_a_node(tmp_path: Path) -> None:
    """M-21, design.md §3: the token alone on stdout, so that $(…) works."""

    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        token = box.does("node", "invite", "w2", "--expires", "10m")
        assert token.startswith("hfj_") and len(token.split()) == 1
        found = decode_token(token)
        invite = decode_invite(found.invite.invite)
        assert (found.hub, found.hub_key, found.head) == (HUB, HUB_KEY, rig.head)
        assert (invite.node, invite.roles, invite.replaces) == ("w2", ("worker",), False)
        assert invite.expires_s - invite.issued_s == 600
        w2, once = Puppet(rig, "w2"), MemoryIdentityKey(found.once)
        content = canonical.encode(
            Joining(rig.fleet_id, canonical.digest(found.invite.invite), "w2", w2.key.line, rig.now_s())
        )
        proof = Enrolment(
            found.invite,
            content,
            own_signature.armoured(once, content, JOIN_NAMESPACE),
            own_signature.armoured(w2.key, content, JOIN_NAMESPACE),
        )
        assert (await rig.desk.join(w2.principal, JoinRequest(proof, "w2"), "x")).accepted
        assert box.fails(5, "node", "invite", "w2")["code"] == "already_joined"
        assert decode_invite(
            decode_token(box.shows("node", "invite", "w2", "--replace")["token"]).invite.invite
        ).replaces
        assert "fleet.toml" in box.fails(2, "node", "invite", "w9")["remedy"]
        assert box.fails(2, "node", "invite", "w2", "--replace", "--expires", "8d")["code"] == "invalid_argument"
        box.by = APPLY_SIGNER
        assert box.fails(4, "node", "invite", "w2", "--replace")["code"] == "signature_required"
        box.by = operator_signer("eve")[1]
        assert box.fails(3, "node", "invite", "w2", "--replace")["code"] == "unknown_signer"

    scene(tmp_path, story)


def test_a_revoked_node_is_out_when_the_command_returns(tmp_path: Path) -> None:
    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        (w1,) = puppets
        assert box.fails(2, "node", "revoke", "w1")["code"] == "no_terminal", "it asks"
        assert box.shows("node", "revoke", "w1", "--yes") == {"node": "w1", "key": w1.key.line, "revoked": True}
        assert rig.desk.node_of_key(w1.key.line) is None
        assert only(box.shows("node", "list"), "w1")["revoked"]
        assert "revoked" in box.does("node", "list")
        assert box.fails(5, "node", "revoke", "w2", "--yes")["code"] == "not_joined"

    scene(tmp_path, story)


def test_an_apply_is_done_when_the_nodes_it_touches_have_signed_for_it(tmp_path: Path) -> None:
    """design.md §1 Accept: receipts, else exit 6 naming them; nodes not joined yet are named and not waited for."""

    class Ticking:
        """Sleeping lets the nodes do something."""

        def __init__(self, rig: Rig) -> None:
            self.rig = rig
            self.passed_s = 0.0
            self.then: list[Callable[[], None]] = []

        def now_s(self) -> float:
            return self.rig.clock.now_s() + self.passed_s

        def monotonic_s(self) -> float:
            return self.passed_s

        def sleep(self, seconds: float) -> None:
            self.passed_s += seconds
            if self.then:
                self.then.pop(0)()

    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        (w1,) = puppets
        clock = Ticking(rig)
        box.clock = clock
        before = rig.hub.applied()
        fleet = small_fleet({"web": 2, "blog": 1}, ("w1", "w2"))
        head = rig.commit(replace(fleet, operators=(*fleet.operators, APPLY_ONLY)))
        found = receipts.wait(box.wire, before, head, box)
        assert found.missing == ("w1",) and found.not_joined == ("w2",) and clock.passed_s >= 30
        trouble = receipts.missing(found, "revision 2 is applied, but ")
        assert trouble.exit_code == 6 and "w1" in trouble.message

        def accepts() -> None:
            w1.seen = head
            at_once(w1.beat(w1.a_report()))

        clock.passed_s, clock.then = 0.0, [lambda: None, accepts]
        found = receipts.wait(box.wire, before, head, box)
        assert found.accepted == ("w1",) and not found.missing and clock.passed_s < 0.3

        def hub_says_so(view: NodeView) -> NodeView:
            liar = Puppet(rig, "w1", "hub")
            liar.seen = head
            return replace(view, pulse=liar.pulse(), joined=False) if view.name == "w1" else view

        box.wire.lie = hub_says_so
        assert receipts.wait(box.wire, before, head, box, 1.0).missing == ("w1",)

    scene(tmp_path, story)


def test_the_audit_log_is_shown_and_a_hub_that_rewrites_it_is_caught(tmp_path: Path) -> None:
    """I-38, contract.md: `audit [--node N] [--verify]`."""

    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        (w1,) = puppets
        await rig.desk.submit(OPERATOR, rig.order("w1"), "192.0.2.7")
        entries = box.shows("audit", "-n", "2")["entries"]
        assert len(entries) == 2 and entries[-1]["action"] == "order" and entries[-1]["principal"] == "operator:alice"
        assert "operator:alice order" in box.does("audit")
        assert box.shows("audit", "--verify")["entries"] == rig.audit.head().number
        kept = rig.audit._lines
        rig.audit._lines = kept[:-1]
        assert box.fails(7, "audit", "--verify")["code"] == "audit_broken", "a line cut off its end"
        rig.audit._lines = [*kept[:1], *kept[2:]]
        assert box.fails(7, "audit", "--verify")["code"] == "audit_broken", "a line taken out"
        rig.audit._lines = [kept[0].replace(b"enrolled", b"Enrolled"), *kept[1:]]
        assert rig.audit._lines != kept
        assert box.fails(7, "audit", "--verify")["code"] == "audit_broken", "a line changed"
        rig.audit._lines = kept
        assert "Sound" in box.does("audit", "--verify")
        assert box.shows("audit", "--node", "w1")["entries"] == []
        assert box.fails(2, "audit", "--node", "w9")["code"] == "unknown_node"
        assert w1.key

    scene(tmp_path, story)


def test_a_ledger_directory_has_met_no_node(tmp_path: Path) -> None:
    """Offline everything that can be said is said, the rest is refused with the flag that helps."""

    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        class Offline:
            def __init__(self) -> None:
                for name in (
                    "applied",
                    "records",
                    "links",
                    "blob",
                    "observations",
                    "suspects_damage",
                    "damaged",
                    "status",
                ):
                    setattr(self, name, getattr(rig.hub, name))

        box.wire = Offline()
        assert {node["status"] for node in box.shows("node", "list")["nodes"]} == {"unknown"}
        assert box.shows("ps")["services"][0]["status"] == "unknown"
        assert box.shows("status")["copies"] == []
        asked = (("node", "invite", "w1"), ("node", "revoke", "w1", "--yes"), ("audit",), ("backup", "list"))
        for words in (*asked, ("status", "--check"), ("migrate", "web")):
            error = box.fails(2, *words)
            assert error["code"] == "no_hub" and "to make one: holdfast hub init --help" in error["remedy"], "N48, N62"
            assert re.search(r" (is|are) (\w+) only by a running hub", error["message"]), "N62: a whole sentence"

    scene(tmp_path, story)
