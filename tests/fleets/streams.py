"""Nodes with real certificates, orders that open streams, and a hub in between that is honest or not."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from holdfast.adapters.certificates.files import X509Certificates
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.signer.memory import MemorySigner
from holdfast.adapters.stream_link import command
from holdfast.adapters.stream_link import http as over_http
from holdfast.model.certificate import Issued
from holdfast.model.fleet import Settings
from holdfast.model.order import NAMESPACE, SignedOrder
from holdfast.model.stream import LogsWanted
from holdfast.ports.stream_link import Channel, Pinned, Talk
from holdfast.trust import certificates as rules
from holdfast.trust import orders
from holdfast.wire import stream as wire
from tests.fleets.build import ALICE_SIGNER
from tests.fleets.desks import key_of
from tests.fleets.lives import pulse_of

SETTINGS = Settings("small")
_counters = iter(range(1, 1_000_000))


class Certified:
    """A node's issuer and what it shows, in files."""

    def __init__(self, folder: Path, node: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.certificates = X509Certificates(str(folder), PosixDisk())
        self.node = node
        name = rules.listener_name(node, ("worker",), SETTINGS)
        issuer = self.certificates.issuer(node, rules.constraints(node, ("worker",), SETTINGS), time.time())
        self.pinned = Pinned(node, issuer, name)
        self.shown: Issued = self.certificates.serving((name,), time.time())


def logs_order(
    fleet: str, node: str, wanted: LogsWanted, service: str = "web", by: MemorySigner = ALICE_SIGNER
) -> tuple[SignedOrder, str]:
    """Signed, and its id."""
    counter = next(_counters)
    id, nonce = (sha256(f"{word} {counter} {time.time()}".encode()).hexdigest()[:32] for word in ("id", "nonce"))
    now_s = time.time()
    content, spoken = orders.draft(
        fleet,
        node,
        f"service.{service}",
        "logs",
        wire.arguments(wanted),
        counter,
        nonce,
        id,
        now_s,
        now_s + 120,
        pulse_of(fleet, node, key_of(node), now_s),
    )
    return SignedOrder(content, spoken, (by.sign(content, NAMESPACE),)), id


Bend = Callable[[bytes], bytes]


def honest(piece: bytes) -> bytes:
    return piece


class Relayed:
    """The two ends of one pipe, in the hands of whoever runs the hub. What goes through is recorded."""

    def __init__(self, up: Bend = honest, down: Bend = honest) -> None:
        self.node, self._node_side = socket.socketpair()
        self.caller, self._caller_side = socket.socketpair()
        self.up, self.down = bytearray(), bytearray()  # towards the node, towards the caller
        for source, sink, bend, kept in (
            (self._caller_side, self._node_side, up, self.up),
            (self._node_side, self._caller_side, down, self.down),
        ):
            threading.Thread(target=_pump, args=(source, sink, bend, kept), daemon=True).start()

    def close(self) -> None:
        for sock in (self.node, self.caller, self._node_side, self._caller_side):
            sock.close()


def _pump(source: socket.socket, sink: socket.socket, bend: Bend, kept: bytearray) -> None:
    with suppress(OSError):
        while piece := source.recv(65536):
            kept += piece
            sink.sendall(bend(piece))
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def relayed(count: int = 1, up: Bend = honest, down: Bend = honest) -> Iterator[Sequence[Relayed]]:
    found = [Relayed(up, down) for _ in range(count)]
    try:
        yield found
    finally:
        for one in found:
            one.close()


async def node_end(sock: socket.socket, shown: Issued, caller: bytes) -> Channel:
    reader, writer = await asyncio.open_connection(sock=sock)
    return await over_http.sealed(over_http.Pipe(reader, writer), shown, caller)


def caller_end(sock: socket.socket, key: object, pinned: Pinned) -> Talk:
    return command.sealed(sock, b"", key, pinned)  # type: ignore[arg-type]
