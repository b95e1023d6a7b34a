"""Heads seen before: rollback, forks and old checkouts are noticed, an apply cut short is not taken for one (W14)."""

import pytest
from msgspec.structs import replace

from holdfast.adapters.disk.memory import MemoryDisk
from holdfast.cli.fleet.seen_heads import Heads, parse_lock
from holdfast.errors import Conflict, Corrupt, Failed, HoldfastError
from holdfast.hub.ledger import commit as committing
from holdfast.hub.ledger.revisions import Revisions
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.record import Link
from holdfast.model.revision import Head
from holdfast.model.trust import of
from holdfast.trust.approval import Approved
from tests.fleets.build import (
    ALICE,
    ALICE_SIGNER,
    commit,
    grown_mailbox,
    mailbox,
    next_candidate,
    operator_signer,
    small_fleet,
)


def heads(disk: MemoryDisk, fleet_dir: str = "/fleet") -> Heads:
    disk.make_directory(fleet_dir)
    return Heads(disk, fleet_dir, "/state")


def applied(hub: Revisions) -> Applied:
    found = hub.applied()
    assert found is not None
    return found


def known(disk: MemoryDisk, hub: Revisions) -> Heads:
    memory = heads(disk)
    memory.moved(applied(hub).fleet_id, applied(hub).head)
    return memory


def test_a_fleet_never_seen_is_walked_from_its_first_revision() -> None:
    hub = grown_mailbox(3)
    memory = heads(MemoryDisk())
    assert memory.check(hub) == hub.applied()
    remembered = memory.memory(applied(hub).fleet_id)
    assert remembered is not None and remembered.head == applied(hub).head


def test_the_lock_is_readable_text_that_leads_back_to_the_head() -> None:
    hub, disk = grown_mailbox(2), MemoryDisk()
    known(disk, hub)
    text = disk.read("/fleet/fleet.lock", 4096)
    assert text is not None and text.startswith(b"# ")
    assert parse_lock(text).head == applied(hub).head


@pytest.mark.parametrize(
    "text", [b"", b"number = 1", b'fleet = "x"\nnumber = "1"\ndigest = "y"', b"\xff", b"number = 0"]
)
def test_a_damaged_lock_is_said_not_ignored(text: bytes) -> None:
    with pytest.raises(Corrupt, match=r"fleet\.lock is damaged"):
        parse_lock(text)


def test_a_lost_ledger_is_a_rollback_to_nothing() -> None:
    memory = known(MemoryDisk(), grown_mailbox(2))
    with pytest.raises(Corrupt, match="missing or empty, but revision 2 was seen") as refused:
        memory.check(None)
    assert refused.value.exit_code == 7 and "fleet.lock" in refused.value.remedy


def test_an_older_head_is_a_rollback() -> None:
    disk = MemoryDisk()
    memory = known(disk, grown_mailbox(3))
    with pytest.raises(Corrupt) as refused:
        memory.check(grown_mailbox(2))
    assert refused.value.code == "rolled_back"


def test_another_digest_under_the_same_number_is_a_fork() -> None:
    disk, hub = MemoryDisk(), grown_mailbox(2)
    memory = known(disk, hub)
    other = grown_mailbox(1)
    commit(other, small_fleet({"web": 9}))
    with pytest.raises(Corrupt) as refused:
        memory.check(other)
    assert (refused.value.code, refused.value.exit_code) == ("forked", 7)


def test_a_newer_head_that_forked_before_what_was_seen_is_refused() -> None:
    disk = MemoryDisk()
    memory = known(disk, grown_mailbox(2))
    other = grown_mailbox(1)
    commit(other, small_fleet({"web": 8}))
    commit(other, small_fleet({"web": 9}))
    with pytest.raises(Corrupt) as refused:
        memory.check(other, adopt=True)
    assert refused.value.code == "forked"


def test_a_directory_behind_the_head_is_an_old_checkout_until_adopted() -> None:
    disk, hub = MemoryDisk(), grown_mailbox(2)
    memory = known(disk, hub)
    commit(hub, small_fleet({"web": 9}))
    with pytest.raises(Conflict, match="old checkout") as refused:
        memory.check(hub)
    assert refused.value.exit_code == 5 and "--adopt" in refused.value.remedy
    assert memory.check(hub, adopt=True) == hub.applied()


def test_an_apply_cut_short_before_its_lock_was_written_is_finished_not_refused() -> None:
    disk, hub = MemoryDisk(), grown_mailbox(2)
    memory = known(disk, hub)
    before = applied(hub)
    head = commit(hub, small_fleet({"web": 9}))
    memory.expect(before.fleet_id, before.head, head)  # noted, committed, then killed
    assert memory.check(hub) == hub.applied()
    lock = memory.lock()
    assert lock is not None and lock.head == head


def test_the_same_from_another_directory_is_still_an_old_checkout() -> None:
    disk, hub = MemoryDisk(), grown_mailbox(2)
    known(disk, hub)
    before = applied(hub)
    head = commit(hub, small_fleet({"web": 9}))
    heads(disk, "/elsewhere").expect(before.fleet_id, before.head, head)
    with pytest.raises(Conflict, match="old checkout"):
        heads(disk).check(hub)


def test_an_apply_that_never_reached_the_ledger_leaves_no_trace() -> None:
    disk, hub = MemoryDisk(), grown_mailbox(2)
    memory = known(disk, hub)
    memory.expect(applied(hub).fleet_id, applied(hub).head, Head(3, "f" * 64))
    assert memory.check(hub) == hub.applied()
    remembered = memory.memory(applied(hub).fleet_id)
    assert remembered is not None and remembered.pending is None


def test_a_directory_and_a_hub_of_two_fleets_are_not_mixed_up() -> None:
    disk = MemoryDisk()
    memory = known(disk, grown_mailbox(1))
    bob, signer = operator_signer("bob")
    other = mailbox()
    commit(other, small_fleet(operators=(bob,)), signer)
    with pytest.raises(Corrupt) as refused:
        memory.check(other)
    assert refused.value.code == "other_fleet"


class Lying:
    """A hub that serves its own head with somebody else's signatures."""

    def __init__(self, hub: Revisions) -> None:
        self._hub = hub

    def __getattr__(self, name: str) -> object:
        return getattr(self._hub, name)

    def links(self, first: int, last: int) -> list[Link]:
        return [replace(link, signatures=()) for link in self._hub.links(first, last)]


def test_a_hub_cannot_slip_its_own_trust_under_a_header_seen_before() -> None:
    """The true header with another trust beside it would let the hub sign everything that follows."""
    disk, hub = MemoryDisk(), grown_mailbox(1)
    memory = known(disk, hub)
    mallory, _ = operator_signer("mallory")
    forged = canonical.encode(of((mallory,), applied(hub).trust.thresholds))

    class Slipping(Lying):
        def links(self, first: int, last: int) -> list[Link]:
            return [replace(link, trust_bytes=forged) for link in self._hub.links(first, last)]

    commit(hub, small_fleet({"web": 9}))
    with pytest.raises(Corrupt, match="names another trust"):
        memory.check(Slipping(hub), adopt=True)  # type: ignore[arg-type]


def test_a_scoped_key_and_a_hub_together_cannot_make_the_command_line_believe_more() -> None:
    """Grades and scopes are judged by whoever meets a new head, not only by the hub that took it."""
    ci, ci_signer = operator_signer("ci", "apply", ("service.web",))
    hub = mailbox()
    commit(hub, small_fleet(operators=(ALICE, ci)), ALICE_SIGNER)
    evil = next_candidate(small_fleet(nodes=("w1", "evil"), operators=(ALICE, ci)), hub.applied(), ci_signer)
    with pytest.MonkeyPatch.context() as patched:  # a hub that takes what it likes
        patched.setattr(committing, "approve_keys", lambda keys, grade, *rest: Approved(grade, ()))
        hub.commit(evil)
    with pytest.raises(Corrupt) as refused:
        heads(MemoryDisk()).check(hub)
    assert refused.value.code == "signature_invalid"


def test_a_lock_that_cannot_be_written_is_said_and_blocks_nothing() -> None:
    """A read-only checkout: the revision is applied, and later plans still know it."""

    class ReadOnlyFleet(MemoryDisk):
        def replace(self, path: str, content: bytes, mode: int = 0o600) -> None:
            if path.startswith("/fleet"):
                raise Failed("read-only", remedy="mount it for writing")
            super().replace(path, content, mode)

    disk, hub = ReadOnlyFleet(), grown_mailbox(1)
    memory = heads(disk)
    assert memory.moved(applied(hub).fleet_id, applied(hub).head) is not None
    assert memory.check(hub) == hub.applied()


def test_a_hub_that_cannot_show_signatures_is_not_believed() -> None:
    with pytest.raises(HoldfastError) as refused:
        heads(MemoryDisk()).check(Lying(grown_mailbox(2)))  # type: ignore[arg-type]
    assert refused.value.exit_code in (4, 7)
