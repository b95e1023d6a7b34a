"""Ledgers to measure with: a mailbox over an SQLite file, and revisions signed by a key made on the spot."""

import os
import subprocess
import time

from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.high_water.file import FileHighWater
from holdfast.adapters.ledger_store.sqlite.store import SqliteStore
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.adapters.signer.keyfile import KeyfileSigner
from holdfast.hub.ledger import reading
from holdfast.hub.ledger.revisions import Revisions
from holdfast.model import ssh_key
from holdfast.model.fleet import (
    Backups,
    Component,
    Fleet,
    Health,
    Node,
    Operator,
    Policy,
    Route,
    Service,
    Settings,
    Thresholds,
    Timeouts,
)
from holdfast.model.revision import NAMESPACE, Candidate
from holdfast.planning.plan import plan

LEDGER_FILE, HIGH_WATER_FILE = "ledger.db", "high-water"


class Operated:
    """A ledger in a folder, with the one operator who may change it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        os.mkdir(folder)
        key = os.path.join(folder, "key")
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        self._signer = KeyfileSigner(key, lambda _: "")
        self._store = SqliteStore.open(os.path.join(folder, LEDGER_FILE), create=True)
        self.mailbox = Revisions(
            self._store, SystemClock(), SystemRandom(), high_water(folder), reading.load(self._store)
        )

    def signed(self, services: dict[str, Service], policies: dict[str, Policy]) -> Candidate:
        """The revision that makes the fleet exactly this."""
        operator = Operator("operator", ssh_key.line(self._signer.public_key), "root")
        fleet = Fleet(
            Settings("bench", public_domains=("example.com",)), Thresholds(), (operator,), Backups(), Timeouts(),
            {"w1": Node("w1", ("worker",)), "e1": Node("e1", ("edge",))}, services, {}, policies,
        )  # fmt: skip
        candidate = plan(fleet, self.mailbox.applied()).candidate
        assert candidate is not None
        signature = self._signer.sign(candidate.header, NAMESPACE)
        return Candidate(candidate.header, candidate.table, candidate.blobs, (signature,))

    def close(self) -> None:
        self._store.close()


def high_water(folder: str) -> FileHighWater:
    return FileHighWater(os.path.join(folder, HIGH_WATER_FILE), PosixDisk())


def service(name: str, level: str) -> Service:
    """The service of fleets.py as a value."""
    component = Component(
        "web",
        f"registry.example.com/team/{name}@sha256:" + "0" * 64,
        env={"LOG_LEVEL": level, "DATABASE_URL": f"postgres://db.svc.example.com/{name}"},
        routes=(Route("http", 8080, hostname=f"{name}.example.com", public=True),),
        health=Health("http", path="/health", port=8080),
    )
    return Service((component,))


def timed_us(start_s: float) -> float:
    return (time.perf_counter() - start_s) * 1e6
