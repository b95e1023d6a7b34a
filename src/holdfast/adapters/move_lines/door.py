"""Where the target of a move takes calls of the source: one thread for each connection, few of them, all bounded.

A caller sends its certificate ahead (adapters/tls/peer.py). Unless the revision in force names its key for a move to
this node, the connection is closed without a byte.
"""

import asyncio
import errno
import logging
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress

from holdfast.adapters.move_lines import wire
from holdfast.adapters.move_lines.spool import Files
from holdfast.adapters.move_lines.wire import Answer, Ask, Wire
from holdfast.adapters.tls.peer import AHEAD_BYTES_MAX, PeerTls, key_of
from holdfast.errors import Conflict, Failed, HoldfastError, Invalid, NotPermitted
from holdfast.model import backup_key
from holdfast.model.backup_key import OBJECT_BYTES_MAX, BackupKey
from holdfast.model.move import WORD_BYTES_MAX, epoch_of
from holdfast.ports.move_lines import Callers, Heard

log = logging.getLogger("holdfast.agent")

CALLERS_MAX = 6  # connections that have proven a key; each has the memory of one object
STRANGERS_MAX = 12  # connections that have not yet; one more is closed at once
HANDSHAKE_S = 5.0
WAIT_S = 90.0  # for the next request on a connection
REQUEST_S = 240.0
ACCEPT_PAUSE_S = 0.2


class Door:
    def __init__(self, files: Files, tls: PeerTls, callers: Callers, heard: Heard) -> None:
        self._files, self._tls, self._callers, self._heard = files, tls, callers, heard
        self._lock = threading.Lock()
        self._strangers: set[Wire] = set()
        self._present: set[Wire] = set()
        self._is_closed = False

    async def run(self, address: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        with _listen(address, port) as door:
            try:
                while True:
                    try:
                        line, _ = await loop.sock_accept(door)
                    except OSError as trouble:
                        log.warning("a node could not be let in: %s", trouble)
                        await asyncio.sleep(ACCEPT_PAUSE_S)
                        continue
                    self._begin(loop, Wire(line))
            finally:
                self._close()

    def _begin(self, loop: asyncio.AbstractEventLoop, line: Wire) -> None:
        with self._lock:
            is_full = len(self._strangers) >= STRANGERS_MAX
            if not is_full:
                self._strangers.add(line)
        if is_full:
            line.close()
            return
        try:
            threading.Thread(target=self._visit, args=(loop, line), name="move-door", daemon=True).start()
        except RuntimeError as trouble:
            log.warning("a node could not be let in: %s", trouble)
            self._leave(line)

    def _close(self) -> None:
        """Threads that read or write end at once."""
        with self._lock:
            self._is_closed = True
            for line in self._strangers | self._present:
                with suppress(OSError):
                    socket.socket.shutdown(line.socket, socket.SHUT_RDWR)  # that of TLS is for its own thread

    # ---- in a thread

    def _visit(self, loop: asyncio.AbstractEventLoop, line: Wire) -> None:
        try:
            key = self._proven(line)
            while key:
                line.within(WAIT_S)
                verb, name = self._answered(line, key)
                with suppress(RuntimeError):  # the loop has ended meanwhile
                    loop.call_soon_threadsafe(self._heard, verb, name)
        except (OSError, EOFError, Invalid) as trouble:
            log.debug("a line of a move ended: %s", trouble)
        finally:
            self._leave(line)

    def _proven(self, line: Wire) -> str:
        """The key of the caller; "" if it is not for this node to answer."""
        line.within(HANDSHAKE_S)
        line.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        size = int.from_bytes(line.read(2), "big")
        if not 0 < size <= AHEAD_BYTES_MAX:
            return ""
        ahead = line.read(size)
        key = key_of(ahead)
        if not key or not self._callers(key):
            return ""
        inner = self._tls.taking(ahead).wrap_socket(line.socket, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            line.socket = inner
            if self._is_closed:
                return ""
        inner.do_handshake()
        if inner.getpeercert(binary_form=True) != ahead:
            return ""
        with self._lock:
            self._strangers.discard(line)
            if self._is_closed or len(self._present) >= CALLERS_MAX:
                return ""
            self._present.add(line)
        return key

    def _leave(self, line: Wire) -> None:
        with self._lock:
            self._strangers.discard(line)
            self._present.discard(line)
        line.close()

    def _answered(self, line: Wire, caller: str) -> tuple[str, str]:
        """What was done, and the key; "" if it was not done."""
        ask = line.receive(Ask)
        line.within(REQUEST_S)
        content = line.content(ask.size_bytes)
        services = self._callers(caller)
        if not services:
            raise EOFError  # the move is over
        found: bytes | None = b""
        try:
            answer, found = self._done(ask, content, services)
        except HoldfastError as trouble:
            answer = wire.refused(trouble)
        line.send(answer, found or b"")
        return ask.verb, ask.key if answer.fault is None and answer.is_there else ""

    def _done(self, ask: Ask, content: memoryview, services: Mapping[str, int]) -> tuple[Answer, bytes | None]:
        files = self._files
        match ask.verb:
            case "put":
                files.put(_checked(backup_key.parse(ask.key), services, len(content)), content)
            case "get":
                found = files.read(_checked(backup_key.parse(ask.key), services), 0, OBJECT_BYTES_MAX)
                return Answer(is_there=found is not None, size_bytes=len(found or b"")), found
            case "has":
                keys = [_checked(backup_key.parse(key), services).text for key in ask.keys[: wire.KEYS_MAX]]
                return Answer(keys=tuple(sorted(files.has(keys)))), None
            case "list":
                return self._page(backup_key.check_prefix(ask.key), ask.after, services), None
            case "delete":
                files.remove(_checked(backup_key.parse(ask.key), services))
            case "look":
                return Answer(look=files.look()), None
        return Answer(), None

    def _page(self, prefix: str, after: str, services: Mapping[str, int]) -> Answer:
        if backup_key.service_of(prefix) not in services:
            raise _not_yours(prefix)
        found = [one for one in self._files.listed(prefix) if one.key > after]
        return Answer(objects=tuple(found[: wire.PAGE_OBJECTS]), more=len(found) > wire.PAGE_OBJECTS)


def _checked(key: BackupKey, services: Mapping[str, int], size: int = 0) -> BackupKey:
    if services.get(key.service) != epoch_of(key):
        raise _not_yours(key.text)
    if key.kind == "receipts" and size > WORD_BYTES_MAX:
        raise Invalid(
            f"{key.text} is longer than {WORD_BYTES_MAX:,} bytes",
            remedy="a word about a move has no data in it",
            code="body_too_large",
        )
    return key


def _not_yours(what: str) -> NotPermitted:
    return NotPermitted(
        f"the caller does not hand {what} over to this node, as far as it has accepted",
        remedy="wait: both nodes accept the newest revision with their next check-in",
        code="not_your_service",
    )


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    door = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((address, port))
        door.listen(STRANGERS_MAX)
        door.setblocking(False)
    except OSError as trouble:
        door.close()
        family_of = Conflict if trouble.errno == errno.EADDRINUSE else Failed
        raise family_of(
            f"cannot listen on {address} port {port} for a move: {trouble.strerror}; it goes through the hub",
            remedy=f"see what listens there: ss -ltnp 'sport = :{port}'",
            code="listen_failed",
        ) from trouble
    return door
