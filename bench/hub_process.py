"""A `holdfast hub run` of our own: until it listens, what it holds while idle, and its end."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator

from bench.figures import Figure
from bench.place import HOLDFAST, Place, apply_args
from bench.stopwatch import lap

RSS_MB_MAX = 70
SETTLED_AFTER_S = 2.0


def start(state_dir: str) -> "subprocess.Popen[str]":
    """Answers when it listens."""
    args = [HOLDFAST, "hub", "run", "--state-dir", state_dir, "--listen", "127.0.0.1:0"]
    hub = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert hub.stderr is not None
    said = []
    for line in hub.stderr:
        said.append(line)
        if "serving on" in line:
            return hub
    raise SystemExit("the hub did not listen:\n" + "".join(said))


def stop(hub: "subprocess.Popen[str]") -> None:
    hub.send_signal(signal.SIGTERM)
    hub.communicate()


def seconds_to_listen(state_dir: str) -> float:
    start_s = time.perf_counter()
    hub = start(state_dir)
    took_s = time.perf_counter() - start_s
    stop(hub)
    return took_s


def memory_mb(pid: int) -> dict[str, float]:
    """Rss, Pss and the rest of smaps_rollup in megabytes."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return {row[0].rstrip(":"): int(row[1]) * 1024 / 1e6 for row in rows}


def measure(place: Place, services: int, settled_after_s: float = SETTLED_AFTER_S) -> Iterator[Figure]:
    fleet = place.fleet("served", services)
    place.forget(fleet)
    lap(apply_args(fleet), place.env)
    hub = start(os.path.join(fleet, ".ledger"))
    time.sleep(settled_after_s)
    held = memory_mb(hub.pid)
    stop(hub)
    note = f"PSS {held['Pss']:.0f} MB; {services:,} services"
    yield Figure("idle hub, RSS", "MB", held["Rss"], target=RSS_MB_MAX, note=note)
