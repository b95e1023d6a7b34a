"""A person's end of a stream: one blocking connection to the hub, switched, with TLS to the node inside it."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.adapters.stream_link import inner_tls
from holdfast.errors import HoldfastError
from holdfast.model.stream import PROTOCOL

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.adapters.hub_link.http.asking import Asking
    from holdfast.adapters.stream_link.inner_tls import Inner
    from holdfast.ports.clock import Clock
    from holdfast.ports.stream_link import CallerKey, Pinned

PIECE_BYTES = 64 * 1024
HANDSHAKE_S = 15.0
SEND_S = 30.0


class TlsTalk:
    def __init__(self, sock: socket.socket, early: bytes, inner: Inner, whose: str) -> None:
        self._sock = sock
        self._inner = inner
        self._whose = whose
        self._is_closed = False
        if early:
            self._inner.feed(early)

    def shake_hands(self) -> None:
        until_s = time.monotonic() + HANDSHAKE_S
        try:
            while not self._inner.shaken():
                self._flush()
                if not self._fed(until_s - time.monotonic()):
                    raise inner_tls.cut(self._whose)
        finally:
            with suppress(HoldfastError):  # also the alert that says why not
                self._flush()

    def read(self, at_most_s: float) -> bytes | None:
        until_s = time.monotonic() + at_most_s
        while (said := self._inner.opened()) is None:
            if not self._fed(until_s - time.monotonic()):
                return None
        return said

    def write(self, content: bytes) -> None:
        self._inner.seal(content)
        self._flush()

    def close(self) -> None:
        """Only the line: sealing a last word belongs to the thread that talks."""
        self._is_closed = True
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def _fed(self, at_most_s: float) -> bool:
        """False: nothing came in time. The peer may be gone."""
        try:
            self._sock.settimeout(max(at_most_s, 0.001))
            piece = self._sock.recv(PIECE_BYTES)
        except TimeoutError:
            return False
        except (OSError, ValueError):
            piece = b""
        self._inner.feed(piece)
        return True

    def _flush(self) -> None:
        out = self._inner.outgoing()
        if not out:
            return
        try:
            self._sock.settimeout(SEND_S)
            self._sock.sendall(out)
        except (OSError, ValueError):
            raise inner_tls.cut(self._whose) from None


def sealed(sock: socket.socket, early: bytes, key: CallerKey, node: Pinned) -> TlsTalk:
    """The socket is closed unless exactly that node is at its other end."""
    try:
        talk = TlsTalk(sock, early, inner_tls.caller_end(key, node), node.node)
        talk.shake_hands()
    except BaseException:
        sock.close()
        raise
    return talk


class CommandStreams:
    """`hub` makes a visit of its own for every call, so that several threads may."""

    def __init__(self, hub: Callable[[], Asking], clock: Clock) -> None:
        self._hub = hub
        self._clock = clock

    def key(self) -> CallerKey:
        from holdfast.adapters.stream_link import caller_key

        return caller_key.make(self._clock.now_s())

    def call(self, order: str, key: CallerKey, node: Pinned) -> TlsTalk:
        sock, early = self._hub().switched(f"/v1/streams/{order}", PROTOCOL)
        return sealed(sock, early, key, node)
