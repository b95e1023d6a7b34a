"""A hub served over real sockets in a thread of this process, and raw requests to it."""

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from msgspec import Struct

from holdfast.hub.daemon import Daemon
from holdfast.ports.hub_link import HubLink


@contextmanager
def served(hub: HubLink) -> Iterator[int]:
    """The port of a daemon that serves this hub; it has drained and ended when the block is left."""
    daemon = Daemon(hub, "127.0.0.1", 0, say=lambda line: None)
    ports: list[int] = []
    ready = threading.Event()
    trouble: list[BaseException] = []

    def hear(port: int) -> None:
        ports.append(port)
        ready.set()

    def live() -> None:
        try:
            daemon.run(hear)
        except BaseException as raised:
            trouble.append(raised)
        finally:
            ready.set()

    thread = threading.Thread(target=live, name="hub")
    thread.start()
    assert ready.wait(20)
    try:
        assert ports, trouble
        yield ports[0]
    finally:
        daemon.stop()
        thread.join(20)
    assert not thread.is_alive()
    assert not trouble, trouble


class Reply(Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


CLOSED = Reply(0, {}, b"")  # the hub hung up without a word


def connected(port: int, timeout_s: float = 10.0) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout_s)


def raw(port: int, sent: bytes, timeout_s: float = 10.0) -> Reply:
    """Send exactly these bytes and read one answer."""
    with connected(port, timeout_s) as line:
        with suppress(ConnectionError):  # refused early; the reason is still there to be read
            line.sendall(sent)
        return reply(line)


def reply(line: socket.socket) -> Reply:
    read = b""
    try:
        while b"\r\n\r\n" not in read:
            piece = line.recv(65536)
            if not piece:
                return CLOSED
            read += piece
        head, _, body = read.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): text.strip() for name, _, text in (line.partition(":") for line in lines[1:])}
        while len(body) < int(headers.get("content-length", "0")) and (piece := line.recv(65536)):
            body += piece
    except ConnectionError:
        return CLOSED
    found = re.match(r"HTTP/1\.[01] (\d{3})", lines[0])
    assert found, lines[0]
    return Reply(int(found[1]), headers, body)


def get(port: int, target: str) -> Reply:
    return raw(port, f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())


def post(port: int, target: str, body: bytes, headers: str = "") -> Reply:
    fields = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{headers}"
    head = f"POST {target} HTTP/1.1\r\n{fields}\r\n"
    return raw(port, head.encode() + body)
