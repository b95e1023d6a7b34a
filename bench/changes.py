"""`holdfast deploy` of one changed service at a real hub over HTTPS: from the start of the command to the commit.

Two nodes have checked in; none runs, so each deploy is detached. The commit is the moment that the hub's audit log
names; the end of the command comes after it, with fleet.lock written and the status of the hub asked for.
"""

import asyncio
import json
import os
import time

from bench import herd
from bench.place import HOLDFAST, Place
from bench.stopwatch import Lap, lap

NODES, CHECK_INS_S = 2, 0.3
_SERVICE = """\
node = "n0"

[[components]]
name = "web"
image = "registry.example.com/team/{name}@sha256:{digest}"
env = {{ LOG_LEVEL = "info", VERSION = "{version}" }}
"""


class Changes:
    """A fleet of so many services, all applied; `deploy` changes one of them."""

    def __init__(self, place: Place, services: int) -> None:
        self._place = place
        self.hub = herd.Hub(place, NODES)
        self._version = 0
        try:
            for number in range(services):
                self._write(number)
            self._holdfast("apply", "--yes", "--detach")
            asyncio.run(herd.steady(self.hub, NODES, CHECK_INS_S, CHECK_INS_S, self.hub.head(), 0.0))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        self.hub.stop()

    def deploy(self) -> tuple[Lap, float]:
        """The whole command, and the seconds until the commit."""
        self._version += 1
        self._write(0)
        began_s = time.time()
        whole = self._holdfast("deploy", "svc-000", "--yes", "--detach")
        return whole, self._committed_s() - began_s

    def _holdfast(self, *words: str) -> Lap:
        return lap([HOLDFAST, *words, "--fleet", self.hub.fleet_dir], self._place.env)

    def _committed_s(self) -> float:
        with open(os.path.join(self.hub.state, "audit.jsonl"), "rb") as file:
            entries = [json.loads(line) for line in file.read().splitlines()[-20:]]
        return next(float(one["at_ms"]) / 1000 for one in reversed(entries) if one["event"].get("action") == "commit")

    def _write(self, number: int) -> None:
        name = f"svc-{number:03}"
        path = os.path.join(self.hub.fleet_dir, "services", f"{name}.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(_SERVICE.format(name=name, digest=f"{number:064x}", version=self._version if not number else 0))
