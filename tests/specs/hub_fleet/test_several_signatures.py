"""Issue 13, D23: where grade destroy needs several operators, they sign one invite or one revocation, in a file."""

import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.cli.fleet.seen_heads import Heads
from holdfast.cli.nodes.statement_file import StatementFile
from holdfast.errors import HoldfastError
from holdfast.model import canonical
from holdfast.model.checkin import JoinRequest
from holdfast.model.fleet import Operator, Thresholds
from holdfast.model.invite import (
    INVITE_NAMESPACE,
    JOIN_NAMESPACE,
    REVOKE_NAMESPACE,
    Enrolment,
    Joining,
    JoinToken,
    SignedInvite,
    SignedRevocation,
    decode_invite,
    decode_token,
)
from holdfast.ports.signer import Signer
from holdfast.trust import enrolment, own_signature
from tests.fleets.authenticator import Authenticator
from tests.fleets.build import ALICE_SIGNER, operator_signer, small_fleet
from tests.fleets.desks import OPERATOR, Puppet, Rig
from tests.fleets.tools import Box
from tests.fleets.virtual import VirtualLoop, run
from tests.specs.hub_fleet.test_verbs import Wire, at_once

DAN, DAN_SIGNER = operator_signer("dan", "destroy")
BOB, BOB_SIGNER = operator_signer("bob", "apply")
SHOP, SHOP_SIGNER = operator_signer("shop", "destroy", ("service.web",))
DEE, SAM = Authenticator("dee"), Authenticator("sam", "ecdsa", b"ssh:work")
PAIR = Thresholds(destroy=2)
OTHERS = (DAN, BOB, SHOP, DEE.operator("root"), SAM.operator("destroy"))
Story = Callable[[Rig, Box, Puppet], Coroutine[Any, Any, None]]


def scene(home: Path, story: Story, thresholds: Thresholds = PAIR, others: tuple[Operator, ...] = OTHERS) -> None:
    """w1 has joined while one signature was enough; w2 has not."""

    async def main(loop: VirtualLoop) -> None:
        fleet = small_fleet(("web",), ("w1", "w2"))
        operators = (*fleet.operators, *others)
        rig = Rig(loop, replace(fleet, operators=operators))
        (w1,) = await rig.joined("w1")
        await w1.follows()
        await w1.beat(w1.a_report(address="100.64.0.1"))
        if thresholds != Thresholds():
            signers = (ALICE_SIGNER, DEE)
            rig.commit(replace(fleet, operators=operators, thresholds=thresholds), *signers)
        box = Box(home, Wire(rig), rig.clock)
        await story(rig, box, w1)

    run(main)


def by(box: Box, signer: Signer) -> Box:
    box.by = signer
    return box


def drafted(box: Box, home: Path, *words: str, code: int = 4) -> str:
    """The first operator's command: its file."""
    path = str(home / "statement")
    trouble = box.fails(code, *words, "-o", path, "--yes")
    first, then = trouble["remedy"].split(" && ")
    assert first.startswith(f"holdfast sign {path} --key KEY") and then.startswith(
        f"holdfast node {words[1]} {words[2]} --from {path}"
    )
    return path


def enrolled(rig: Rig, token: JoinToken, machine: Puppet) -> JoinRequest:
    content = canonical.encode(
        Joining(rig.fleet_id, canonical.digest(token.invite.invite), machine.name, machine.key.line, rig.now_s())
    )
    once = MemoryIdentityKey(token.once)
    signatures = [own_signature.armoured(key, content, JOIN_NAMESPACE) for key in (once, machine.key)]
    return JoinRequest(Enrolment(token.invite, content, *signatures), machine.name)


def test_two_operators_invite_a_machine_and_every_verifier_counts_both(tmp_path: Path) -> None:
    async def story(rig: Rig, box: Box, w1: Puppet) -> None:
        path = drafted(box, tmp_path, "node", "invite", "w2", "--expires", "1d")
        assert box.fails(4, "node", "invite", "w2", "--from", path)["code"] == "signature_required"
        assert "invite a machine as the node w2, roles worker" in by(box, DAN_SIGNER).does("sign", path, "--yes")
        token = decode_token(by(box, BOB_SIGNER).does("node", "invite", "w2", "--from", path))
        assert decode_invite(token.invite.invite).node == "w2" and len(token.invite.signatures) == 2

        w2 = Puppet(rig, "w2")
        request = enrolled(rig, token, w2)
        for number in (0, 1):  # one signature of the two: neither the hub nor a command line is convinced
            short = SignedInvite(token.invite.invite, (token.invite.signatures[number],))
            with pytest.raises(HoldfastError, match="needs more signatures") as refused:
                await rig.desk.join(w2.principal, enrolled(rig, replace(token, invite=short), w2), "x")
            assert refused.value.exit_code == 4
        assert (await rig.desk.join(w2.principal, request, "x")).accepted
        applied = rig.hub.applied()
        assert applied is not None
        assert enrolment.prove(request.enrolment, rig.fleet_id, applied.trust).joining.key == w2.key.line
        await w2.follows()
        await w2.beat(w2.a_report(address="100.64.0.2"))
        shown = next(node for node in box.shows("node", "list")["nodes"] if node["name"] == "w2")
        assert shown["verified"] and shown["key"] == w2.key.line
        assert box.fails(5, "node", "invite", "w2", "--from", path)["code"] == "already_joined"

    scene(tmp_path, story)


def test_two_operators_revoke_a_key(tmp_path: Path) -> None:
    async def story(rig: Rig, box: Box, w1: Puppet) -> None:
        path = drafted(box, tmp_path, "node", "revoke", "w1")
        assert rig.desk.node_of_key(w1.key.line) is not None
        lacking = box.fails(4, "node", "revoke", "w1", "--from", path, "--yes")
        assert lacking["code"] == "signature_required" and lacking["remedy"].startswith(f"holdfast sign {path} --key")
        assert "revoke the key of the node w1" in by(box, DAN_SIGNER).does("sign", path, "--yes")
        file = msgspec.json.decode(Path(path).read_bytes(), type=StatementFile)
        for signature in file.signatures:
            with pytest.raises(HoldfastError, match="needs more signatures"):
                at_once(rig.desk.revoke(OPERATOR, SignedRevocation(file.content, (signature,)), "x"))
        assert rig.desk.node_of_key(w1.key.line) is not None
        assert box.fails(2, "node", "revoke", "w1", "--from", path)["code"] == "no_terminal", "it asks"
        assert box.fails(2, "node", "revoke", "w2", "--from", path, "--yes")["code"] == "other_statement"
        assert box.shows("node", "revoke", "w1", "--from", path, "--yes")["key"] == w1.key.line
        assert rig.desk.node_of_key(w1.key.line) is None

    scene(tmp_path, story)


@pytest.mark.parametrize("verb", ["invite", "revoke"])
@pytest.mark.parametrize("signer", [ALICE_SIGNER, BOB_SIGNER, SHOP_SIGNER], ids=["twice", "grade", "scope"])
def test_a_signature_that_does_not_count_is_never_enough(tmp_path: Path, verb: str, signer: Signer) -> None:
    """A key signs once; grade apply and a scope without the node sign nothing, neither by `sign` nor by hand."""

    async def story(rig: Rig, box: Box, w1: Puppet) -> None:
        node = "w2" if verb == "invite" else "w1"
        path = drafted(box, tmp_path, "node", verb, node)
        before = Path(path).read_bytes()
        if signer is ALICE_SIGNER:
            assert by(box, signer).shows("sign", path, "--yes")["signatures"] == 1
        else:
            assert by(box, signer).fails(4, "sign", path, "--yes")["code"] == "signature_required"
        assert Path(path).read_bytes() == before
        file = msgspec.json.decode(before, type=StatementFile)
        namespace = INVITE_NAMESPACE if verb == "invite" else REVOKE_NAMESPACE
        by_hand = replace(file, signatures=(*file.signatures, signer.sign(file.content, namespace)))
        Path(path).write_bytes(msgspec.json.encode(by_hand))
        assert box.fails(4, "node", verb, node, "--from", path, "--yes")["code"] == "signature_required"

    scene(tmp_path, story)


@pytest.mark.parametrize("verb", ["invite", "revoke"])
def test_a_file_changed_between_the_signers_is_refused(tmp_path: Path, verb: str) -> None:
    async def story(rig: Rig, box: Box, w1: Puppet) -> None:
        node = "w2" if verb == "invite" else "w1"
        path = drafted(box, tmp_path, "node", verb, node)
        file = msgspec.json.decode(Path(path).read_bytes(), type=StatementFile)
        changed = file.content.replace(b'"w2"', b'"w1"') if verb == "invite" else file.content.replace(b'"w1"', b'"w2"')
        for content in (changed, file.content.replace(b'_s":1', b'_s":2')):
            assert content != file.content
            Path(path).write_bytes(msgspec.json.encode(replace(file, content=content)))
            for words in (("sign", path), ("node", verb, node, "--from", path)):
                assert by(box, DAN_SIGNER).fails(7, *words, "--yes")["code"] == "signature_invalid"

    scene(tmp_path, story)


@pytest.mark.parametrize("verb", ["invite", "revoke"])
def test_an_operator_is_asked_and_signs_in_the_directory_of_no_other_fleet(tmp_path: Path, verb: str) -> None:
    async def story(rig: Rig, box: Box, w1: Puppet) -> None:
        path = drafted(box, tmp_path, "node", verb, "w2" if verb == "invite" else "w1")
        before = Path(path).read_bytes()
        assert by(box, DAN_SIGNER).fails(2, "sign", path)["code"] == "no_terminal", "it asks"
        Heads(box.disk, str(tmp_path / "fleet"), str(tmp_path / "state")).moved("9" * 64, rig.head)
        assert box.fails(3, "sign", path, "--yes")["code"] == "other_fleet"
        assert Path(path).read_bytes() == before

    scene(tmp_path, story)


def test_a_touch_counts_for_each_signature(tmp_path: Path) -> None:
    """ADR 0033: with `destroy_requires = "touch"` two security keys sign; a key file signs nothing."""

    async def story(rig: Rig, box: Box, w1: Puppet) -> None:
        path = str(tmp_path / "statement")
        refused = by(box, ALICE_SIGNER).fails(4, "node", "invite", "w2", "-o", path)
        assert "needs no touch" in refused["message"] and not os.path.exists(path)
        path = drafted(by(box, DEE), tmp_path, "node", "invite", "w2")
        assert by(box, DAN_SIGNER).fails(4, "sign", path, "--yes")["code"] == "signature_required"
        assert by(box, DEE).shows("sign", path, "--yes")["signatures"] == 1  # another signature by the same key
        untouched = Authenticator("sam", "ecdsa", b"ssh:work", flags=0)
        assert by(box, untouched).fails(7, "sign", path, "--yes")["code"] == "signature_invalid"
        file = msgspec.json.decode(Path(path).read_bytes(), type=StatementFile)
        by_hand = replace(file, signatures=(*file.signatures, untouched.sign(file.content, INVITE_NAMESPACE)))
        Path(str(tmp_path / "by-hand")).write_bytes(msgspec.json.encode(by_hand))
        assert box.fails(7, "node", "invite", "w2", "--from", str(tmp_path / "by-hand"))["code"] == "signature_invalid"
        by(box, SAM).does("sign", path, "--yes")
        token = decode_token(box.does("node", "invite", "w2", "--from", path))
        w2 = Puppet(rig, "w2")
        assert (await rig.desk.join(w2.principal, enrolled(rig, token, w2), "x")).accepted

    scene(tmp_path, story, Thresholds(destroy=2, destroy_requires="touch"))


def test_an_invite_that_expired_while_it_was_signed_is_refused(tmp_path: Path) -> None:
    async def story(rig: Rig, box: Box, w1: Puppet) -> None:
        path = drafted(box, tmp_path, "node", "invite", "w2", "--expires", "10m")
        by(box, DAN_SIGNER).does("sign", path, "--yes")
        rig.clock.skew_s += 600
        assert box.fails(3, "sign", path, "--yes")["code"] == "expired"
        assert box.fails(3, "node", "invite", "w2", "--from", path)["code"] == "expired"

    scene(tmp_path, story)


def test_an_invite_signed_around_a_revocation_is_refused(tmp_path: Path) -> None:
    """W4: what replaces a key that is gone since proves nothing."""

    async def story(rig: Rig, box: Box, w1: Puppet) -> None:
        invite = drafted(box, tmp_path, "node", "invite", "w1", "--replace")
        by(box, DAN_SIGNER).does("sign", invite, "--yes")
        os.rename(invite, tmp_path / "invite")
        revocation = drafted(by(box, ALICE_SIGNER), tmp_path, "node", "revoke", "w1")
        by(box, DAN_SIGNER).does("sign", revocation, "--yes")
        box.does("node", "revoke", "w1", "--from", revocation, "--yes")
        assert box.fails(5, "node", "invite", "w1", "--from", str(tmp_path / "invite"))["code"] == "invite_outdated"

    scene(tmp_path, story)


@pytest.mark.parametrize("since", ["the key was replaced", "another machine joined and was revoked"])
def test_an_invite_signed_around_another_one_is_refused(tmp_path: Path, since: str) -> None:
    """It names the key that it replaces, and what came before a revocation ended with it."""
    words = ("w1", "--replace") if since == "the key was replaced" else ("w2",)

    async def story(rig: Rig, box: Box, w1: Puppet) -> None:
        def signed(name: str, *statement: str) -> str:
            made = drafted(by(box, ALICE_SIGNER), tmp_path, "node", *statement)
            by(box, DAN_SIGNER).does("sign", made, "--yes")
            os.rename(made, tmp_path / name)
            return str(tmp_path / name)

        first, second = (signed(name, "invite", *words) for name in ("first", "second"))
        machine = Puppet(rig, words[0], "another machine")
        token = decode_token(box.does("node", "invite", words[0], "--from", second))
        assert (await rig.desk.join(machine.principal, enrolled(rig, token, machine), "x")).accepted
        if words == ("w2",):
            box.does("node", "revoke", "w2", "--from", signed("third", "revoke", "w2"), "--yes")
        assert box.fails(5, "node", "invite", words[0], "--from", first)["code"] == "invite_outdated"

    scene(tmp_path, story)


def test_the_file_makes_no_machine_a_node(tmp_path: Path) -> None:
    """The one-time key is in the state directory of the machine that drafted the invite, and nowhere else."""

    async def story(rig: Rig, box: Box, w1: Puppet) -> None:
        path = drafted(box, tmp_path, "node", "invite", "w2")
        by(box, DAN_SIGNER).does("sign", path, "--yes")
        token = decode_token(box.does("node", "invite", "w2", "--from", path))
        kept = [file for file in (tmp_path / "state" / "invites").rglob("*") if file.is_file()]
        assert [file.stat().st_mode & 0o777 for file in kept] == [0o600]
        elsewhere = Box(tmp_path / "elsewhere", box.wire, rig.clock)
        (tmp_path / "elsewhere").mkdir()
        trouble = elsewhere.fails(5, "node", "invite", "w2", "--from", path)
        assert trouble["code"] == "no_one_time_key" and "node invite w2 -o FILE" in trouble["remedy"]
        file = Path(path).read_bytes()
        for form in (token.once, token.once.hex().encode(), msgspec.json.encode(token.once).strip(b'"')):
            assert form not in file
        second = decode_token(_again(box, tmp_path))
        assert second.once != token.once
        assert decode_token(box.does("node", "invite", "w2", "--from", path)).once == token.once, (
            "both wait side by side"
        )

    scene(tmp_path, story)


def _again(box: Box, home: Path) -> str:
    path = str(home / "second")
    by(box, ALICE_SIGNER).fails(4, "node", "invite", "w2", "-o", path)
    by(box, DAN_SIGNER).does("sign", path, "--yes")
    return box.does("node", "invite", "w2", "--from", path)


def test_where_one_signature_is_enough_a_file_can_be_asked_for(tmp_path: Path) -> None:
    async def story(rig: Rig, box: Box, w1: Puppet) -> None:
        for verb, node in (("invite", "w2"), ("revoke", "w1")):
            path = str(tmp_path / verb)
            assert box.shows("node", verb, node, "-o", path, "--yes") == {"file": path, "signatures": 1}
            assert rig.desk.node_of_key(w1.key.line) is not None
            box.does("node", verb, node, "--from", path, "--yes")
        assert rig.desk.node_of_key(w1.key.line) is None

    scene(tmp_path, story, Thresholds())


def test_what_is_no_such_file_is_met_with_a_sentence(tmp_path: Path) -> None:
    async def story(rig: Rig, box: Box, w1: Puppet) -> None:
        for verb, node in (("invite", "w2"), ("revoke", "w1")):
            assert "does not exist" in box.fails(2, "node", verb, node, "--from", str(tmp_path / "none"))["message"]
        path = drafted(box, tmp_path, "node", "invite", "w2")
        assert box.fails(2, "node", "invite", "w2", "--from", path, "--replace")["code"] == "usage"
        assert box.fails(2, "node", "revoke", "w1", "--from", path)["code"] == "other_statement"
        by(box, DAN_SIGNER).does("sign", path, "--yes")
        assert box.fails(2, "node", "invite", "w1", "--from", path)["code"] == "other_statement"
        file = msgspec.json.decode(Path(path).read_bytes(), type=StatementFile)
        spoiled = canonical.encode(replace(decode_invite(file.content), node="../../x"))
        for content in (b"{}", msgspec.json.encode(replace(file, content=spoiled, signatures=()))):
            Path(path).write_bytes(content)
            assert box.fails(2, "node", "invite", "w2", "--from", path)["code"] == "not_a_statement"

    scene(tmp_path, story)
