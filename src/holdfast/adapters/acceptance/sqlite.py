"""Accepted revisions in the agent's SQLite file: links, contents and newest head in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.adapters.acceptance.order import check_forward
from holdfast.adapters.sqlite.agent_file import AgentFile
from holdfast.errors import Corrupt
from holdfast.model import canonical
from holdfast.model.record import Link
from holdfast.ports.acceptance import Accepted

_encode = msgspec.json.Encoder().encode
_link = msgspec.json.Decoder(Link).decode
_accepted = msgspec.json.Decoder(Accepted).decode


class SqliteAcceptance:
    def __init__(self, file: AgentFile) -> None:
        self._file = file

    def newest(self) -> Accepted | None:
        rows = self._file.rows("SELECT body FROM accepted")
        if not rows:
            return None
        try:
            return _accepted(rows[0][0])
        except msgspec.DecodeError as trouble:
            raise self._damaged("the newest accepted revision") from trouble

    def links(self, first: int, last: int) -> Sequence[Link]:
        rows = self._file.rows("SELECT body FROM links WHERE number BETWEEN ? AND ? ORDER BY number", (first, last))
        try:
            return [_link(row[0]) for row in rows]
        except msgspec.DecodeError as trouble:
            raise self._damaged("a link of the chain") from trouble

    def accept(self, links: Sequence[Link], accepted: Accepted, blobs: Mapping[str, bytes]) -> None:
        with self._file.transaction() as db:
            check_forward(self.newest(), accepted)
            for link in links:
                db.execute("INSERT OR IGNORE INTO links VALUES (?, ?)", (link.header.number, _encode(link)))
            for digest, content in blobs.items():
                db.execute("INSERT OR IGNORE INTO contents VALUES (?, ?)", (digest, content))
            db.execute("INSERT OR REPLACE INTO accepted VALUES (1, ?)", (_encode(accepted),))

    def blob(self, digest: str) -> bytes | None:
        rows = self._file.rows("SELECT content FROM contents WHERE digest = ?", (digest,))
        if not rows:
            return None
        content = bytes(rows[0][0])
        if canonical.digest(content) != digest:
            raise self._damaged(f"the content {digest[:12]}…")
        return content

    def missing(self, digests: Sequence[str]) -> list[str]:
        return [d for d in digests if not self._file.rows("SELECT 1 FROM contents WHERE digest = ?", (d,))]

    def close(self) -> None:
        self._file.close()

    def _damaged(self, what: str) -> Corrupt:
        return Corrupt(
            f"{what} in {self._file.path} is damaged",
            remedy="restore the state directory from a backup, or join again: holdfast agent join TOKEN",
            code="agent_state_damaged",
        )
