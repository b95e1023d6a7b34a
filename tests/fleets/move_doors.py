"""Doors of nodes that take moves directly, each on a port of its own, in a loop of its own."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.move_lines.line import Line
from holdfast.adapters.move_lines.tls import TlsLines
from holdfast.adapters.tls.peer import PeerTls
from holdfast.model.move import Peer
from holdfast.ports.move_lines import Callers
from tests.fleets.ports import free_port
from tests.fleets.tls_peers import HOST, HubKey, named
from tests.fleets.waiting import wait_until

SOURCE, TARGET = named("node w1"), named("node w2")


@dataclass
class OpenDoor:
    port: int
    place: Path
    heard: list[tuple[str, str]] = field(default_factory=list)

    def line(self, caller: HubKey = SOURCE, expected: HubKey = TARGET) -> Line:
        lines = TlsLines(str(self.place / "caller"), lambda: PeerTls(caller.file, SystemClock()), self.port)
        return lines.to(Peer(expected.line, HOST))


@contextmanager
def open_door(place: Path, callers: Callers) -> Iterator[OpenDoor]:
    """Of TARGET; `place` is its directory."""
    port = free_port()
    made = OpenDoor(port, place)
    lines = TlsLines(str(place), lambda: PeerTls(TARGET.file, SystemClock()), port)
    loop = asyncio.new_event_loop()
    serving = loop.create_task(lines.serve(HOST, callers, lambda verb, key: made.heard.append((verb, key))))

    def live() -> None:
        loop.run_until_complete(asyncio.wait([serving]))
        loop.close()

    thread = threading.Thread(target=live)
    thread.start()
    try:
        wait_until(lambda: is_listening(port), "the door is open")
        yield made
    finally:
        loop.call_soon_threadsafe(serving.cancel)
        thread.join()


def is_listening(port: int) -> bool:
    """Without a call."""
    with open("/proc/net/tcp") as file:
        rows = [line.split() for line in file][1:]
    return any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)
