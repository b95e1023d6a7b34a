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

from holdfast.adapters.ledger_store.memory import MemoryStore
from holdfast.adapters.ledger_store.sqlite.store import SqliteStore
from holdfast.errors import Conflict, Corrupt, Invalid
from holdfast.ports.ledger_store import LedgerStore, Moved, Record, Transaction

STORES: dict[str, Callable[[str], LedgerStore]] = {
    "memory": lambda _folder: MemoryStore(),
    "sqlite": lambda folder: SqliteStore.open(f"{folder}/ledger/ledger.db", create=True),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LedgerStore]:
    store = STORES[request.param](str(tmp_path))
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


# Any order of anything


class StoreMachine(RuleBasedStateMachine):
    """A store beside a dict: after every step both hold the same."""

    kind = "memory"
    keys = Bundle("keys")

    @initialize()
    def begin(self) -> None:
        self.folder = TemporaryDirectory()
        self.store = STORES[self.kind](self.folder.name)
        self.model: dict[str, Record] = {}
        self.blobs: dict[str, bytes] = {}
        self.revision = 0

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
    )
    def commit(
        self, put: dict[str, bytes], delete: list[str], expect: dict[str, bool], blob: bytes, drop: bool
    ) -> None:
        digest = name_of(blob)
        at = {key: self.model[key].modified if key in self.model else 0 for key in expect}
        tx = Transaction(
            expect={key: at[key] if honest else at[key] + 1 for key, honest in expect.items()},
            put=put,
            delete=[key for key in delete if key not in put],
            blobs={} if drop else {digest: blob},
            drop_blobs=[digest] if drop else [],
        )
        refused = not all(expect.values())
        try:
            revision = self.store.commit(tx)
        except Moved:
            assert refused
            return
        assert not refused
        self._apply(tx)
        assert revision == self.revision

    @invariant()
    def both_hold_the_same(self) -> None:
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
        for key in [*tx.put, *gone]:
            old = self.model.pop(key, None)
            if key in tx.put:
                self.model[key] = Record(key, tx.put[key], old.created if old else self.revision, self.revision)


class SqliteMachine(StoreMachine):
    kind = "sqlite"


TestAnyOrderInMemory = StoreMachine.TestCase
TestAnyOrderInMemory.settings = settings(max_examples=60, stateful_step_count=30, deadline=None, database=None)
TestAnyOrderInSqlite = SqliteMachine.TestCase
TestAnyOrderInSqlite.settings = settings(max_examples=25, stateful_step_count=25, deadline=None, database=None)
