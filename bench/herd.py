"""A thousand agents at one real hub: the agents' own client, in one process, beside a hub in another (R13).

`python -m bench.herd --agents 1000 --seconds 300` prints one JSON document: latencies of check-ins that are answered at
once, errors, the hub's memory and processor time, and how long a restarted hub takes until everybody is healthy again.
"""

import argparse
import asyncio
import gc
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random

import msgspec

from bench.hub_process import memory_mb
from bench.place import HOLDFAST, Place
from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.fleet_link.http import HttpFleetLink
from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.errors import HoldfastError
from holdfast.model.checkin import CheckIn
from holdfast.model.report import PULSE_NAMESPACE, Facts, Pulse, SignedPulse
from holdfast.model.revision import Head
from holdfast.trust import own_signature

BEAT_S = 9.5
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def node_key(number: int) -> MemoryIdentityKey:
    return MemoryIdentityKey(sha256(f"herd {number}".encode()).digest())


@dataclass
class Tally:
    took_s: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    answered: dict[int, float] = field(default_factory=dict)  # node → time of its last answer


class Hub:
    def __init__(self, place: Place, agents: int) -> None:
        self.place = place
        self.state = place.path("state")
        self.fleet_dir = place.path("fleet")
        self._run("init", self.fleet_dir, "--yes", "--key", place.key, fleet=False)
        trust = json.loads(self._run("validate", "--json"))["trust"]
        made = json.loads(self._run("hub", "init", "--trust", trust, "--state-dir", self.state, "--json"))
        self.key: str = made["hub_key"]
        self.port = _free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self._declare(agents)
        self.process = self.start()
        self._run("apply", "--yes", "--detach", "--hub", self.url)
        self.fleet = trust

    def _run(self, *args: str, fleet: bool = True) -> str:
        where = ["--fleet", self.fleet_dir] if fleet else []
        done = subprocess.run(
            [HOLDFAST, *args, *where], env=dict(self.place.env), check=False, text=True, capture_output=True
        )
        if done.returncode:
            raise SystemExit(f"holdfast {' '.join(args)}: {done.stderr}")
        return done.stdout

    def _declare(self, agents: int) -> None:
        path = os.path.join(self.fleet_dir, "fleet.toml")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        text = text.replace("[fleet]\n", f'[fleet]\nhub = "{self.url}"\nhub_key = "{self.key}"\nnodes_max = 5000\n', 1)
        text += "".join(
            f'\n[[nodes]]\nname = "n{n}"\nroles = ["worker"]\nkey = "{node_key(n).line}"\n' for n in range(agents)
        )
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def start(self) -> "subprocess.Popen[bytes]":
        args = [HOLDFAST, "hub", "run", "--state-dir", self.state, "--listen", f"127.0.0.1:{self.port}"]
        process = subprocess.Popen(args, env=dict(self.place.env), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until_s = time.monotonic() + 30
        while not _listens(self.port):
            if process.poll() is not None or time.monotonic() > until_s:
                raise SystemExit("the hub did not listen")
            time.sleep(0.05)
        return process

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        self.process.wait(30)

    def cpu_s(self) -> float:
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def head(self) -> Head:
        shown = json.loads(self._run("status", "--json", "--hub", self.url))["serving"]
        return Head(shown["number"], shown["digest"])

    def status_s(self) -> float:
        start_s = time.perf_counter()
        self._run("node", "list", "--json", "--hub", self.url)
        return time.perf_counter() - start_s


def _listens(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])


async def live(
    number: int, hub: Hub, seen: Head, every_s: float, until_s: float, tally: Tally, hold_s: float = 0.0
) -> None:
    """One agent as the hub sees it: a check-in every `every_s`; back-off as the real one's.

    A check-in is a heartbeat at most every BEAT_S: the hub refuses a node that sends more.

    With `hold_s` the hub holds every check-in so long, as it does for idle agents, and only what it took beyond counts.
    """
    jitter = Random(number)
    key, clock, random = node_key(number), SystemClock(), SystemRandom()
    link = HttpFleetLink(hub.url, hub.key, key, lambda: hub.fleet, clock, random)
    pause_s, sequence = 1.0, time.time_ns() // 1_000_000  # greater than that of any run before: the hub remembers
    await asyncio.sleep(jitter.random() * every_s)
    loop = asyncio.get_running_loop()
    beat_due_s = 0.0
    try:
        while loop.time() < until_s:
            start_s, sequence = loop.time(), sequence + 1
            beat = start_s >= beat_due_s
            beat_due_s = start_s + BEAT_S if beat else beat_due_s
            pulse = Pulse(hub.fleet, f"n{number}", sequence, clock.now_s(), seen, facts=Facts(2000, 1 << 33, 1 << 32))
            body = msgspec.json.encode(pulse)
            signed = SignedPulse(body, own_signature.armoured(key, body, PULSE_NAMESPACE))
            message = CheckIn(f"n{number}", seen, heartbeat=beat, pulse=signed, wait_s=hold_s, clock_s=clock.now_s())
            try:
                await link.check_in(message)
            except HoldfastError as trouble:
                tally.errors.append(f"{trouble.code}: {trouble.message}")
                await asyncio.sleep(pause_s * (0.5 + jitter.random() / 2))
                pause_s = min(pause_s * 2, 60.0)
                continue
            pause_s = 1.0
            now_s = loop.time()
            tally.took_s.append(now_s - start_s - hold_s)
            tally.answered[number] = now_s
            await asyncio.sleep(max(0.0, start_s + every_s - now_s))
    finally:
        await link.close()


async def steady(hub: Hub, agents: int, seconds: float, every_s: float, seen: Head, hold_s: float) -> dict[str, float]:
    loop, tally = asyncio.get_running_loop(), Tally()
    warm_s = loop.time() + 2 * every_s
    until_s = warm_s + seconds
    tasks = [asyncio.create_task(live(n, hub, seen, every_s, until_s, tally, hold_s)) for n in range(agents)]
    await asyncio.sleep(warm_s - loop.time())
    first_s = sorted(tally.took_s)
    tally.took_s.clear()
    cpu_s, start_s = hub.cpu_s(), loop.time()
    await asyncio.gather(*tasks)
    core = (hub.cpu_s() - cpu_s) / (loop.time() - start_s)
    parts = [tally.took_s[at : at + 2 * agents] for at in range(0, len(tally.took_s), 2 * agents)]
    took_s = sorted(tally.took_s)
    return {
        **{f"p99_ms of part {number}": 1000 * _at(sorted(part), 0.99) for number, part in enumerate(parts)},
        "check_ins": len(took_s),
        "errors": len(tally.errors),
        "p50_ms": 1000 * _at(took_s, 0.5),
        "p99_ms": 1000 * _at(took_s, 0.99),
        "max_ms": 1000 * took_s[-1],
        "first_p99_ms": 1000 * _at(first_s, 0.99),
        "hub_rss_mb": memory_mb(hub.process.pid)["Rss"],
        "hub_core": core,
        **{f"error: {text[:120]}": tally.errors.count(text) for text in sorted(set(tally.errors))[:5]},
    }


async def herd(hub: Hub, agents: int, every_s: float, seen: Head, down_s: float) -> dict[str, float]:
    """Kill the hub, start it again: when has everybody been answered?"""
    loop, tally = asyncio.get_running_loop(), Tally()
    until_s = loop.time() + 120.0
    tasks = [asyncio.create_task(live(n, hub, seen, every_s, until_s, tally)) for n in range(agents)]
    while len(tally.answered) < agents and loop.time() < until_s:
        await asyncio.sleep(0.2)
    hub.stop(signal.SIGKILL)
    await asyncio.sleep(down_s)
    hub.process = hub.start()
    back_s = loop.time()
    while sum(at_s > back_s for at_s in tally.answered.values()) < agents and loop.time() < until_s:
        await asyncio.sleep(0.1)
    healthy = sum(at_s > back_s for at_s in tally.answered.values())
    took_s = loop.time() - back_s
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {"herd_answered": healthy, "herd_s": took_s}


def _at(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--every", type=float, default=10.0)
    parser.add_argument("--hold", type=float, default=0.0, help="seconds the hub may hold each check-in")
    parser.add_argument("--down", type=float, default=3.0, help="seconds between the hub's end and its next start")
    parser.add_argument("--no-herd", action="store_true")
    args = parser.parse_args()
    gc.disable()  # whoever measures does not pause
    with tempfile.TemporaryDirectory(prefix="holdfast-herd-") as folder:
        hub = Hub(Place(folder), args.agents)
        try:
            seen = hub.head()
            found = asyncio.run(steady(hub, args.agents, args.seconds, args.every, seen, args.hold))
            found["node_list_s"] = hub.status_s()
            if not args.no_herd:
                found |= asyncio.run(herd(hub, args.agents, args.every, seen, args.down))
        finally:
            hub.stop(signal.SIGKILL)
    print(json.dumps({"agents": args.agents, "load": os.getloadavg()[0], **found}, indent=2))


if __name__ == "__main__":
    main()
