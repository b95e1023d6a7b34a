"""How much our commit costs beside SQLite's own. Prints one JSON line; writes only into a temporary directory."""

import argparse
import json
import os
import statistics
import tempfile
import threading
import time

import apsw

from holdfast.adapters.ledger_store.sqlite.store import SqliteStore
from holdfast.ports.ledger_store import Transaction

VALUE = b"x" * 200
KEYS = 50


class Bare:
    """The least that keeps a value and its history: one statement pair, one FULL commit, no Python around it."""

    def __init__(self, path: str) -> None:
        self._db = apsw.Connection(path)
        self._db.pragma("journal_mode", "wal")
        self._db.pragma("synchronous", "full")
        self._db.execute("CREATE TABLE live (key TEXT PRIMARY KEY, modified INTEGER) WITHOUT ROWID")
        self._db.execute("CREATE TABLE changes (revision INTEGER PRIMARY KEY, key TEXT, value BLOB)")

    def commit(self, n: int) -> None:
        key = f"node/{n % KEYS}"
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute("INSERT INTO changes VALUES (?, ?, ?)", (n + 1, key, VALUE))
        self._db.execute("INSERT OR REPLACE INTO live VALUES (?, ?)", (key, n + 1))
        self._db.execute("COMMIT")


class Ours:
    def __init__(self, path: str) -> None:
        self.store = SqliteStore.open(path, create=True)
        self._modified = dict.fromkeys((f"node/{n}" for n in range(KEYS)), 0)

    def commit(self, n: int) -> None:
        key = f"node/{n % KEYS}"
        tx = Transaction(expect={key: self._modified[key]}, put={key: VALUE})
        self._modified[key] = self.store.commit(tx)


def lone_commits(folder: str, rounds: int) -> tuple[float, float]:
    """Medians in µs. The two take turns, so that a slow moment of the disk meets both."""
    bare, ours = Bare(os.path.join(folder, "bare.db")), Ours(os.path.join(folder, "lone", "ledger.db"))
    bare_us: list[float] = []
    ours_us: list[float] = []
    for n in range(rounds):
        for took_us, commit in ((bare_us, bare.commit), (ours_us, ours.commit)):
            start = time.perf_counter()
            commit(n)
            took_us.append((time.perf_counter() - start) * 1e6)
    ours.store.close()
    return statistics.median(bare_us), statistics.median(ours_us)


def group_commits(folder: str, threads: int, each: int) -> float:
    store = SqliteStore.open(os.path.join(folder, "group", "ledger.db"), create=True)

    def write(name: int) -> None:
        revision = 0
        for _ in range(each):
            revision = store.commit(Transaction(expect={f"node/{name}": revision}, put={f"node/{name}": VALUE}))

    crew = [threading.Thread(target=write, args=(name,)) for name in range(threads)]
    start = time.perf_counter()
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    took_s = time.perf_counter() - start
    store.close()
    return threads * each / took_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--dir", help="where to write; default is TMPDIR")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        bare_us, ours_us = lone_commits(folder, args.rounds)
        per_s = group_commits(folder, threads=64, each=max(1, args.rounds // 10))
    figures = {
        "bare_commit_us": round(bare_us),
        "lone_commit_us": round(ours_us),
        "ratio": round(ours_us / bare_us, 2),
        "group_64_tx_per_s": round(per_s),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
