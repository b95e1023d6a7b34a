"""wrk at a public name, as fast as it goes or held back to a rate, and what it counted: everybody's word, not ours."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.fleets.load import END_S_MAX, counted_by_wrk

UNITS_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}


@dataclass(frozen=True)
class Run:
    asked: int
    failed: int
    rate: float
    p50_ms: float
    p99_ms: float


class Wrk:
    """It has its own table of hosts in a mount namespace of its own: it finds names in no other way."""

    def __init__(self, folder: str, address: str, hostname: str, connections: int = 32) -> None:
        self._folder, self._address, self._hostname = folder, address, hostname
        self._connections = connections
        os.makedirs(folder, exist_ok=True)

    def run(self, seconds: int, port: int = 443) -> Run:
        """As fast as it goes."""
        done = subprocess.run(
            self._words(f"{seconds}s", port, ""), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=seconds + END_S_MAX,
        )  # fmt: skip
        return _counted(done.stdout)

    @contextmanager
    def at_work(self, rate: float, found: list[Run]) -> Iterator[None]:
        """At this rate while the body lasts; then its count is the last of `found`."""
        pause_ms = max(1, round(1000 * self._connections / rate))
        script = os.path.join(self._folder, "pause.lua")
        with open(script, "w", encoding="ascii") as file:  # of different lengths, so that they do not ask all at once
            file.write(f"function delay() return math.random(0, {2 * pause_ms}) end\n")
        process = subprocess.Popen(
            self._words("3600s", 443, script), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)  # ends it with its count
            try:
                said = process.communicate(timeout=END_S_MAX)[0]
            except subprocess.TimeoutExpired:
                process.kill()
                said = process.communicate()[0]
        found.append(_counted(said))

    def _words(self, duration: str, port: int, script: str) -> list[str]:
        hosts = os.path.join(self._folder, "hosts")
        with open(hosts, "w", encoding="ascii") as file:
            file.write(f"127.0.0.1 localhost\n{self._address} {self._hostname}\n")
        words = f"--threads 1 --connections {self._connections} --duration {duration} --timeout 10s --latency"
        shell = f'mount --bind "$1" /etc/hosts && exec wrk {words} ${{3:+--script "$3"}} "$2"'
        return ["unshare", "--mount", "sh", "-c", shell, "sh", hosts, f"https://{self._hostname}:{port}/", script]


def _counted(said: str) -> Run:
    tally = counted_by_wrk(said)
    found = {share: float(n) * UNITS_MS[unit] for share, n, unit in re.findall(r"(50|99)%\s+([\d.]+)(us|ms|s|m)", said)}
    return Run(tally.asked, sum(tally.failed.values()), tally.rate, found.get("50", 0.0), found.get("99", 0.0))
