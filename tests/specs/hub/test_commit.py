"""A revision enters the ledger whole or not at all; a refused one leaves no trace (I-08, anchors.md §2)."""

from collections.abc import Callable

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.adapters.clock.virtual import VirtualClock
from holdfast.adapters.high_water.memory import MemoryHighWater
from holdfast.adapters.ledger_store.memory import MemoryStore
from holdfast.errors import (
    Conflict,
    Corrupt,
    Failed,
    HoldfastError,
    NotPermitted,
    SignatureRequired,
)
from holdfast.hub.ledger import commit as committing
from holdfast.hub.ledger import commit_write, reading, recoveries
from holdfast.hub.ledger.boot import boot, inspect
from holdfast.hub.ledger.revisions import Revisions
from holdfast.ledger import keys
from holdfast.model import canonical
from holdfast.model.fleet import Policy
from holdfast.model.record import Pin
from holdfast.model.revision import (
    Candidate,
    Head,
    Table,
    decode_header,
    decode_table,
    encode_header,
)
from holdfast.planning.compile import compile_revision
from holdfast.planning.plan import plan
from holdfast.ports.ledger_store import Transaction
from tests.fleets.build import (
    START_S,
    commit,
    grown_mailbox,
    mailbox,
    next_candidate,
    operator_signer,
    sign,
    small_fleet,
)


def store_with(revisions: int) -> tuple[MemoryStore, Revisions]:
    store = MemoryStore()
    return store, grown_mailbox(revisions, store)


def whole(store: MemoryStore) -> object:
    """Everything in a store, to compare before and after."""
    with store.reading() as view:
        blobs = {digest: view.blob(digest) for digest in view.blob_digests()}
        return [(r.key, r.value) for r in view.scan("")], blobs


def test_what_was_applied_is_what_is_served_o_01() -> None:
    """O-01, O-05, O-06: everything needed for serving is in the ledger, and the next boot serves it."""
    store, hub = store_with(2)
    again = mailbox(store)
    assert again.applied() == hub.applied()
    assert again.status().resources == {"fleet": 1, "trust": 1, "node": 1, "service": 1}


def test_commits_are_numbered_chained_and_recorded_o_13() -> None:
    _, hub = store_with(3)
    records = hub.records(0, 10)
    assert [record.number for record in records] == [3, 2, 1]
    headers = [link.header for link in hub.links(1, 3)]
    assert [header.parent for header in headers[1:]] == [record.digest for record in reversed(records[1:])]
    assert records[0].approval.signers[0].operator == "alice", "the approval is kept as evidence"


REFUSED: dict[str, Callable[[Candidate], Candidate]] = {
    "unsigned": lambda c: replace(c, signatures=()),
    "signed by a stranger": lambda c: sign(c, operator_signer("mallory")[1]),
    "a signature of something else": lambda c: replace(c, signatures=next_other().signatures),
    "a number ahead": lambda c: rehead(c, number=5),
    "another parent": lambda c: rehead(c, parent="f" * 64),
    "another fleet": lambda c: rehead(c, fleet="f" * 64),
    "another trust": lambda c: rehead(c, trust="f" * 64),
    "a manifest nobody compiled": lambda c: rehead(c, manifests={"w1": "f" * 64}),
    "one node's manifest left out": lambda c: rehead(c, manifests={}),
    "another table": lambda c: replace(c, table=c.table + b" "),
    "a content that is something else": lambda c: replace(c, blobs={**c.blobs, "f" * 64: b"x"}),
    "a content left out": lambda c: replace(c, blobs={d: b for d, b in c.blobs.items() if b"registry" not in b}),
    "a header in another spelling": lambda c: sign(replace(c, header=c.header + b" ")),
    "no header": lambda c: replace(c, header=b""),
    "a message that moves the cursor": lambda c: replace(c, message="\x1b[2J"),
    "a message that turns the text around": lambda c: replace(c, message="a\u202eb"),
    "a message of two lines": lambda c: replace(c, message="a\nb"),
    "a message that is too long": lambda c: replace(c, message="x" * 201),
}


def rehead(candidate: Candidate, **fields: object) -> Candidate:
    return sign(replace(candidate, header=encode_header(replace(decode_header(candidate.header), **fields))))


def next_other() -> Candidate:
    return next_candidate(small_fleet({"web": 77}), grown_mailbox(1).applied())


@pytest.mark.parametrize("why", REFUSED)
def test_a_refused_revision_leaves_no_trace_and_never_blocks_the_next_boot(why: str) -> None:
    """The trap that omnigraph fell into: a rejected apply armed a recovery record, and every boot refused after it."""
    store, hub = store_with(2)
    good = next_candidate(small_fleet({"web": 3}), hub.applied())
    before = whole(store)
    for _ in range(2):
        with pytest.raises(HoldfastError) as refused:
            hub.commit(REFUSED[why](good))
        assert refused.value.exit_code in (2, 3, 4, 5, 7) and refused.value.remedy
    assert whole(store) == before
    assert boot(store, MemoryHighWater(), strict=True).findings == ()
    assert hub.commit(good).number == 3


def test_only_what_the_signed_header_leads_to_is_stored() -> None:
    store, hub = store_with(1)
    good = next_candidate(small_fleet({"web": 2}), hub.applied())
    extra = b"junk added by whoever carried it"
    hub.commit(replace(good, blobs={**good.blobs, canonical.digest(extra): extra}))
    assert store.blob(canonical.digest(extra)) is None


def test_manifests_are_stored_as_the_hub_compiled_them_even_if_nobody_sent_them() -> None:
    store, hub = store_with(1)
    good = next_candidate(small_fleet({"web": 2}), hub.applied())
    wanted = decode_header(good.header).manifests["w1"]
    hub.commit(replace(good, blobs={d: b for d, b in good.blobs.items() if d != wanted}))
    assert store.blob(wanted) is not None


def staged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_write, "STAGED_ABOVE_BLOBS", 0)
    monkeypatch.setattr(commit_write, "STAGE_BLOBS", 2)


class Dies(Exception):
    """The process is gone."""


class DyingStore(MemoryStore):
    """Dies before its n-th commit."""

    left = 10**9

    def commit(self, tx: Transaction) -> int:
        self.left -= 1
        if self.left < 0:
            raise Dies
        return super().commit(tx)


@pytest.mark.parametrize("steps", range(6))
def test_a_staged_commit_cut_anywhere_is_swept_by_the_next_one(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """I-08, O-21: old or new, or a record that blocks the boot until it is swept; re-running never re-arms."""
    store = DyingStore()
    hub = grown_mailbox(2, store)
    staged(monkeypatch)
    wanted = small_fleet({"web": 3, "api": 1, "db": 1})
    store.left = steps
    try:
        commit(hub, wanted)
        survived = True
    except Dies:
        survived = False
    store.left = 10**9
    found = [finding.code for finding in inspect(store, MemoryHighWater()).findings]
    assert found == ([] if survived or steps == 0 else ["ledger_recovery_pending"])
    if found:
        with pytest.raises(Corrupt) as refused:
            boot(store, MemoryHighWater(), strict=False)
        assert refused.value.code == "ledger_recovery_pending"
    loaded = reading.load(store)
    assert loaded.applied is not None and loaded.applied.head.number == (3 if survived else 2)
    again = Revisions(store, VirtualClock(START_S), hub._random, MemoryHighWater(), loaded)
    if not survived:
        commit(again, wanted)
    assert not store.scan(keys.RECOVERIES)
    assert boot(store, MemoryHighWater(), strict=True).loaded.applied == again.applied()


def test_sweeping_an_abandoned_commit_removes_its_litter_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    store = DyingStore()
    hub = grown_mailbox(2, store)
    before = whole(store)
    staged(monkeypatch)
    store.left = 3
    with pytest.raises(Dies):
        commit(hub, small_fleet({"web": 3, "api": 1, "db": 1}))
    store.left = 10**9
    assert recoveries.sweep(store) == ["discarded: head is still 2: the commit had changed nothing"]
    assert whole(store) == before
    assert recoveries.sweep(store) == []


def test_a_staged_commit_swept_under_its_feet_fails_instead_of_naming_dropped_contents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Swept(MemoryStore):
        left = 10**9

        def commit(self, tx: Transaction) -> int:
            self.left -= 1
            if self.left == 0:
                recoveries.sweep(mine)
            return super().commit(tx)

    mine = Swept()
    hub = grown_mailbox(2, mine)
    staged(monkeypatch)
    mine.left = 3
    with pytest.raises(Conflict):
        commit(hub, small_fleet({"web": 3, "api": 1}))
    mine.left = 10**9
    assert reading.head_of(mine).number == 2
    assert boot(mine, MemoryHighWater(), strict=True).findings == ()


def test_a_staged_commit_that_loses_the_race_takes_its_own_record_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused apply leaves nothing that blocks the next boot, also when another one came in between."""

    class Racing(MemoryStore):
        rival: Revisions | None = None

        def commit(self, tx: Transaction) -> int:
            if self.rival is not None and tx.delete:
                rival, self.rival = self.rival, None
                with monkeypatch.context() as small:
                    small.setattr(commit_write, "STAGED_ABOVE_BLOBS", 2_000)
                    commit(rival, small_fleet({"web": 8}))
            return super().commit(tx)

    store = Racing()
    hub = grown_mailbox(2, store)
    rival = mailbox(store)
    slow = next_candidate(small_fleet({"web": 3, "api": 1}), hub.applied())
    staged(monkeypatch)
    store.rival = rival
    with pytest.raises(Conflict) as refused:
        hub.commit(slow)
    assert refused.value.code in ("stale_base", "failed_precondition")
    assert reading.head_of(store).number == 3
    assert boot(store, MemoryHighWater(), strict=True).findings == ()


def test_an_unsigned_revision_is_refused_before_anything_dear_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    _, hub = store_with(1)
    good = next_candidate(small_fleet({"web": 2}), hub.applied())

    def dear(*_: object) -> None:
        raise AssertionError("compiled for a stranger")

    monkeypatch.setattr(committing, "check_header", dear)
    for stranger in (replace(good, signatures=()), sign(good, operator_signer("mallory")[1])):
        with pytest.raises((SignatureRequired, NotPermitted)):
            hub.commit(stranger)


def test_two_writers_exactly_one_wins_c_17() -> None:
    store, one = store_with(1)
    other = mailbox(store)
    first = next_candidate(small_fleet({"web": 2}), one.applied())
    second = next_candidate(small_fleet({"web": 3}), other.applied())
    one.commit(first)
    with pytest.raises(Conflict) as refused:
        other.commit(second)
    assert refused.value.code == "revision_behind"
    assert reading.head_of(store).number == 2


def test_a_head_moved_behind_the_hub_is_reported_and_not_followed_c_16() -> None:
    """O-07: the applied revision is read once; another one needs a restart."""
    store, hub = store_with(1)
    before = hub.applied()
    commit(mailbox(store), small_fleet({"web": 2}))
    status = hub.status()
    assert [finding.code for finding in status.findings] == ["revision_behind"]
    assert (status.serving.number, status.head.number) == (1, 2)
    assert hub.applied() == before


def test_a_pinned_ledger_accepts_no_other_founder() -> None:
    """`hub init --trust` pins genesis."""
    store = MemoryStore()
    store.commit(Transaction(expect={}, put={keys.PIN: canonical.encode(Pin(keys.FORMAT, "f" * 64))}))
    with pytest.raises(Corrupt) as refused:
        commit(mailbox(store), small_fleet())
    assert refused.value.code == "other_fleet"


def test_a_missing_grade_is_refused_whole() -> None:
    """design §2: a revision lacking the grade for one delta is refused whole."""
    root, root_signer = operator_signer("root")
    cat, cat_signer = operator_signer("cat", "apply")
    hub = mailbox()
    team = (root, cat)
    commit(hub, small_fleet(operators=team), root_signer)
    with pytest.raises(SignatureRequired, match="grade destroy"):
        commit(hub, small_fleet({"web": 2}, nodes=("w1", "w2"), operators=team), cat_signer)
    assert commit(hub, small_fleet({"web": 2}, operators=team), cat_signer).number == 2


def test_damage_is_mended_from_contents_that_prove_themselves() -> None:
    store, hub = store_with(1)
    applied = hub.applied()
    assert applied is not None
    digest = applied.table.entries["service.web"].digest
    good = store.blob(digest)
    assert good is not None
    store.commit(Transaction(expect={}, put={}, drop_blobs=(digest,)))
    damaged = mailbox(store)
    assert damaged.status().quarantined == ("service.web",)
    assert damaged.status().resources.get("service") is None
    with pytest.raises(Corrupt):
        damaged.mend({digest: b"something else"})
    assert damaged.mend({digest: good, "f" * 64: b"unasked"}) == 1
    assert damaged.status().findings == () and damaged.damaged() == []


def test_a_mark_that_cannot_be_raised_is_a_finding_and_not_a_failed_commit() -> None:
    class FullDisk(MemoryHighWater):
        full = True

        def raise_to(self, head: Head) -> None:
            if self.full:
                raise Failed("no space is left", remedy="free space")
            super().raise_to(head)

    mark = FullDisk()
    hub = mailbox(high_water=mark)
    assert commit(hub, small_fleet()).number == 1
    assert [finding.code for finding in hub.status().findings] == ["high_water_behind"]
    mark.full = False
    commit(hub, small_fleet({"web": 2}))
    assert hub.status().findings == ()


def test_a_policy_bound_before_bindings_were_recorded_is_filled_in_by_one_apply_o_30() -> None:
    """O-29, O-30: the field is optional for the reader; the same content applied again records it."""
    fleet = replace(small_fleet(), policies={"read": Policy("read", b"permit(x);", ("fleet",))})
    planned = plan(fleet, None)
    assert planned.candidate is not None
    table = decode_table(planned.candidate.table)
    bare = Table({a: replace(e, applies_to=UNSET) for a, e in table.entries.items()}, {})
    old = compile_revision(bare, None, planned.candidate.blobs).candidate
    store = MemoryStore()
    mailbox(store).commit(sign(old))
    hub = mailbox(store)
    assert hub.status().quarantined == ("policy.read",)
    step = plan(fleet, hub.applied())
    assert [(c.address, [f.path for f in c.fields]) for c in step.changes] == [("policy.read", ["applies_to"])]
    commit(hub, fleet)
    assert mailbox(store).status().findings == ()
