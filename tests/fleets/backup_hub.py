"""A hub with a store of backups as a process of its own, which tests measure and kill; and the nodes that use it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from holdfast.adapters.backup_target.hub import HubTarget
from holdfast.adapters.backup_target.store_directory import StoreDirectory
from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.fleet_link.signed_requests import SignedRequests
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.hub.backups.store import BackupStore
from holdfast.model.backup_key import BackupKey
from holdfast.model.principal import Principal
from tests.fleets.build import commit, mailbox, small_fleet
from tests.fleets.serving import Served, key_of, served

NODES = ("w1", "w2", "w3", "w4")
SERVICES = ("web", "api", "mail", "blog")
ROOT = Path(__file__).parents[2]


def any_receipt(key: BackupKey, content: bytes | bytearray, node: Principal) -> None:
    """The rule of a store whose test is about something else."""


def target_of(url: str, hub_key: str, fleet_id: str, node: str) -> HubTarget:
    requests = SignedRequests(url, hub_key, key_of(node), lambda: fleet_id, SystemClock(), SystemRandom())
    return HubTarget(requests, "hub")


@contextmanager
def hub_of_four(place: Path) -> Iterator[Served]:
    """Four nodes with a service each."""
    mail = mailbox()
    commit(mail, small_fleet(dict.fromkeys(SERVICES, 1), NODES))
    store = BackupStore(StoreDirectory(str(place)), any_receipt)
    with served(mail, backups=store) as hub:
        for node in NODES:
            hub.joined(node)
        yield hub


def homes(hub: Served) -> dict[str, str]:
    """Service → its node."""
    applied = hub.parts.hub.applied()
    assert applied is not None
    return {name: str(entry.node) for name, entry in applied.table.of_kind("service").items()}


class HubProcess(Struct, frozen=True):
    pid: int
    url: str
    hub_key: str
    fleet_id: str
    homes: dict[str, str]

    def target(self, service: str) -> HubTarget:
        return target_of(self.url, self.hub_key, self.fleet_id, self.homes[service])

    def most_memory_mib(self) -> float:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


@contextmanager
def hub_process(place: Path) -> Iterator[HubProcess]:
    words = [sys.executable, "-m", "tests.fleets.backup_hub", str(place)]
    env = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    process = subprocess.Popen(words, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        yield HubProcess(process.pid, **said)
    finally:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    with hub_of_four(Path(sys.argv[1])) as one:
        said = {"url": one.url, "hub_key": one.hub_key, "fleet_id": one.fleet_id, "homes": homes(one)}
        print(json.dumps(said), flush=True)
        sys.stdin.read()
