"""One HTTP/1.1 request and its answer over a socket, limited in bytes and in time. Follows no redirect.

Not http.client: that imports the whole email package (ADR 0011), and its time-out starts again with every byte, so
that a slow hub could hold a command for hours.
"""

from __future__ import annotations

import re
import select
import socket
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from holdfast.adapters.hub_link.http import hub_tls

HEAD_BYTES_MAX = 32 * 1024
PIECE_BYTES = 256 * 1024
INTERIM_MAX = 8
SWITCHED = 101
CONNECT_S = 5.0  # a machine that is on accepts or refuses at once
FRESH_S = 1.0  # no hub closes a connection so soon after an answer, unless it ends

_STATUS = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: [^\r\n]*)?")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\x00]*?)[ \t]*")


class Garbled(Exception):
    """The answer is not HTTP, or is longer than allowed."""


class NotReached(OSError):
    """There is no connection, so the request did not arrive either."""


class Answer(Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes


class Line:
    """A connected socket that gives up at `deadline_s` (monotonic), whatever it is doing."""

    def __init__(self, sock: socket.socket, peer: str = "") -> None:
        self.peer = peer  # public line of the key that the other side has proven to hold
        self._sock = sock
        self._deadline_s = 0.0
        self._read = bytearray()
        self._heard_s = -FRESH_S
        self.reusable = True

    def ask(self, request: bytes, bytes_max: int, deadline_s: float) -> Answer:
        self.send(request, deadline_s)
        return self.receive(bytes_max, deadline_s)

    def send(self, request: bytes, deadline_s: float) -> None:
        """One request, or several: their answers come in the same order."""
        self._deadline_s = deadline_s
        self.reusable = False  # until this exchange is known to be complete
        self._patience()
        with suppress(ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
            self._sock.sendall(request)  # refused before all of it was sent: the reason may be waiting to be read

    def receive(self, bytes_max: int, deadline_s: float, is_last: bool = True) -> Answer:
        self._deadline_s = deadline_s
        for _ in range(INTERIM_MAX):
            status, headers = self._head()
            if status >= 200:
                body = self._body(headers, bytes_max)
                stays = headers.get("connection", "").lower() != "close"
                self.reusable = stays and not (is_last and self._read)
                self._heard_s = time.monotonic()
                return Answer(status, headers, body)
        raise Garbled("nothing but interim answers")

    def is_fresh(self) -> bool:
        """An answer came a moment ago, and nothing since, also no end of the connection."""
        if time.monotonic() - self._heard_s > FRESH_S:
            return False
        waiting = select.poll()
        waiting.register(self._sock, select.POLLIN)
        return not waiting.poll(0)

    def switch(self, request: bytes, bytes_max: int, deadline_s: float) -> Answer | None:
        """None: the hub has switched, and what follows on `taken` is no HTTP. Else its answer why not."""
        self._deadline_s = deadline_s
        self.reusable = False
        self._patience()
        self._sock.sendall(request)
        for _ in range(INTERIM_MAX):
            status, headers = self._head()
            if status == SWITCHED:
                return None
            if status >= 200:
                return Answer(status, headers, self._body(headers, bytes_max))
        raise Garbled("nothing but interim answers")

    def taken(self) -> tuple[socket.socket, bytes]:
        """The socket, and what came already."""
        return self._sock, bytes(self._read)

    def close(self) -> None:
        self._sock.close()

    # ---- parsing

    def _head(self) -> tuple[int, dict[str, str]]:
        lines = self._until(b"\r\n\r\n", HEAD_BYTES_MAX).split(b"\r\n")
        status = _STATUS.fullmatch(lines[0])
        fields = [_FIELD.fullmatch(line) for line in lines[1:]]
        if status is None or None in fields:
            raise Garbled("that is not HTTP")
        said = [(m[1].decode("ascii").lower(), m[2].decode("latin-1")) for m in fields if m is not None]
        if sum(name in ("content-length", "transfer-encoding") for name, _ in said) > 1:
            raise Garbled("the answer has its length twice")
        return int(status[1]), dict(said)

    def _body(self, headers: dict[str, str], bytes_max: int) -> bytes:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._chunks(bytes_max)
        length = headers.get("content-length", "")
        if not length.isascii() or not length.isdigit() or len(length) > 15:
            raise Garbled("the answer has no length")
        if int(length) > bytes_max:
            raise Garbled(f"the answer is longer than {bytes_max:,} bytes")
        return self._exactly(int(length))

    def _chunks(self, bytes_max: int) -> bytes:
        body = bytearray()
        while True:
            size = self._until(b"\r\n", 256).partition(b";")[0].strip()
            if not re.fullmatch(rb"[0-9a-fA-F]{1,8}", size):
                raise Garbled("a chunk has no length")
            if len(body) + int(size, 16) > bytes_max:
                raise Garbled(f"the answer is longer than {bytes_max:,} bytes")
            body += self._exactly(int(size, 16))
            if self._until(b"\r\n", 256):
                raise Garbled("a chunk has another length than declared")
            if int(size, 16) == 0:
                return bytes(body)

    # ---- reading

    def _until(self, end: bytes, bytes_max: int) -> bytes:
        while (at := self._read.find(end)) < 0:
            if len(self._read) > bytes_max:
                raise Garbled("the head of the answer does not end")
            self._more()
        found = bytes(self._read[:at])
        del self._read[: at + len(end)]
        return found

    def _exactly(self, size_bytes: int) -> bytes:
        while len(self._read) < size_bytes:
            self._more()
        found = bytes(self._read[:size_bytes])
        del self._read[:size_bytes]
        return found

    def _more(self) -> None:
        self._patience()
        try:
            piece = self._sock.recv(PIECE_BYTES)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            piece = b""
        if not piece:
            raise ConnectionResetError("the hub closed the connection before its answer was complete")
        self._read += piece

    def _patience(self) -> None:
        self._sock.settimeout(_left_s(self._deadline_s))


def connect(host: str, port: int, hub_key: str, deadline_s: float, now_s: float) -> Line:
    """TLS 1.3 to a peer that has proven to be the hub; no byte of ours was sent before that."""
    sock = _dialled(host, port, deadline_s)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(_left_s(deadline_s))
        secured, peer = hub_tls.secured(sock, host, hub_key, now_s)
        return Line(secured, peer)
    except BaseException:
        sock.close()
        raise


def _dialled(host: str, port: int, deadline_s: float) -> socket.socket:
    """The first address of this name that answers, all of them within the one deadline."""
    trouble = NotReached("the name has no address")
    try:
        places = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)  # text would load IDNA tables
    except OSError as failed:
        raise NotReached(failed.strerror or str(failed)) from failed
    for family, _, _, _, place in places:
        try:
            return _connected(family, place, min(CONNECT_S, _left_s(deadline_s)))
        except TimeoutError:
            trouble = NotReached(
                f"nothing answers at {place[0]} port {port} within {CONNECT_S:g} s; the machine is off, or a firewall "
                "drops what is sent to it"
            )
        except OSError as failed:
            trouble = NotReached(failed.strerror or str(failed))
    raise trouble


def _connected(family: int, place: tuple[Any, ...], timeout_s: float) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout_s)
        sock.connect(place)
        return sock
    except BaseException:
        sock.close()
        raise


def _left_s(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("it took too long")
    return left_s


def request(method: str, target: str, authority: str, headers: Mapping[str, str], body: bytes | None = None) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {authority}", "Accept: application/json", "User-Agent: holdfast"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + (body or b"")
