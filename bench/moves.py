"""The first pass of a move beside `tar | zstd | socat` over TLS, in turns (issue 16); `python -m bench.moves`.

Three ways: directly to the door of another node, which is another process; through a real hub; and the peer, with the
same certificates on both sides. "Sent" ends when the other side has everything, "moved" when it is unpacked there and
on the disk: that is the transfer which has a target. Both sides are on one machine, so that they share its processors.
"""

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from bench import archive_tree, herd
from bench.archive_tree import Size
from bench.archives import Laps
from bench.figures import Figure, table
from bench.place import Place
from holdfast.adapters.archive.process import ProcessArchiver
from holdfast.adapters.backup_target.hub import HubTarget
from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.fleet_link.signed_requests import SignedRequests
from holdfast.adapters.http_server.loop import new_loop
from holdfast.adapters.identity_key import file as key_file
from holdfast.adapters.move_lines.spool import Files, Spool
from holdfast.adapters.move_lines.tls import TlsLines
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.adapters.sealing.identities import AgeIdentities
from holdfast.adapters.tls.peer import PeerTls
from holdfast.agent.backups.store import Store
from holdfast.model.archive import Header, Purpose
from holdfast.model.backup_key import of_node
from holdfast.model.move import Peer
from holdfast.ports.archive import Packed, PackJob, UnpackJob
from holdfast.ports.backup_target import BackupTarget

MOVED_MIN = 0.8  # of the peer's speed
HOST, EPOCH = "127.0.0.1", 2
FLEET = "f" * 64
NAME = "bench.invalid"
STARTED_S = 30.0

T = TypeVar("T")


@dataclass(frozen=True)
class Effort:
    size: Size
    rounds: int


FULL = Effort(archive_tree.FULL, 5)
QUICK = Effort(archive_tree.QUICK, 3)
SMALLEST = Effort(archive_tree.SMALLEST, 1)


@dataclass(frozen=True)
class Way:
    """`source` and `target` open what the two nodes have; `clear` deletes what the target has."""

    name: str
    source: Callable[[], BackupTarget]
    target: Callable[[], BackupTarget]
    clear: Callable[[], None]
    fleet: str = FLEET
    service: str = "bench"


class Moving:
    """One tree, packed anew each time."""

    def __init__(self, folder: str, tree: str) -> None:
        self._folder, self._tree = folder, tree
        self._pair = AgeIdentities().fresh()
        self._archiver = ProcessArchiver()

    def send(self, way: Way) -> Packed:
        shutil.rmtree(self._home("out"), ignore_errors=True)
        job = PackJob(
            top=self._tree, home=self._home("out"), recipient=self._pair.recipient, vacuum=False, tidy=False,
            header=Header(purpose=Purpose(way.fleet, way.service, EPOCH), node="w1", sequence=1, method="move"),
            part_bytes=65_536, urgent=True,
        )  # fmt: skip

        async def work(store: Store) -> Packed:
            async def ship(digest: str, content: bytes) -> None:
                await store.put_pack(way.service, EPOCH, digest, content)

            packed = await self._archiver.pack(job, ship, lambda progress: None)
            await store.put_manifest(way.service, EPOCH, packed.manifest)
            return packed

        return _run(way.source, way.fleet, work)

    def unpack(self, way: Way, packed: Packed, top: str) -> None:
        job = UnpackJob(
            manifest=packed.manifest, digest=packed.digest, identity=self._pair.identity, urgent=True, keep=True,
            purpose=Purpose(way.fleet, way.service, EPOCH), home=self._home("in"), top=top,
        )  # fmt: skip

        async def work(store: Store) -> None:
            async def fetch(digest: str) -> bytes:
                return await store.pack(way.service, EPOCH, digest)

            await self._archiver.unpack(job, fetch, lambda progress: None)

        _run(way.target, way.fleet, work)
        shutil.rmtree(self._home("in"))

    def _home(self, name: str) -> str:
        return os.path.join(self._folder, name)


def _run(open_target: Callable[[], BackupTarget], fleet: str, work: Callable[[Store], Awaitable[T]]) -> T:
    async def live() -> T:
        target = open_target()
        try:
            return await work(Store(target, fleet))
        finally:
            await target.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(live())


# ---- the two ways


@contextmanager
def directly(folder: str) -> Iterator[Way]:
    """To a door in a process of its own."""
    source, content = key_file.made(SystemRandom())
    target, private = key_file.made(SystemRandom())
    place, port = os.path.join(folder, "moves"), herd._free_port()
    for name, key in (("source.key", content), ("target.key", private)):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(key)
    command = [sys.executable, "-m", "bench.moves", "--door", folder, "--port", str(port), "--caller", source.line]
    door = subprocess.Popen(command)
    try:
        _wait_for(port, door)
        lines = TlsLines(os.path.join(folder, "none"), lambda: PeerTls(content, SystemClock()), port)
        yield Way(
            "directly",
            lambda: lines.to(Peer(target.line, HOST)),
            lambda: Spool(Files(place)),
            lambda: shutil.rmtree(place, ignore_errors=True),
        )
    finally:
        door.terminate()
        door.wait()


def serve(folder: str, port: int, caller: str) -> None:
    """The process of the other node."""
    with open(os.path.join(folder, "target.key"), "rb") as file:
        own = PeerTls(file.read(), SystemClock())
        lines = TlsLines(os.path.join(folder, "moves"), lambda: own, port)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        services = {"bench": EPOCH}
        runner.run(lines.serve(HOST, lambda key: services if key == caller else {}, lambda verb, key: None))


@contextmanager
def through_a_hub(folder: str) -> Iterator[Way]:
    """Its store of backups takes objects as its mailbox of moves does; those of a node itself need no service."""
    os.mkdir(folder)
    hub = herd.Hub(Place(folder), 1)
    key = herd.node_key(0)

    def opened() -> HubTarget:
        requests = SignedRequests(hub.url, hub.key, key, lambda: hub.fleet, SystemClock(), SystemRandom())
        return HubTarget(requests, "")

    try:
        yield Way(
            "through a hub",
            opened,
            opened,
            lambda: shutil.rmtree(os.path.join(hub.state, "backups"), ignore_errors=True),
            hub.fleet,
            of_node("n0"),
        )
    finally:
        hub.stop()


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    until_s = time.monotonic() + STARTED_S
    while not herd._listens(port):
        if process.poll() is not None or time.monotonic() > until_s:
            raise SystemExit("the other side did not listen")
        time.sleep(0.02)


# ---- the peer


class Socat:
    """Both sides show a certificate and verify that of the other."""

    def __init__(self, folder: str, tree: str) -> None:
        self._tree, self._pem = tree, os.path.join(folder, "peer.pem")
        key, certificate = os.path.join(folder, "peer.key"), os.path.join(folder, "peer.crt")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
             "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}", "-keyout", key, "-out", certificate],
            check=True, capture_output=True,
        )  # fmt: skip
        with open(self._pem, "wb") as file:
            for part in (key, certificate):
                with open(part, "rb") as one:
                    file.write(one.read())
        self._tls = f"cert={self._pem},cafile={certificate},verify=1"

    def send(self, then: str) -> None:
        """`then`: what the other side does with the stream."""
        port = herd._free_port()
        listen = f"socat -u -b 131072 OPENSSL-LISTEN:{port},bind={HOST},reuseaddr,{self._tls} - | {then}"
        other = subprocess.Popen(["bash", "-o", "pipefail", "-c", listen])
        while not _is_listening(port):
            time.sleep(0.002)
        call = f"socat -u -b 131072 - OPENSSL:{HOST}:{port},commonname={NAME},{self._tls}"
        command = f"tar c -C {self._tree} . | zstd -3 -T0 -q | {call}"
        subprocess.run(["bash", "-o", "pipefail", "-c", command], check=True)
        if other.wait():
            raise SystemExit("the other side of socat failed")


def _is_listening(port: int) -> bool:
    """Without a call: socat takes one only."""
    with open("/proc/net/tcp", encoding="ascii") as file:
        rows = [line.split() for line in file][1:]
    return any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)


# ---- measuring


def measure(folder: str, effort: Effort) -> Iterator[Figure]:
    tree, laps = os.path.join(folder, "tree"), Laps()
    os.mkdir(tree)
    archive_tree.make(tree, effort.size)
    socat, ours = Socat(folder, tree), Moving(folder, tree)
    size = 0
    with directly(folder) as line, through_a_hub(os.path.join(folder, "hub")) as hub:
        for _ in range(effort.rounds):
            _peer(folder, socat, laps)
            for way in (line, hub):
                size = _ours(folder, ours, way, laps)
    yield from _figures(laps, size / 2**20)


def _peer(folder: str, socat: Socat, laps: Laps) -> None:
    stored, top = os.path.join(folder, "stored"), os.path.join(folder, "restored")
    os.sync()
    laps.take("socat sent", lambda: socat.send(f"cat > {stored}"))
    os.unlink(stored)
    os.mkdir(top)
    os.sync()
    laps.take("socat moved", lambda: socat.send(f"zstd -dcq | tar x -C {top} && sync -f {top}"))
    shutil.rmtree(top)


def _ours(folder: str, ours: Moving, way: Way, laps: Laps) -> int:
    top, packed = os.path.join(folder, "restored"), []
    os.mkdir(top)
    os.sync()
    laps.take(f"sent {way.name}", lambda: packed.append(ours.send(way)))
    laps.take(f"unpacked {way.name}", lambda: ours.unpack(way, packed[0], top))
    subprocess.run(["diff", "-rq", "--no-dereference", os.path.join(folder, "tree"), top], check=True)
    shutil.rmtree(top)
    way.clear()
    return int(packed[0].size_bytes)


def _figures(laps: Laps, whole: float) -> Iterator[Figure]:
    def moved(way: str) -> float:
        return laps.median(f"sent {way}") + laps.median(f"unpacked {way}")

    peer_sent, peer_moved = whole / laps.median("socat sent"), whole / laps.median("socat moved")
    for way in ("directly", "through a hub"):
        sent, note = whole / laps.median(f"sent {way}"), "sealed, digested, flushed : not"
        yield Figure(f"sent {way} : tar, zstd -3 -T0, socat", "MiB/s", sent, peer_sent, None, True, note)
        target, note = MOVED_MIN if way == "directly" else None, "compared and flushed : flushed"
        name = f"moved {way} : the same, zstd -d, tar x"
        yield Figure(name, "MiB/s", whole / moved(way), peer_moved, target, True, note)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--door", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--caller", help=argparse.SUPPRESS)
    args = parser.parse_args(words)
    if args.door:
        serve(args.door, args.port, args.caller)
        return 0
    effort = QUICK if args.quick else FULL
    with tempfile.TemporaryDirectory(prefix="holdfast-moves-", dir="/var/tmp") as folder:
        found = list(measure(folder, replace(effort, rounds=args.rounds or effort.rounds)))
    print(table(found))
    print(f"load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    return int(any(figure.verdict == "MISSED" for figure in found))


if __name__ == "__main__":
    sys.exit(main())
