"""What every ledger store promises, asked of the one in memory and of SQLite."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from holdfast.adapters.clock.virtual import VirtualClock
from holdfast.adapters.ledger_store.memory import MemoryStore
from holdfast.adapters.ledger_store.sqlite import SqliteStore
from holdfast.errors import Conflict, Corrupt, HoldfastError, Invalid
from holdfast.ports.ledger_store import (
    Change,
    Compacted,
    Held,
    LeaseLost,
    LedgerStore,
    Moved,
    Record,
    Transaction,
)

START_S = 1_700_000_000.0
STORES: dict[str, Callable[[str, VirtualClock], LedgerStore]] = {
    "memory": lambda _folder, clock: MemoryStore(clock),
    "sqlite": lambda folder, clock: SqliteStore.open(f"{folder}/ledger/ledger.db", clock, create=True),
}


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START_S)


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: VirtualClock) -> Iterator[LedgerStore]:
    store = STORES[request.param](str(tmp_path), clock)
    yield store
    store.close()


def put(store: LedgerStore, **values: bytes) -> int:
    return store.commit(Transaction(expect={}, put=values))


def name_of(content: bytes) -> str:
    return sha256(content).hexdigest()


# Keys and versions


def test_a_new_store_is_empty_at_revision_zero(store: LedgerStore) -> None:
    assert store.revision() == 0
    assert store.get("head") is None
    assert store.scan("") == []
    assert store.watch("", after=0, timeout_s=0) == []


def test_every_commit_that_changes_a_key_raises_the_one_store_revision_by_one(store: LedgerStore) -> None:
    assert put(store, a=b"1") == 1
    assert put(store, b=b"1", c=b"1") == 2
    assert store.commit(Transaction(expect={}, put={}, delete=["a", "b"])) == 3
    assert store.revision() == 3


def test_a_record_knows_when_it_was_created_and_last_modified(store: LedgerStore) -> None:
    put(store, head=b"one")
    put(store, other=b"")
    put(store, head=b"two")
    assert store.get("head") == Record("head", b"two", created=1, modified=3)
    assert store.get("other") == Record("other", b"", created=2, modified=2)


def test_a_key_deleted_and_put_again_is_a_new_record_with_larger_versions(store: LedgerStore) -> None:
    put(store, grave=b"old")
    store.commit(Transaction(expect={"grave": 1}, put={}, delete=["grave"]))
    assert store.get("grave") is None
    assert store.commit(Transaction(expect={"grave": 0}, put={"grave": b"new"})) == 3
    assert store.get("grave") == Record("grave", b"new", created=3, modified=3)
    with pytest.raises(Moved):
        store.commit(Transaction(expect={"grave": 1}, put={"grave": b"by a sleeper"}))


def test_a_transaction_that_changes_nothing_leaves_the_revision(store: LedgerStore) -> None:
    put(store, a=b"1")
    assert store.commit(Transaction(expect={"a": 1}, put={}, delete=["never-was"])) == 1
    assert store.commit(Transaction(expect={}, put={}, blobs={name_of(b"x"): b"x"})) == 1
    assert store.watch("", after=1, timeout_s=0) == []


def test_a_scan_is_sorted_and_holds_exactly_the_keys_with_the_prefix(store: LedgerStore) -> None:
    keys = ["node/b", "node/a", "node", "node/", "nodf", "node/é", "node/\U0001f98a", "nod"]
    store.commit(Transaction(expect={}, put={key: key.encode() for key in keys}))
    assert [record.key for record in store.scan("node/")] == ["node/", "node/a", "node/b", "node/é", "node/\U0001f98a"]
    assert [record.key for record in store.scan("")] == sorted(keys)
    assert all(record.value == record.key.encode() for record in store.scan(""))


@pytest.mark.parametrize("key", ["", "a\nb", "nul\0", "x" * 1025, "\U0010ffff", "\udc80"])
def test_an_unprintable_or_endless_key_is_refused(store: LedgerStore, key: str) -> None:
    with pytest.raises(Invalid):
        store.commit(Transaction(expect={}, put={"good": b"", key: b""}))
    assert store.scan("") == []


def test_one_transaction_cannot_put_and_delete_the_same(store: LedgerStore) -> None:
    with pytest.raises(Invalid):
        store.commit(Transaction(expect={}, put={"a": b""}, delete=["a"]))
    with pytest.raises(Invalid):
        digest = name_of(b"x")
        store.commit(Transaction(expect={}, put={}, blobs={digest: b"x"}, drop_blobs=[digest]))


# Compare and swap


@pytest.mark.parametrize(("expected", "actual"), [(0, 2), (1, 2), (3, 2)])
def test_a_failed_expectation_names_the_key_and_writes_nothing_at_all(
    store: LedgerStore, expected: int, actual: int
) -> None:
    """I-08: old or new, never a mix."""
    put(store, head=b"1", stays=b"1")
    put(store, head=b"2")
    with pytest.raises(Moved, match="head") as refused:
        store.commit(
            Transaction(
                expect={"stays": 1, "head": expected},
                put={"fresh": b"x", "head": b"3"},
                delete=["stays"],
                blobs={name_of(b"x"): b"x"},
            )
        )
    assert isinstance(refused.value, Conflict)
    assert (refused.value.key, refused.value.expected, refused.value.actual) == ("head", expected, actual)
    assert refused.value.remedy
    assert store.revision() == 2
    assert [(r.key, r.value) for r in store.scan("")] == [("head", b"2"), ("stays", b"1")]
    assert list(store.blob_digests()) == []
    assert store.watch("", after=2, timeout_s=0) == []


def test_expecting_a_key_that_was_deleted_fails(store: LedgerStore) -> None:
    put(store, head=b"1")
    store.commit(Transaction(expect={}, put={}, delete=["head"]))
    with pytest.raises(Moved):
        store.commit(Transaction(expect={"head": 1}, put={"head": b"2"}))


def test_of_many_racing_writers_exactly_one_moves_the_head(store: LedgerStore) -> None:
    """C-17: the ledger's compare-and-swap is the lock between writers."""
    start = threading.Barrier(8)

    def race(name: int) -> bool:
        start.wait()
        try:
            store.commit(Transaction(expect={"head": 0}, put={"head": b"%d" % name}))
        except Moved:
            return False
        return True

    with ThreadPoolExecutor(8) as crew:
        won = list(crew.map(race, range(8)))
    assert won.count(True) == 1
    assert store.get("head") == Record("head", b"%d" % won.index(True), created=1, modified=1)


def test_in_a_group_of_writers_each_gets_its_own_result_and_a_refusal_hurts_only_itself(store: LedgerStore) -> None:
    put(store, head=b"")
    start = threading.Barrier(32)

    def write(name: int) -> list[int]:
        start.wait()
        revisions = []
        for turn in range(20):
            stale = (name + turn) % 3 == 0
            tx = Transaction(expect={"head": 99 if stale else 1}, put={f"{name}/{turn}": b"%d" % name})
            if stale:
                with pytest.raises(Moved):
                    store.commit(tx)
            else:
                revisions.append(store.commit(tx))
        return revisions

    with ThreadPoolExecutor(32) as crew:
        results = list(crew.map(write, range(32)))
    revisions = [revision for result in results for revision in result]
    assert sorted(revisions) == list(range(2, len(revisions) + 2))
    assert all(result == sorted(result) for result in results)
    written = {record.modified: record for record in store.scan("") if record.key != "head"}
    for name, result in enumerate(results):
        assert all(written[revision].value == b"%d" % name for revision in result)
    assert len(written) == len(revisions)


def test_submitted_transactions_report_through_their_futures(store: LedgerStore) -> None:
    futures = [store.submit(Transaction(expect={f"k{n}": 0}, put={f"k{n}": b""})) for n in range(50)]
    refused = store.submit(Transaction(expect={"k0": 0}, put={"k0": b"again"}))
    assert sorted(future.result(60) for future in futures) == list(range(1, 51))
    assert isinstance(refused.exception(10), Moved)
    assert put(store, last=b"") == 51
    with pytest.raises(Corrupt):
        store.submit(Transaction(expect={}, put={}, blobs={"0" * 64: b"forged"}))


# Reading


def test_a_reading_stays_at_its_moment_while_writers_go_on(store: LedgerStore) -> None:
    """O-34, I-09: a reader sees the old or the new ledger, blocks nobody and is blocked by nobody."""
    digest = name_of(b"old blob")
    store.commit(Transaction(expect={}, put={"head": b"old"}, blobs={digest: b"old blob"}))
    with store.reading() as before:
        store.commit(Transaction(expect={}, put={"head": b"new", "more": b""}, drop_blobs=[digest]))
        with store.reading() as after:
            assert (before.revision(), after.revision()) == (1, 2)
            assert [r.value for r in before.scan("")] == [b"old"]
            assert after.get("head") == Record("head", b"new", created=1, modified=2)
            assert before.get("more") is None
            assert (before.blob(digest), after.blob(digest)) == (b"old blob", None)
            assert (list(before.blob_digests()), list(after.blob_digests())) == ([digest], [])
    assert store.revision() == 2


def test_many_readers_never_see_half_a_transaction(store: LedgerStore) -> None:
    """I-08, C-17."""
    put(store, left=b"0", right=b"0")
    stop = threading.Event()

    def look() -> int:
        looks = 0
        while not stop.is_set():
            with store.reading() as now:
                left, right = now.get("left"), now.get("right")
                assert left is not None
                assert right is not None
                assert left.value == right.value == b"%d" % (now.revision() - 1)
            looks += 1
        return looks

    with ThreadPoolExecutor(4) as crew:
        readers = [crew.submit(look) for _ in range(4)]
        for n in range(1, 100):
            put(store, left=b"%d" % n, right=b"%d" % n)
        stop.set()
        assert all(reader.result(60) > 0 for reader in readers)


# Blobs


def test_blobs_arrive_in_the_transaction_that_names_them(store: LedgerStore) -> None:
    contents = [b"", b"manifest", bytes(range(256)) * 500]
    names = [name_of(content) for content in contents]
    store.commit(Transaction(expect={}, put={"head": b"1"}, blobs=dict(zip(names, contents, strict=True))))
    assert [store.blob(name) for name in names] == contents
    assert sorted(store.blob_digests()) == sorted(names)
    missing = name_of(b"never stored")
    assert store.blob(missing) is None
    assert store.has_blobs([*names, missing, "no digest"]) == set(names)
    asked = [names[2], missing, names[0], names[2]]
    assert list(store.read_blobs(asked)) == [
        (names[2], contents[2]),
        (missing, None),
        (names[0], b""),
        (names[2], contents[2]),
    ]


def test_a_forged_blob_is_refused_with_everything_around_it(store: LedgerStore) -> None:
    good = name_of(b"good")
    with pytest.raises(Corrupt) as refused:
        store.commit(Transaction(expect={}, put={"head": b""}, blobs={good: b"good", name_of(b"said"): b"sent"}))
    assert refused.value.code == "blob_digest"
    with pytest.raises(Corrupt):
        store.commit(Transaction(expect={}, put={}, blobs={good.upper(): b"good"}))
    assert store.get("head") is None
    assert list(store.blob_digests()) == []


def test_storing_a_blob_twice_is_the_same_as_once_and_dropping_it_is_too(store: LedgerStore) -> None:
    digest = name_of(b"x")
    for _ in range(2):
        store.commit(Transaction(expect={}, put={}, blobs={digest: b"x"}))
    assert list(store.read_blobs([digest])) == [(digest, b"x")]
    for _ in range(2):
        store.commit(Transaction(expect={}, put={}, drop_blobs=[digest]))
    assert store.has_blobs([digest]) == set()


# Watching


def test_a_watcher_sees_what_it_asked_for_in_order(store: LedgerStore) -> None:
    store.commit(Transaction(expect={}, put={"node/b": b"1", "node/a": b"1", "other": b"1"}))
    store.commit(Transaction(expect={}, put={"node/a": b"2"}, delete=["node/b", "other"]))
    first = [Change("node/a", b"1", 1), Change("node/b", b"1", 1)]
    second = [Change("node/a", b"2", 2), Change("node/b", None, 2)]
    assert store.watch("node/", after=0, timeout_s=0) == first + second
    assert store.watch("node/", after=1, timeout_s=0) == second
    assert store.watch("node/", after=2, timeout_s=0) == []
    assert store.watch("other", after=1, timeout_s=0) == [Change("other", None, 2)]


def test_a_waiting_watcher_is_woken_by_the_change_it_waits_for(store: LedgerStore) -> None:
    with ThreadPoolExecutor(1) as crew:
        seen = crew.submit(store.watch, "head", 0, 20.0)
        put(store, other=b"")
        put(store, head=b"1")
        assert seen.result(60) == [Change("head", b"1", 2)]


def test_watchers_miss_nothing_and_see_nothing_twice_while_many_write(store: LedgerStore) -> None:
    writers, each = 8, 25

    def write(name: int) -> None:
        for turn in range(each):
            put(store, **{f"w/{name}": b"%d" % turn, f"side/{name}": b""})

    def follow() -> list[Change]:
        seen: list[Change] = []
        while len(seen) < writers * each:
            news = store.watch("w/", after=seen[-1].revision if seen else 0, timeout_s=10)
            assert news
            seen.extend(news)
        return seen

    with ThreadPoolExecutor(writers + 3) as crew:
        followers = [crew.submit(follow) for _ in range(3)]
        list(crew.map(write, range(writers)))
        stories = [follower.result(60) for follower in followers]
    assert stories[0] == stories[1] == stories[2]
    assert [change.revision for change in stories[0]] == list(range(1, writers * each + 1))
    for name in range(writers):
        assert [c.value for c in stories[0] if c.key == f"w/{name}"] == [b"%d" % turn for turn in range(each)]


# Compaction


def test_compaction_forgets_history_and_keeps_what_is_current(store: LedgerStore) -> None:
    put(store, a=b"1", b=b"1")
    put(store, a=b"2")
    store.commit(Transaction(expect={}, put={}, delete=["b"]))
    store.compact(before=3)
    assert store.get("a") == Record("a", b"2", created=1, modified=2)
    assert store.watch("", after=2, timeout_s=0) == [Change("b", None, 3)]
    for after in (0, 1):
        with pytest.raises(Compacted):
            store.watch("", after=after, timeout_s=0)
    assert store.revision() == 3
    assert put(store, a=b"3") == 4


def test_compacting_everything_keeps_the_revision_rising(store: LedgerStore) -> None:
    put(store, a=b"1")
    store.commit(Transaction(expect={}, put={}, delete=["a"]))
    store.compact(before=3)
    assert store.revision() == 2
    assert store.watch("", after=2, timeout_s=0) == []
    with pytest.raises(Compacted):
        store.watch("", after=1, timeout_s=0)
    assert put(store, a=b"2") == 3
    assert store.watch("", after=2, timeout_s=0) == [Change("a", b"2", 3)]


def test_compacting_twice_or_less_far_changes_nothing_and_the_future_cannot_be_forgotten(store: LedgerStore) -> None:
    for n in range(5):
        put(store, a=b"%d" % n)
    store.compact(before=4)
    store.compact(before=4)
    store.compact(before=1)
    with pytest.raises(Compacted):
        store.watch("", after=2, timeout_s=0)
    assert [c.revision for c in store.watch("", after=3, timeout_s=0)] == [4, 5]
    with pytest.raises(Invalid):
        store.compact(before=7)


# Leases


def test_a_lease_is_held_by_one_holder_until_it_expires(store: LedgerStore, clock: VirtualClock) -> None:
    mine = store.grant("leader", "hub-a", ttl_s=30)
    assert store.lease("leader") == mine
    assert mine.expires_s == START_S + 30
    with pytest.raises(Held, match=f"hub-a.*{START_S + 30:.0f}") as refused:
        store.grant("leader", "hub-b", ttl_s=30)
    assert refused.value.lease == mine
    clock.advance(30)
    assert store.lease("leader") is None
    theirs = store.grant("leader", "hub-b", ttl_s=30)
    assert theirs.token > mine.token
    with pytest.raises(LeaseLost):
        store.renew(mine)
    store.release(mine)
    assert store.lease("leader") == theirs


def test_renewing_in_time_keeps_the_tenure(store: LedgerStore, clock: VirtualClock) -> None:
    lease = store.grant("leader", "hub-a", ttl_s=30)
    for _ in range(3):
        clock.advance(20)
        renewed = store.renew(lease)
        assert renewed.token == lease.token
        assert renewed.expires_s == clock.now_s() + 30
    clock.advance(30)
    with pytest.raises(LeaseLost):
        store.renew(lease)


def test_every_tenure_has_a_larger_token_even_of_the_same_holder(store: LedgerStore, clock: VirtualClock) -> None:
    first = store.grant("leader", "hub-a", ttl_s=30)
    restarted = store.grant("leader", "hub-a", ttl_s=30)
    with pytest.raises(LeaseLost):
        store.renew(first)
    store.release(restarted)
    assert store.lease("leader") is None
    third = store.grant("leader", "hub-b", ttl_s=30)
    assert first.token < restarted.token < third.token


def test_keys_of_a_lease_vanish_when_it_expires_and_watchers_see_it(store: LedgerStore, clock: VirtualClock) -> None:
    store.grant("online", "w1", ttl_s=30)
    store.commit(Transaction(expect={}, put={"online/w1": b"", "online/w1/port": b""}, lease="online"))
    put(store, stays=b"")
    clock.advance(30)
    assert [record.key for record in store.scan("")] == ["stays"]
    assert store.watch("", after=2, timeout_s=0) == [Change("online/w1", None, 3), Change("online/w1/port", None, 3)]
    assert store.commit(Transaction(expect={"online/w1": 0}, put={"online/w1": b"again"})) == 4


def test_a_writer_finds_expired_keys_gone_before_any_watcher_looked(store: LedgerStore, clock: VirtualClock) -> None:
    store.grant("online", "w1", ttl_s=30)
    store.commit(Transaction(expect={}, put={"online/w1": b""}, lease="online"))
    clock.advance(31)
    assert store.commit(Transaction(expect={"online/w1": 0}, put={"online/w1": b"new"})) == 3
    assert store.watch("", after=1, timeout_s=0) == [Change("online/w1", None, 2), Change("online/w1", b"new", 3)]


@pytest.mark.parametrize("end", ["release", "grant anew"])
def test_keys_of_a_lease_vanish_when_the_tenure_ends(store: LedgerStore, end: str) -> None:
    lease = store.grant("online", "w1", ttl_s=30)
    store.commit(Transaction(expect={}, put={"online/w1": b"", "kept": b""}, lease="online"))
    put(store, kept=b"put again without the lease")
    if end == "release":
        store.release(lease)
    else:
        store.grant("online", "w1", ttl_s=30)
    assert [record.key for record in store.scan("")] == ["kept"]
    assert store.watch("", after=2, timeout_s=0) == [Change("online/w1", None, 3)]


def test_nothing_can_be_put_under_a_lease_nobody_holds(store: LedgerStore, clock: VirtualClock) -> None:
    store.grant("online", "w1", ttl_s=30)
    clock.advance(30)
    with pytest.raises(LeaseLost):
        store.commit(Transaction(expect={}, put={"online/w1": b""}, lease="online"))
    assert store.get("online/w1") is None


# Any order of anything


class StoreMachine(RuleBasedStateMachine):
    """A store beside a dict: after every step both hold the same."""

    kind = "memory"
    keys = Bundle("keys")

    @initialize()
    def begin(self) -> None:
        self.folder = TemporaryDirectory()
        self.clock = VirtualClock(START_S)
        self.store = STORES[self.kind](self.folder.name, self.clock)
        self.model: dict[str, Record] = {}
        self.leased: dict[str, str] = {}
        self.expiry_s: dict[str, float] = {}
        self.changes: list[Change] = []
        self.blobs: dict[str, bytes] = {}
        self.revision = 0
        self.kept_after = 0
        self.last_token = 0

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    @rule(target=keys, key=st.text(st.sampled_from("ab/é"), min_size=1, max_size=3))
    def name_a_key(self, key: str) -> str:
        return key

    @rule(
        put=st.dictionaries(keys, st.binary(max_size=4), max_size=3),
        delete=st.lists(keys, max_size=2, unique=True),
        expect=st.dictionaries(keys, st.booleans(), max_size=2),
        blob=st.binary(max_size=2),
        drop=st.booleans(),
        lease=st.sampled_from(["", "", "l1", "l2"]),
    )
    def commit(
        self, put: dict[str, bytes], delete: list[str], expect: dict[str, bool], blob: bytes, drop: bool, lease: str
    ) -> None:
        self._end_expired()
        digest = name_of(blob)
        at = {key: self.model[key].modified if key in self.model else 0 for key in expect}
        tx = Transaction(
            expect={key: at[key] if honest else at[key] + 1 for key, honest in expect.items()},
            put=put,
            delete=[key for key in delete if key not in put],
            blobs={} if drop else {digest: blob},
            drop_blobs=[digest] if drop else [],
            lease=lease,
        )
        refused = not all(expect.values()) or bool(lease and lease not in self.expiry_s)
        try:
            revision = self.store.commit(tx)
        except HoldfastError as error:
            assert refused
            assert isinstance(error, (Moved, LeaseLost))
            return
        assert not refused
        self._apply(tx)
        assert revision == self.revision

    @rule(name=st.sampled_from(["l1", "l2"]), holder=st.sampled_from(["h1", "h2"]), ttl_s=st.integers(1, 9))
    def grant(self, name: str, holder: str, ttl_s: int) -> None:
        self._end_expired()
        try:
            lease = self.store.grant(name, holder, ttl_s)
        except Held as held:
            assert held.lease.holder != holder
            assert name in self.expiry_s
            return
        assert lease.token > self.last_token
        self.last_token = lease.token
        self._end_tenures([name])
        self.expiry_s[name] = self.clock.now_s() + ttl_s

    @rule(name=st.sampled_from(["l1", "l2"]))
    def release(self, name: str) -> None:
        self._end_expired()
        lease = self.store.lease(name)
        assert (lease is not None) == (name in self.expiry_s)
        if lease is not None:
            self.store.release(lease)
            self._end_tenures([name])

    @rule(seconds=st.integers(1, 5))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule(share=st.floats(0, 1))
    def compact(self, share: float) -> None:
        self._end_expired()
        self.store.watch("", after=self.revision, timeout_s=0)
        before = int(share * self.revision) + 1
        self.store.compact(before)
        self.kept_after = max(self.kept_after, before - 1)

    @invariant()
    def both_hold_the_same(self) -> None:
        self._end_expired()
        kept = [change for change in self.changes if change.revision > self.kept_after]
        assert self.store.watch("", after=self.kept_after, timeout_s=0) == kept
        with self.store.reading() as look:
            assert look.revision() == self.revision
            assert look.scan("") == [record for _, record in sorted(self.model.items())]
            assert dict(look.read_blobs(look.blob_digests())) == self.blobs
            for key in ("a", "é"):
                assert look.get(key) == self.model.get(key)

    def _apply(self, tx: Transaction) -> None:
        self.blobs.update(tx.blobs)
        for digest in tx.drop_blobs:
            self.blobs.pop(digest, None)
        gone = [key for key in tx.delete if key in self.model]
        if not tx.put and not gone:
            return
        self.revision += 1
        for key in sorted([*tx.put, *gone]):
            self.changes.append(Change(key, tx.put.get(key), self.revision))
            self.leased.pop(key, None)
            old = self.model.pop(key, None)
            if key in tx.put:
                self.model[key] = Record(key, tx.put[key], old.created if old else self.revision, self.revision)
                if tx.lease:
                    self.leased[key] = tx.lease

    def _end_expired(self) -> None:
        self._end_tenures([name for name, expiry_s in self.expiry_s.items() if expiry_s <= self.clock.now_s()])

    def _end_tenures(self, names: list[str]) -> None:
        gone = sorted(key for key, name in self.leased.items() if name in names)
        for name in names:
            self.expiry_s.pop(name, None)
        if gone:
            self.revision += 1
        for key in gone:
            del self.model[key], self.leased[key]
            self.changes.append(Change(key, None, self.revision))


class SqliteMachine(StoreMachine):
    kind = "sqlite"


TestAnyOrderInMemory = StoreMachine.TestCase
TestAnyOrderInMemory.settings = settings(max_examples=60, stateful_step_count=30, deadline=None, database=None)
TestAnyOrderInSqlite = SqliteMachine.TestCase
TestAnyOrderInSqlite.settings = settings(max_examples=25, stateful_step_count=25, deadline=None, database=None)
