"""What a commit of one changed address costs beside one bare SQLite FULL commit. Prints one JSON line."""

import argparse
import json
import os
import statistics
import tempfile
import time

import apsw

from bench.ledgers import Operated, service, timed_us

SERVICES = 10


class Bare:
    """Two small rows, one FULL commit into a WAL, nothing around it."""

    def __init__(self, path: str) -> None:
        self._db = apsw.Connection(path)
        self._db.pragma("journal_mode", "wal")
        self._db.pragma("synchronous", "full")
        self._db.execute("CREATE TABLE kept (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID")

    def commit(self, number: int) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        for key in ("head", f"revision/{number}"):
            self._db.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", (key, b"x" * 200))
        self._db.execute("COMMIT")


def medians_us(folder: str, rounds: int) -> tuple[float, float]:
    ours, bare = Operated(os.path.join(folder, "ours")), Bare(os.path.join(folder, "bare.db"))
    services = {f"svc-{n}": service(f"svc-{n}", "info") for n in range(SERVICES)}
    ours.mailbox.commit(ours.signed(services, {}))
    ours_us: list[float] = []
    bare_us: list[float] = []
    for number in range(rounds):
        name = f"svc-{number % SERVICES}"
        services[name] = service(name, f"level-{number}")
        candidate = ours.signed(services, {})
        start_s = time.perf_counter()
        ours.mailbox.commit(candidate)
        ours_us.append(timed_us(start_s))
        start_s = time.perf_counter()
        bare.commit(number)
        bare_us.append(timed_us(start_s))
    ours.close()
    return statistics.median(ours_us), statistics.median(bare_us)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--dir", help="where to write; default is TMPDIR")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        ours_us, bare_us = medians_us(folder, args.rounds)
    print(json.dumps({"ours_us": ours_us, "bare_us": bare_us}))


if __name__ == "__main__":
    main()
