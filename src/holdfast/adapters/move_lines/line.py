"""The other node's directory of a move as a target: several requests at once, on connections that stay open."""

import asyncio
import socket
import threading
from collections.abc import Collection, Sequence

from holdfast.adapters.backup_target import pages, troubles
from holdfast.adapters.backup_target.blocking import Blocking, Silent
from holdfast.adapters.move_lines import wire
from holdfast.adapters.move_lines.wire import Answer, Ask, Wire
from holdfast.adapters.tls import client
from holdfast.adapters.tls.peer import PeerTls
from holdfast.errors import HoldfastError, Invalid, Unreachable
from holdfast.model import backup_key
from holdfast.model.backup_key import OBJECT_BYTES_MAX
from holdfast.ports.backup_target import Prunable, StoredObject, TargetState

CONNECT_S = 2.0
HANDSHAKE_S = 3.0
QUESTION_S = 30.0
OBJECT_S = 240.0  # of up to 24 MiB
LOOK_S = 3.0
AT_ONCE = 4  # as many as an archiver has under way


class Line:
    """`key` is the one that the revision names for the node at this address."""

    def __init__(self, tls: PeerTls, key: str, address: str, port: int) -> None:
        self._tls, self._key, self._at = tls, key, (address, port)
        self._work = Blocking(AT_ONCE, "move-line")
        self._idle: list[Wire] = []
        self._lock = threading.Lock()
        self._is_closed = False

    async def put(self, key: str, content: bytes) -> None:
        """The other side compares the digest."""
        parsed = backup_key.parse(key)
        if not 0 < len(content) <= OBJECT_BYTES_MAX:
            backup_key.check_content(parsed, content)
        await self._ask(OBJECT_S, Ask("put", parsed.text, size_bytes=len(content)), content)

    async def get(self, key: str) -> bytes | None:
        answer, content = await self._ask(OBJECT_S, Ask("get", backup_key.parse(key).text))
        return content if answer.is_there else None

    async def has(self, keys: Collection[str]) -> set[str]:
        wanted = sorted({backup_key.parse(key).text for key in keys})
        found: set[str] = set()
        for first in range(0, len(wanted), wire.KEYS_MAX):
            asked = Ask("has", keys=tuple(wanted[first : first + wire.KEYS_MAX]))
            found |= set((await self._ask(QUESTION_S, asked))[0].keys)
        return found & set(wanted)

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        async def page(after: str) -> pages.Page:
            answer, _ = await self._ask(QUESTION_S, Ask("list", prefix, after=after))
            return answer.objects, answer.more

        return await pages.listed(prefix, page)

    async def delete(self, key: str, proof: Prunable) -> None:
        if proof.key != key:
            raise troubles.not_this_one(key, proof)
        await self._ask(QUESTION_S, Ask("delete", backup_key.parse(key).text))

    async def look(self) -> TargetState:
        try:
            answer, _ = await self._ask(LOOK_S, Ask("look"))
        except HoldfastError as trouble:
            return TargetState(troubles.condition(trouble), trouble.message)
        return answer.look or TargetState("failing", "the node does not say")

    async def close(self) -> None:
        with self._lock:
            idle, self._idle, self._is_closed = self._idle, [], True
        for one in idle:
            one.close()
        await asyncio.sleep(0)

    async def _ask(self, limit_s: float, ask: Ask, content: bytes = b"") -> tuple[Answer, bytes]:
        try:
            answer, found = await self._work.run(limit_s + CONNECT_S + HANDSHAKE_S, self._asked, limit_s, ask, content)
        except Silent:
            raise self._unreachable("it took too long") from None
        return wire.checked(answer), found

    # ---- in a thread

    def _asked(self, limit_s: float, ask: Ask, content: bytes) -> tuple[Answer, bytes]:
        """A connection that waited may have ended meanwhile: then once more, on a new one. Every verb may be
        repeated."""
        with self._lock:
            kept = self._idle.pop() if self._idle else None
        if kept is not None:
            try:
                return self._exchanged(kept, limit_s, ask, content)
            except (OSError, EOFError):
                pass
        try:
            return self._exchanged(self._connected(), limit_s, ask, content)
        except EOFError:
            raise self._unreachable("it closed the connection") from None
        except Invalid as trouble:
            raise self._unreachable(trouble.message) from trouble
        except OSError as trouble:
            raise client.refusal(trouble) or self._unreachable(str(trouble)) from trouble

    def _exchanged(self, line: Wire, limit_s: float, ask: Ask, content: bytes) -> tuple[Answer, bytes]:
        try:
            line.within(limit_s)
            line.send(ask, content)
            answer = line.receive(Answer)
            found = bytes(line.content(answer.size_bytes))
        except BaseException:
            line.close()
            raise
        with self._lock:
            if not self._is_closed:
                self._idle.append(line)
                return answer, found
        line.close()
        return answer, found

    def _connected(self) -> Wire:
        context, ahead = self._tls.calling(self._key)
        plain = socket.create_connection(self._at, CONNECT_S)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line = Wire(plain)
            line.within(HANDSHAKE_S)
            line.write(len(ahead).to_bytes(2, "big") + ahead)
            line.socket = context.wrap_socket(plain)
        except BaseException:
            plain.close()
            raise
        return line

    def _unreachable(self, why: str) -> Unreachable:
        return Unreachable(
            f"no valid answer from the node at {self._at[0]} port {self._at[1]}: {why}",
            remedy="nothing to do: the move goes through the hub; docs/reference/network.md has the ports",
        )
