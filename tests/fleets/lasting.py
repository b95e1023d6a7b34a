"""Conversations over one connection each that is never dialled again: HTTP/1.1, HTTP/2 and WebSocket, frame by frame.

A client from a library would quietly replace a connection that was cut; these would not, so that every cut is seen.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import Protocol

from tests.fleets.load import trusting

PATIENCE_S = 60.0
HEADERS, SETTINGS, PING, GOAWAY = 1, 4, 6, 7
END_STREAM, ACK = 1, 1


class Lasting(Protocol):
    name: str

    def ask(self) -> None:
        """One question and its answer; raises if there is none."""
        ...

    def close(self) -> None: ...


def dialled(address: str, host: str, authorities: Path, protocol: str, port: int = 443) -> ssl.SSLSocket:
    """Verified, as any client does."""
    context = trusting(authorities)
    context.set_alpn_protocols([protocol])
    link = context.wrap_socket(socket.create_connection((address, port), timeout=PATIENCE_S), server_hostname=host)
    assert link.selected_alpn_protocol() == protocol
    return link


class KeptAlive:
    """HTTP/1.1: request after request."""

    def __init__(self, address: str, host: str, authorities: Path) -> None:
        self.name = f"HTTP/1.1 with {host}"
        self._host = host
        self._link = dialled(address, host, authorities, "http/1.1")

    def ask(self) -> None:
        self._link.sendall(f"GET / HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode())
        reply = HTTPResponse(self._link)
        reply.begin()
        reply.read()
        assert reply.status == 200 and not reply.will_close, (reply.status, reply.headers.items())

    def close(self) -> None:
        self._link.close()


class Multiplexed:
    """HTTP/2: a stream after the other. A server that wants to be rid of us says GOAWAY first, and that counts."""

    def __init__(self, address: str, host: str, authorities: Path) -> None:
        self.name = f"HTTP/2 with {host}"
        # GET, /, https as entries of HPACK's static table; the host as a literal that nobody has to remember.
        self._request = b"\x82\x84\x87\x01" + bytes([len(host)]) + host.encode()
        self._link = dialled(address, host, authorities, "h2")
        self._file = self._link.makefile("rb")
        self._stream = -1
        self._link.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        self._send(SETTINGS, 0, 0, b"")

    def ask(self) -> None:
        self._stream += 2
        self._send(HEADERS, 0x4 | END_STREAM, self._stream, self._request)
        while True:
            kind, flags, stream, content = self._frame()
            assert kind != GOAWAY, content
            if kind in (SETTINGS, PING) and not flags & ACK:
                self._send(kind, ACK, 0, content if kind == PING else b"")
            if kind == HEADERS and stream == self._stream:
                assert content[:1] == b"\x88", content  # :status 200
            if stream == self._stream and flags & END_STREAM:
                return

    def _send(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        head = len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
        self._link.sendall(head + content)

    def _frame(self) -> tuple[int, int, int, bytes]:
        head = self._file.read(9)
        assert len(head) == 9, "the connection was cut"
        return head[3], head[4], int.from_bytes(head[5:], "big"), self._file.read(int.from_bytes(head[:3], "big"))

    def close(self) -> None:
        self._file.close()
        self._link.close()


class Echoed:
    """WebSocket: what is said comes back."""

    def __init__(self, address: str, host: str, authorities: Path) -> None:
        self.name = f"WebSocket with {host}"
        self._link = dialled(address, host, authorities, "http/1.1")
        self._file = self._link.makefile("rb")
        head = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
        key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
        lines = (f"GET /ws HTTP/1.1\r\nHost: {host}", *head, key, "", "")
        self._link.sendall("\r\n".join(lines).encode())
        said = self._file.readline()
        assert b" 101 " in said, said
        while self._file.readline().strip():
            pass
        self._count = 0

    def ask(self) -> None:
        self._count += 1
        text = f"word {self._count}".encode()
        self._link.sendall(b"\x81" + bytes([0x80 | len(text)]) + bytes(4) + text)  # one frame, masked by nothing
        assert self._file.read(2 + len(text)) == b"\x81" + bytes([len(text)]) + text

    def close(self) -> None:
        self._file.close()
        self._link.close()


class Conversations:
    """All of them go on all the time, beside the test; `cut` says who could not, and why."""

    def __init__(self, lasting: Sequence[Lasting], pause_s: float = 0.05) -> None:
        self.cut: dict[str, str] = {}
        self.asked = 0
        self._lasting, self._pause_s = list(lasting), pause_s
        self._over = threading.Event()
        self._told = threading.Condition()

    @contextmanager
    def at_work(self) -> Iterator[Conversations]:
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join(2 * PATIENCE_S)
            for one in self._lasting:
                one.close()

    def await_rounds(self, more: int) -> None:
        wanted = self.asked + more
        with self._told:
            assert self._told.wait_for(lambda: self.asked >= wanted, 2 * PATIENCE_S), "the conversations are stuck"

    def _run(self) -> None:
        while not self._over.wait(self._pause_s):
            for one in self._lasting:
                if one.name not in self.cut:
                    self._ask(one)
            with self._told:
                self.asked += 1
                self._told.notify_all()

    def _ask(self, one: Lasting) -> None:
        try:
            one.ask()
        except Exception as trouble:  # whatever it is, this conversation is over
            self.cut[one.name] = f"{type(trouble).__name__}: {trouble} (round {self.asked})"
