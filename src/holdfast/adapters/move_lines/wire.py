"""Messages on a line between two nodes: a length, a head in JSON, and the bytes of an object after it. Blocking.

Every message has a time limit over all of it, and every length is bounded before anything is read.
"""

import socket
import time
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from holdfast.errors import HoldfastError, Invalid
from holdfast.model.backup_key import OBJECT_BYTES_MAX
from holdfast.ports.backup_target import StoredObject, TargetState
from holdfast.wire import faults

HEAD_BYTES_MAX = 1 << 20
KEYS_MAX = 2_000  # in one question
PAGE_OBJECTS = 4_000
STALL_S = 20.0  # without a single byte

T = TypeVar("T", bound=Struct)


class Ask(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`size_bytes` bytes follow. `key`: of the object; of `list`, the prefix, and `after` the last key before."""

    verb: Literal["put", "get", "has", "list", "delete", "look"]
    key: str = ""
    keys: tuple[str, ...] = ()
    after: str = ""
    size_bytes: int = 0


class Answer(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`size_bytes` bytes follow, if there `is` such an object."""

    fault: faults.Fault | None = None
    exit_code: int = 0
    status: int = 0
    is_there: bool = True
    keys: tuple[str, ...] = ()
    objects: tuple[StoredObject, ...] = ()
    more: bool = False
    look: TargetState | None = None
    size_bytes: int = 0


class Wire:
    """One connection. `socket` is replaced by the one inside TLS."""

    def __init__(self, line: socket.socket) -> None:
        self.socket = line
        self._until_s = 0.0
        self._buffer = bytearray()

    def within(self, limit_s: float) -> None:
        """From now on, until the next call."""
        self._until_s = time.monotonic() + limit_s
        self.socket.settimeout(min(STALL_S, limit_s))

    def close(self) -> None:
        self.socket.close()

    def send(self, head: Struct, content: bytes | memoryview = b"") -> None:
        text = msgspec.json.encode(head)
        self.write(len(text).to_bytes(4, "big") + text)
        if content:
            self.write(content)

    def receive(self, kind: type[T]) -> T:
        """EOFError: the other side has closed the line."""
        length = int.from_bytes(self.read(4), "big")
        if length > HEAD_BYTES_MAX:
            raise _malformed(f"a head of {length:,} bytes")
        try:
            return msgspec.json.decode(self.read(length), type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
            raise _malformed(str(trouble)) from None

    def content(self, size: int) -> memoryview:
        """Valid until the next call."""
        if not 0 <= size <= OBJECT_BYTES_MAX:
            raise _malformed(f"an object of {size:,} bytes")
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        return self._filled(memoryview(self._buffer)[:size])

    def read(self, size: int) -> bytes:
        return bytes(self._filled(memoryview(bytearray(size))))

    def write(self, content: bytes | memoryview) -> None:
        left = memoryview(content)
        while left:
            self._check()
            left = left[self.socket.send(left) :]

    def _filled(self, place: memoryview) -> memoryview:
        at = 0
        while at < len(place):
            self._check()
            got = self.socket.recv_into(place[at:])
            if not got:
                raise EOFError
            at += got
        return place

    def _check(self) -> None:
        if time.monotonic() > self._until_s:
            raise TimeoutError("it took too long")


def refused(trouble: HoldfastError) -> Answer:
    return Answer(faults.fault(trouble), trouble.exit_code, faults.status(trouble, writing=True))


def checked(answer: Answer) -> Answer:
    if answer.fault is None:
        return answer
    raise faults.trouble(answer.fault, answer.status, str(answer.exit_code), faults.NODE)


def _malformed(what: str) -> Invalid:
    return Invalid(f"a line of a move brings {what}", remedy="update both nodes to one version", code="malformed")
