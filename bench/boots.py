"""How fast a hub reads and checks what was applied, beside sha256sum over the same contents. Prints one JSON line.

The contents are policies, because a policy may have any size. Everything is read once before it is measured.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable

from bench.hub_process import seconds_to_listen
from bench.ledgers import LEDGER_FILE, Operated, high_water
from holdfast.adapters.ledger_store.sqlite.store import SqliteStore
from holdfast.hub.ledger.boot import boot
from holdfast.model.fleet import Policy


def contents(count: int, size_bytes: int) -> dict[str, bytes]:
    chance = random.Random(count)
    return {f"p{number}": chance.randbytes(size_bytes) for number in range(count)}


def write_ledger(folder: str, texts: dict[str, bytes]) -> None:
    ledger = Operated(folder)
    ledger.mailbox.commit(ledger.signed({}, {name: Policy(name, text, ("fleet",)) for name, text in texts.items()}))
    ledger.close()


def write_files(folder: str, texts: dict[str, bytes]) -> None:
    os.mkdir(folder)
    for name, text in texts.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(text)


def boot_once(folder: str) -> None:
    """Open, check everything, close: all that stands between a start and the first answer."""
    store = SqliteStore.open_read_only(os.path.join(folder, LEDGER_FILE))
    booted = boot(store, high_water(folder), strict=True)
    assert booted.loaded.applied is not None
    store.close()


def sum_once(folder: str) -> None:
    names = sorted(os.listdir(folder))
    subprocess.run(["sha256sum", "--", *names], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def medians_s(rounds: int, *works: Callable[[], None]) -> list[float]:
    taken: list[list[float]] = [[] for _ in works]
    for number in range(rounds + 1):
        for seconds, work in zip(taken, works, strict=True):
            start_s = time.perf_counter()
            work()
            if number:  # the first round only warms
                seconds.append(time.perf_counter() - start_s)
    return [statistics.median(seconds) for seconds in taken]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blobs", type=int, default=10_000)
    parser.add_argument("--size", type=int, default=1024, help="bytes of each")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", help="where to write; default is TMPDIR")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        texts = contents(args.blobs, args.size)
        ledger, files = os.path.join(folder, "ledger"), os.path.join(folder, "files")
        write_ledger(ledger, texts)
        write_files(files, texts)
        del texts
        ours_s, sums_s = medians_s(args.rounds, lambda: boot_once(ledger), lambda: sum_once(files))
        hub_s = statistics.median(seconds_to_listen(ledger) for _ in range(args.rounds))
    mib = args.blobs * args.size / 2**20
    print(json.dumps({"mib": mib, "boot_s": ours_s, "sha256sum_s": sums_s, "hub_run_s": hub_s}))


if __name__ == "__main__":
    main()
