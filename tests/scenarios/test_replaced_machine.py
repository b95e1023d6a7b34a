"""Another machine under a node's name begins another audit log; what the one before said stays as evidence (H-36)."""

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.hub.nodes.registry import fingerprint
from holdfast.ledger import keys
from holdfast.model import canonical
from holdfast.model.audit import AuditEntry, Event, encode
from holdfast.model.checkin import JoinRequest
from holdfast.model.invite import SignedInvite
from tests.fleets.desks import Puppet, Rig
from tests.fleets.virtual import VirtualLoop, run


def chained(count: int, mark: str) -> list[bytes]:
    lines: list[bytes] = []
    previous = "0" * 64
    for number in range(1, count + 1):
        lines.append(encode(AuditEntry(number, number, Event("node:w1", "act", detail=mark), previous)))
        previous = canonical.digest(lines[-1])
    return lines


def codes(rig: Rig) -> set[str]:
    return {found.code for found in rig.desk.status_findings()}


def test_a_replacement_starts_a_new_chain_and_is_no_forgery_of_the_old_one() -> None:
    """W4, I-38: also after a restart of the hub, and also when the old key had been revoked before."""

    async def main(loop: VirtualLoop) -> None:
        for revoked in (False, True):
            rig = Rig(loop)
            old, new = Puppet(rig, "w1", "old"), Puppet(rig, "w1", "new")
            await old.join("first")
            before, after = chained(5, "old"), chained(7, "new")
            assert (await old.says(audit=tuple(before))).audit_seen == 5
            if revoked:
                await rig.desk.revoke(new.principal, rig.revocation("w1", old.key.line))
                await loop_second()
            await new.join("second", replaces=True, over=old.key.line)
            rig = new.rig = rig.restarted()
            assert (await new.says()).audit_seen == 0, "copied from its beginning"
            assert (await new.says(audit=tuple(after[:4]))).audit_seen == 4
            assert "audit_broken" not in codes(rig)
            assert rig.desk.audit_lines("w1", 0, 100) == after[:4]
            aside = rig.store.scan(keys.former_audit_of("w1", fingerprint(old.key.line)))
            assert [record.value for record in aside] == before
            said = [event for event in events(rig) if event.action == "audit-copy"]
            assert len(said) == 1 and fingerprint(old.key.line) in said[0].detail
            rig = new.rig = rig.restarted()
            assert (await new.says(audit=tuple(after[4:]))).audit_seen == 7
            assert "audit_broken" not in codes(rig), "the new chain goes on across restarts"
            assert rig.desk.audit_entries("w1") == 7
            forged = chained(9, "forged")
            await new.says(audit=(forged[8],))
            assert "audit_broken" in codes(rig), "the same machine may not begin anew"

    run(main)


async def loop_second() -> None:
    import asyncio

    await asyncio.sleep(2)


def events(rig: Rig) -> list[Event]:
    return [msgspec.json.decode(line, type=AuditEntry).event for line in rig.audit.lines(0, 10_000)]


def test_only_the_machine_that_was_the_node_learns_who_took_its_place() -> None:
    """By the invite that it used. An invite that another key used, or that none did, proves nothing."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        old, new, third = Puppet(rig, "w1", "old"), Puppet(rig, "w1", "new"), Puppet(rig, "w1", "third")

        def asks(one: Puppet, invite: SignedInvite, once: str, node: str = "w1") -> JoinRequest:
            return JoinRequest(rig.enrolment(invite, node, one.key, once), "w1", ("worker",), "")

        spent, unused = rig.invite("w1", "first"), rig.invite("w1", "unused", replaces=True, over=third.key.line)
        assert (await rig.desk.join(old.principal, asks(old, spent, "first"), "")).accepted
        later = rig.invite("w1", "second", replaces=True, over=old.key.line)
        assert (await rig.desk.join(new.principal, asks(new, later, "second"), "")).accepted
        told = await rig.desk.join(old.principal, asks(old, spent, "first"), "")
        assert not told.accepted and told.successor == asks(new, later, "second").enrolment
        for one, invite, once in ((third, unused, "unused"), (third, spent, "first"), (old, unused, "unused")):
            with pytest.raises(HoldfastError):
                await rig.desk.join(one.principal, asks(one, invite, once), "")
        with pytest.raises(HoldfastError):
            await rig.desk.join(third.principal, asks(old, spent, "first"), "")
        mine = rig.invite("w2", "of w2")
        was_w2 = replace(asks(third, mine, "of w2", "w2"), name="w2")
        assert (await rig.desk.join(third.principal, was_w2, "")).accepted
        again = rig.invite("w2", "w2 again", replaces=True, over=third.key.line)
        other = Puppet(rig, "w2", "other")
        found = await rig.desk.join(other.principal, replace(asks(other, again, "w2 again", "w2"), name="w2"), "")
        assert found.accepted
        with pytest.raises(HoldfastError):
            await rig.desk.join(third.principal, replace(was_w2, name="w1"), "")
        await rig.desk.revoke(new.principal, rig.revocation("w1", new.key.line))
        with pytest.raises(HoldfastError):  # the machine that took its place is none of the fleet any more
            await rig.desk.join(old.principal, asks(old, spent, "first"), "")

    run(main)
