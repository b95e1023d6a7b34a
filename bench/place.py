"""A scratch place to measure in: its own home, operator key and environment. Removed by whoever made it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

from bench.fleets import write_fleet

HOLDFAST = os.path.join(os.path.dirname(sys.executable), "holdfast")
NODES = 100


class Place:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.home = self.path("home")
        self.key = self.path("key")
        os.mkdir(self.home)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bench", "-f", self.key], check=True)
        with open(self.key + ".pub", encoding="utf-8") as file:
            self.key_line = file.read().strip()
        quiet = {"TF_CLI_CONFIG_FILE": os.devnull, "CHECKPOINT_DISABLE": "1", "HOLDFAST_KEY": self.key}
        inherited = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        self.env: Mapping[str, str] = {**inherited, "HOME": self.home, **quiet}

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def fleet(self, name: str, services: int, nodes: int = NODES) -> str:
        write_fleet(self.path(name), self.key_line, services, nodes)
        return self.path(name)

    def forget(self, fleet: str) -> None:
        """As if this fleet had never been applied: no ledger, no lock, nothing remembered at home."""
        shutil.rmtree(os.path.join(fleet, ".ledger"), ignore_errors=True)
        shutil.rmtree(os.path.join(self.home, ".local"), ignore_errors=True)
        if os.path.exists(os.path.join(fleet, "fleet.lock")):
            os.unlink(os.path.join(fleet, "fleet.lock"))


def plan_args(fleet: str) -> list[str]:
    return [HOLDFAST, "plan", "--fleet", fleet]


def apply_args(fleet: str) -> list[str]:
    return [HOLDFAST, "apply", "--yes", "--fleet", fleet]
