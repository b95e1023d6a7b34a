"""Lines over TLS, and a directory of the agent's own for what comes over them."""

import asyncio
from collections.abc import Callable, Collection
from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.adapters.move_lines.spool import Files, Spool
from holdfast.model.move import Peer
from holdfast.ports.move_lines import MOVE_PORT, Callers, Heard

if TYPE_CHECKING:  # loaded with the first move: an agent without one is smaller
    from holdfast.adapters.move_lines.line import Line
    from holdfast.adapters.tls.peer import PeerTls


class TlsLines:
    """`path` is the directory; `tls` makes what identifies this node."""

    def __init__(self, path: str, tls: "Callable[[], PeerTls]", port: int = MOVE_PORT) -> None:
        self._files, self._made, self._port = Files(path), tls, port
        self._here = Spool(self._files)

    @property
    def here(self) -> Spool:
        return self._here

    @cached_property
    def _tls(self) -> "PeerTls":
        return self._made()

    def to(self, peer: Peer) -> "Line":
        from holdfast.adapters.move_lines.line import Line

        return Line(self._tls, peer.key, peer.address, self._port)

    async def serve(self, address: str, callers: Callers, heard: Heard) -> None:
        from holdfast.adapters.move_lines.door import Door

        await Door(self._files, self._tls, callers, heard).run(address, self._port)

    async def forget(self, but: Collection[str]) -> None:
        await asyncio.to_thread(self._files.drop_sent, but)
