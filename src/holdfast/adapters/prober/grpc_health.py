"""One `grpc.health.v1.Health/Check` request and its response as bytes. Pure; knows no socket.

Implements only the part of HTTP/2 that one small request needs. The response headers are not read: a status arrives
only as a message, and an error or an unknown service sends no message.
"""

from collections.abc import Mapping

from msgspec import Struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PATH = b"/grpc.health.v1.Health/Check"
STREAM = 1
FRAME_MAX = 16_384  # the HTTP/2 default; we never allow more
ANSWER_MAX = 65_536

_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY = 0, 1, 3, 4, 6, 7
_END_STREAM = _ACK = 0x1
_END_HEADERS, _PADDED = 0x4, 0x8
_NO_PUSH = b"\x00\x02\x00\x00\x00\x00"
_WHOLE_SERVER = b"\x00\x00\x00\x00\x00"  # an empty, uncompressed message: the service with the empty name

SERVING = 1
WORDS: Mapping[int, str] = {0: "UNKNOWN", SERVING: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
NOT_HTTP2 = "it does not speak HTTP/2 without TLS, which gRPC requires"
NO_STATUS = "it returned no health status; check that it serves grpc.health.v1.Health"


class Said(Struct, frozen=True):
    """`status` is None if there was none; `why` then has the reason. `body`: the whole message."""

    status: int | None
    why: str = ""
    body: bytes = b""


def request(authority: str, path: bytes = PATH) -> bytes:
    """A call with an empty message."""
    headers = (
        b"\x83\x86"  # :method POST, :scheme http: entries 3 and 6 of the static HPACK table
        + b"\x04" + _text(path)
        + b"\x01" + _text(authority.encode())
        + b"\x0f\x10" + _text(b"application/grpc")  # content-type is entry 31
        + b"\x00" + _text(b"te") + _text(b"trailers")
    )  # fmt: skip
    return (
        PREFACE
        + _frame(_SETTINGS, 0, 0, _NO_PUSH)
        + _frame(_HEADERS, _END_HEADERS, STREAM, headers)
        + _frame(_DATA, _END_STREAM, STREAM, _WHOLE_SERVER)
    )


def _text(value: bytes) -> bytes:
    assert len(value) < 127
    return bytes([len(value)]) + value


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


class Answer:
    """Takes bytes as they arrive. `said` is set once the result is known; `reply` is what must be sent meanwhile.
    `nothing`: what it means that no message came."""

    def __init__(self, nothing: str = NO_STATUS) -> None:
        self._nothing = nothing
        self._bytes = bytearray()
        self._message = bytearray()
        self._taken = 0
        self.said: Said | None = None
        self.reply = b""

    def take(self, content: bytes) -> None:
        self._taken += len(content)
        self._bytes += content
        self.reply = b""
        while self.said is None and len(self._bytes) >= 9:
            length = int.from_bytes(self._bytes[:3], "big")
            if length > FRAME_MAX or self._taken > ANSWER_MAX:
                self.said = Said(None, NOT_HTTP2)
                return
            if len(self._bytes) < 9 + length:
                return
            kind, flags, stream = self._bytes[3], self._bytes[4], int.from_bytes(self._bytes[5:9], "big")
            payload = bytes(self._bytes[9 : 9 + length])
            del self._bytes[: 9 + length]
            self._frame(kind, flags, stream, payload)

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _SETTINGS and not flags & _ACK:
            self.reply += _frame(_SETTINGS, _ACK, 0)
        elif kind == _PING and not flags & _ACK:
            self.reply += _frame(_PING, _ACK, 0, payload)
        elif kind == _GOAWAY:
            self.said = Said(None, "it closed the connection before it answered")
        elif stream == STREAM and kind == _RESET:
            self.said = Said(None, f"it reset the request (HTTP/2 error {int.from_bytes(payload, 'big')})")
        elif stream == STREAM and kind == _DATA:
            self._data(payload[1 : len(payload) - payload[0]] if flags & _PADDED and payload else payload)
        if self.said is None and stream == STREAM and kind in (_DATA, _HEADERS) and flags & _END_STREAM:
            self.said = Said(None, self._nothing)

    def _data(self, payload: bytes) -> None:
        self._message += payload
        length = int.from_bytes(self._message[1:5], "big")
        if len(self._message) < 5 or len(self._message) < 5 + length:
            return
        body = self._message[5 : 5 + length]
        if self._message[0]:  # compressed, although we offered no compression
            self.said = Said(None, self._nothing)
        else:
            status = body[1] if len(body) == 2 and body[0] == 8 else 0  # field 1; if absent: UNKNOWN
            self.said = Said(status, body=bytes(body))
