"""A node on real files in front of a hub of paper, as a program: run by the crash tests, killed by strace.

`python -m tests.lab.agent_scene DIR` takes one signed purge of data.old, runs it, and prints its result. What it needs
is deterministic, so that the next run is the same node with the same order.
"""

import asyncio
import sys
from pathlib import Path

import msgspec

from holdfast.adapters.acceptance.sqlite import SqliteAcceptance
from holdfast.adapters.audit_log.file import FileAuditLog
from holdfast.adapters.certificate_store.memory import MemoryShelf
from holdfast.adapters.certificates.memory import MemoryCertificates
from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.handshake.memory import MemoryHandshake
from holdfast.adapters.journal.sqlite import SqliteJournal
from holdfast.adapters.machine.linux import LinuxMachine
from holdfast.adapters.name_server.memory import MemoryNameServer
from holdfast.adapters.notifier.memory import MemoryNotifiers
from holdfast.adapters.prober.network import NetworkProber
from holdfast.adapters.proxy.memory import MemoryProxy
from holdfast.adapters.public_authority.memory import MemoryPublicAuthority
from holdfast.adapters.resolver.memory import MemoryResolver
from holdfast.adapters.runtime.memory import MemoryRuntime
from holdfast.adapters.sealing.memory import MemoryOpener
from holdfast.adapters.secret_files.memory import MemorySecretFiles
from holdfast.adapters.sqlite.agent_file import AgentFile
from holdfast.adapters.storage.directory import DirectoryStorage
from holdfast.adapters.storage.memory import MemoryStorage
from holdfast.agent.agent import Agent
from holdfast.agent.membership import Membership
from holdfast.agent.services.secrets.delivery import Secrets
from holdfast.agent.traffic.certificates.node import NodeCertificates
from holdfast.model.invite import Enrolment, SignedInvite
from holdfast.model.order import Delivered, SignedOrder
from holdfast.wiring import keepers
from holdfast.wiring.agent_parts import Ports
from tests.fleets import backing_up, need_net
from tests.fleets.agents import PaperHub, turn
from tests.fleets.desks import key_of
from tests.fleets.lives import LifeRandom, life_of
from tests.scenarios.test_agent_orders import CANDIDATES, FLEET, id_of, order

DONE_S = 120.0  # it ends earlier, unless the machine is very busy


def the_order(folder: Path) -> SignedOrder:
    """The same in every run: kept in a file by the test before the first."""
    return msgspec.json.decode((folder / "order.json").read_bytes(), type=SignedOrder)


def prepare(folder: Path) -> None:
    (folder / "state").mkdir(parents=True, mode=0o700)
    old = folder / "srv" / "old" / "deep" / "er"
    old.mkdir(parents=True)
    for number in range(8):
        (old / f"f{number}").write_bytes(b"x")
    (folder / "srv" / "db").mkdir()
    (folder / "srv" / "db" / "keep").write_bytes(b"y")
    (folder / "order.json").write_bytes(msgspec.json.encode(order(at_s=SystemClock().now_s() - 5)))


def ports_of(folder: Path, hub: PaperHub) -> Ports:
    state, clock, disk = folder / "state", SystemClock(), PosixDisk()
    file = AgentFile(str(state / "agent.db"))
    acceptance, runtime = SqliteAcceptance(file), MemoryRuntime(clock)
    return Ports(
        link=hub,
        journal=SqliteJournal(file),
        acceptance=acceptance,
        storage=DirectoryStorage(str(folder / "srv"), "w1"),
        audit=FileAuditLog(str(state / "audit.jsonl"), str(state / "audit.head"), clock, disk),
        machine=LinuxMachine(str(folder / "srv")),
        key=key_of("w1"),
        clock=clock,
        random=LifeRandom(f"scene {SystemClock().now_s()}", life_of("w1")),
        runtime=runtime,
        proxy=MemoryProxy(clock),
        prober=NetworkProber(runtime.exec),
        secrets=Secrets(acceptance, MemoryOpener(key_of("w1").line), MemorySecretFiles()),
        issuer=MemoryCertificates(),
        shelf=MemoryShelf(),
        authority=MemoryPublicAuthority(clock.now_s),
        handshake=MemoryHandshake(clock),
        name_server=MemoryNameServer(),
        resolver=MemoryResolver(),
        notifier=MemoryNotifiers(),
        backups=backing_up.ports_of(MemoryStorage("w1"), key_of("w1").line),
        drills=backing_up.drills_of(),
        needs=need_net.alone(),
        data_dir=str(folder / "srv"),
        say=_say,
    )


def build(ports: Ports, hub: PaperHub) -> Agent:
    nobody = Enrolment(SignedInvite(b"", ()), b"", "", "")
    member = Membership(FLEET, "w1", ("worker",), "", "", hub.head, nobody, joined=True)
    return keepers.build(ports, member, NodeCertificates(ports.issuer, ports.clock)).agent


def _say(name: str, fields: dict[str, object]) -> None:
    sys.stderr.write(f"{name} {fields}\n")


async def main(folder: Path) -> int:
    hub = PaperHub(*CANDIDATES)
    hub.time_s = SystemClock().now_s
    wanted = the_order(folder)
    ports = ports_of(folder, hub)
    agent = build(ports, hub)
    agent.keepers.follow()  # as `run` does first
    agent.orders.recover()
    await agent.lanes.quiet(DONE_S)
    await turn(agent)
    hub.orders.append(Delivered(1, wanted))
    await turn(agent)
    results = [result for message in hub.said for result in message.results if result.id == id_of(wanted)]
    ports.audit.close()
    ports.journal.close()
    sys.stdout.write(msgspec.json.encode(results[-1:]).decode() + "\n")
    return 0 if results else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]))))
