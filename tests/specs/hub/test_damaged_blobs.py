"""Rotted contents and manifests: found at boot, quarantined, stored anew at the price of what was sent (O-33, I-07)."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import apsw
import pytest

from holdfast.adapters.clock.virtual import VirtualClock
from holdfast.adapters.ledger_store.memory import MemoryStore
from holdfast.adapters.ledger_store.sqlite.store import SqliteStore
from holdfast.errors import Corrupt
from holdfast.hub.ledger import reading
from holdfast.hub.ledger.revision_reader import RevisionReader
from holdfast.hub.ledger.revisions import Revisions
from holdfast.hub.nodes.link_cache import LinkCache
from holdfast.model.applied import Applied, needed
from holdfast.model.revision import NO_HEAD
from holdfast.planning.manifests import compile_manifests
from holdfast.planning.plan import plan
from holdfast.planning.undeploy import plan_undeploy
from holdfast.ports.ledger_store import LedgerStore, Transaction
from tests.fleets.build import commit, grown_mailbox, mailbox, next_candidate, signed, small_fleet


class Watched(MemoryStore):
    """Remembers which contents were read, and what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []
        self.written: list[Transaction] = []

    def read_blobs(self, digests: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        wanted = list(digests)
        self.read += wanted
        return super().read_blobs(wanted)

    def commit(self, tx: Transaction) -> int:
        self.written.append(tx)
        return super().commit(tx)


def applied_by(hub: Revisions) -> Applied:
    found = hub.applied()
    assert found is not None
    return found


def lose(store: LedgerStore, digest: str) -> bytes:
    """Returns what was there."""
    content = store.blob(digest)
    assert content is not None
    store.commit(Transaction(expect={}, put={}, drop_blobs=(digest,)))
    return content


def findings(hub: Revisions) -> list[tuple[str, str]]:
    return [(found.code, found.address) for found in hub.status().findings]


def test_what_nobody_sent_or_nobody_needs_is_not_looked_at() -> None:
    store = Watched()
    hub = grown_mailbox(2, store)
    store.read.clear()
    store.written.clear()
    assert hub.mend({}) == 0
    assert hub.mend({"f" * 64: b"unrelated"}) == 0
    assert (store.read, store.written) == ([], [])
    sound = applied_by(hub).table.entries["service.web"].digest
    assert hub.mend({sound: b"not even right"}) == 0
    assert (store.read, store.written) == ([sound], [])


def test_what_is_healed_is_written_in_one_transaction_and_nothing_else_is_read() -> None:
    store = Watched()
    applied = applied_by(grown_mailbox(1, store))
    service, node = applied.table.entries["service.web"].digest, applied.table.entries["node.w1"].digest
    content, other = lose(store, service), lose(store, node)
    hub = mailbox(store)
    assert sorted(findings(hub)) == [("blob_missing", "node.w1"), ("blob_missing", "service.web")]
    store.read.clear()
    store.written.clear()
    assert hub.mend({service: content}) == 1
    assert store.read == [service]
    assert store.written == [Transaction(expect={}, put={}, blobs={service: content})]
    assert findings(hub) == [("blob_missing", "node.w1")]
    assert hub.mend({node: other}) == 1
    assert findings(hub) == []


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "ledger.db"
    store = SqliteStore.open(str(path), create=True)
    grown_mailbox(2, store)
    store.close()
    yield path


def flip_one_bit(ledger: Path, digest: str) -> None:
    db = apsw.Connection(str(ledger))
    ((content,),) = db.execute("SELECT content FROM blobs WHERE digest = ?", (digest,)).fetchall()
    assert isinstance(content, bytes)
    rotted = bytes([content[0] ^ 1]) + content[1:]
    db.execute("UPDATE blobs SET content = ? WHERE digest = ?", (rotted, digest))
    db.close()


@pytest.mark.parametrize(
    ("what", "finding"), [("content", ("blob_damaged", "service.web")), ("manifest", ("manifest_damaged", "node.w1"))]
)
def test_a_bit_that_flipped_in_a_file_is_healed_by_storing_again(
    ledger: Path, what: str, finding: tuple[str, str]
) -> None:
    store = SqliteStore.open(str(ledger), create=False)
    applied = applied_by(mailbox(store))
    manifest = compile_manifests(applied.fleet_id, applied.table)["w1"]
    digest = applied.header.manifests["w1"] if what == "manifest" else applied.table.entries["service.web"].digest
    content = manifest if what == "manifest" else store.blob(digest)
    assert content is not None and digest in needed(applied)
    flip_one_bit(ledger, digest)
    hub = mailbox(store)
    assert findings(hub) == [finding] and hub.damaged() == [digest]
    assert hub.status().quarantined == (finding[1],)
    with pytest.raises(Corrupt):
        hub.mend({digest: content + b" "})
    assert hub.mend({digest: content}) == 1
    assert store.blob(digest) == content
    assert findings(hub) == [] and hub.damaged() == []
    store.close()


def test_a_lost_manifest_is_over_once_the_node_has_another() -> None:
    store = Watched()
    lose(store, applied_by(grown_mailbox(1, store)).header.manifests["w1"])
    hub = mailbox(store)
    assert findings(hub) == [("manifest_missing", "node.w1")]
    commit(hub, small_fleet({"web": 2}))
    assert findings(hub) == [] and hub.damaged() == []


# ---- what is known without a sweep


def test_a_hub_that_booted_sound_suspects_nothing_and_reads_no_content_to_say_so() -> None:
    store = Watched()
    grown_mailbox(2, store)
    hub = mailbox(store)
    store.read.clear()
    assert not hub.suspects_damage() and store.read == []


def test_damage_found_at_boot_is_suspected_until_it_is_mended() -> None:
    store = Watched()
    digest = applied_by(grown_mailbox(2, store)).table.entries["service.web"].digest
    content = lose(store, digest)
    hub = mailbox(store)
    assert hub.suspects_damage()
    hub.mend({digest: content})
    assert hub.damaged() == [] and not hub.suspects_damage()


def test_damage_that_a_read_meets_is_suspected_until_a_sweep_finds_nothing() -> None:
    store = Watched()
    hub = grown_mailbox(2, store)
    digest = applied_by(hub).table.entries["service.web"].digest
    content = lose(store, digest)
    assert not hub.suspects_damage()
    assert hub.blob(digest) is None and hub.suspects_damage()
    assert hub.damaged() == [digest] and hub.suspects_damage()
    hub.mend({digest: content})
    assert hub.damaged() == [] and not hub.suspects_damage()


def test_a_ledger_that_no_boot_has_checked_is_suspected() -> None:
    store = Watched()
    grown_mailbox(2, store)
    hub = RevisionReader(store, VirtualClock(0.0), reading.load(store))
    assert hub.suspects_damage() and hub.damaged() == [] and not hub.suspects_damage()


def test_a_manifest_that_a_check_in_cannot_read_is_suspected_and_in_the_status_until_it_is_stored_again() -> None:
    store = Watched()
    hub = grown_mailbox(2, store)
    applied = applied_by(hub)
    digest = applied.header.manifests["w1"]
    content = lose(store, digest)
    with pytest.raises(Corrupt):
        LinkCache(hub).offer("w1", NO_HEAD, applied)
    assert hub.suspects_damage() and findings(hub) == [("manifest_missing", "node.w1")]
    assert hub.status().quarantined == ("node.w1",)
    assert hub.damaged() == [digest] and findings(hub) == [("manifest_missing", "node.w1")]
    assert hub.mend({digest: content}) == 1
    assert not hub.suspects_damage() and findings(hub) == []
    assert LinkCache(hub).offer("w1", NO_HEAD, applied).manifest == content


def test_damage_of_a_revision_that_this_hub_committed_itself_is_met_in_the_same_way(ledger: Path) -> None:
    store = SqliteStore.open(str(ledger), create=False)
    hub = mailbox(store)
    commit(hub, small_fleet({"web": 3}))
    applied = applied_by(hub)
    flip_one_bit(ledger, applied.table.entries["service.web"].digest)
    with pytest.raises(Corrupt):
        applied.service("web")
    assert hub.suspects_damage() and findings(hub) == [("blob_damaged", "service.web")]
    store.close()


def test_a_commit_that_meets_damage_is_followed_by_a_sweep() -> None:
    store = Watched()
    hub = grown_mailbox(2, store)
    candidate = next_candidate(small_fleet({"web": 3}), hub.applied())
    digest = applied_by(hub).table.entries["service.web"].digest
    lose(store, digest)
    with pytest.raises(Corrupt):
        hub.commit(candidate)
    assert hub.suspects_damage() and findings(hub) == [("blob_missing", "service.web")]
    assert hub.damaged() == [digest]


def test_the_status_of_a_ledger_directory_names_its_damage() -> None:
    """No boot has checked it, so the contents are read for the status, once."""
    store = Watched()
    applied = applied_by(grown_mailbox(2, store))
    lose(store, applied.table.entries["service.web"].digest)
    hub = RevisionReader(store, VirtualClock(0.0), reading.load(store))
    store.read.clear()
    for _ in range(2):
        assert [(found.code, found.address) for found in hub.status().findings] == [("blob_missing", "service.web")]
        assert store.read == list(needed(applied))


def test_a_content_that_the_applied_revision_does_not_need_may_be_missing() -> None:
    """Else a reader who asks for any digest would have the next apply read every content."""
    store = Watched()
    hub = grown_mailbox(2, store)
    assert hub.blob("f" * 64) is None and not hub.suspects_damage()


@pytest.mark.parametrize("rotted", [True, False])
def test_a_service_can_be_removed_and_declared_again_without_its_content(ledger: Path, rotted: bool) -> None:
    """No file brings the content of a removed service back, so that it costs a grade, not the name."""
    store = SqliteStore.open(str(ledger), create=False)
    hub = mailbox(store)
    digest = applied_by(hub).table.entries["service.web"].digest
    if rotted:
        flip_one_bit(ledger, digest)
    else:
        lose(store, digest)
    hub = mailbox(store)
    gone = plan_undeploy("service.web", applied_by(hub))
    assert [change.kind for change in gone.changes] == ["retire"]
    hub.commit(signed(gone))
    again = plan(small_fleet({"web": 2}), hub.applied())
    assert [(change.address, change.grade) for change in again.changes] == [("service.web", "destroy")]
    hub.commit(signed(again))
    assert applied_by(hub).service("web") and plan(small_fleet({"web": 3}), hub.applied()).grade == "apply"
    store.close()
