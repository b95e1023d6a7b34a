"""The journal in the agent's SQLite file. An operation is recorded before it starts; a used order stays used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from holdfast.adapters.sqlite.agent_file import AgentFile
from holdfast.errors import Corrupt
from holdfast.model.journal import JournalEntry, Operation, OrderUse, Outcome, StepRecord
from holdfast.model.order import COUNTER_WINDOW, OrderResult

KEPT_OPERATIONS = 5000  # finished ones; unfinished or unsent ones are never deleted

_NOTE_MADE = "INSERT OR REPLACE INTO made VALUES (?, ?, ?)"
_ADD_STEP = "INSERT INTO steps SELECT ?1, 1 + coalesce(max(number), 0), ?2 FROM steps WHERE operation = ?1"

_encode = msgspec.json.Encoder().encode
_operation = msgspec.json.Decoder(Operation).decode
_step = msgspec.json.Decoder(StepRecord).decode
_result = msgspec.json.Decoder(OrderResult).decode


class SqliteJournal:
    def __init__(self, file: AgentFile) -> None:
        self._file = file

    def begin(self, operation: Operation, use: OrderUse | None = None, makes: Sequence[str] = ()) -> bool:
        with self._file.transaction() as db:
            if use is not None and not _first_use(db, use):
                return False
            db.execute(
                "INSERT INTO operations (id, body, order_id) VALUES (?, ?, ?)",
                (operation.id, _encode(operation), operation.order),
            )
            for path in makes:
                db.execute(_NOTE_MADE, (path, operation.id, False))
            _forget_old(db)
        return True

    def use(self, use: OrderUse) -> bool:
        with self._file.transaction() as db:
            return _first_use(db, use)

    def step(self, operation: str, name: str, at_s: float, note: str = "") -> None:
        self.steps(operation, [StepRecord(name, at_s, note)])

    def steps(self, operation: str, steps: Sequence[StepRecord]) -> None:
        if not steps:
            return
        with self._file.transaction() as db:
            for step in steps:
                db.execute(_ADD_STEP, (operation, _encode(step)))

    def finish(self, operation: str, outcome: Outcome, result: OrderResult | None = None) -> None:
        with self._file.transaction() as db:
            db.execute(
                "UPDATE operations SET outcome = ?, result = ? WHERE id = ? AND outcome IS NULL",
                (outcome, _encode(result) if result else None, operation),
            )

    def unfinished(self) -> Sequence[JournalEntry]:
        return self._entries("WHERE outcome IS NULL ORDER BY number")

    def entries(self, newest: int = 100) -> Sequence[JournalEntry]:
        return self._entries("ORDER BY number DESC LIMIT ?", (max(newest, 0),))

    def _entries(self, rest: str, values: Sequence[Any] = ()) -> list[JournalEntry]:
        rows = self._file.rows(f"SELECT id, body, outcome, result FROM operations {rest}", values)  # noqa: S608 (ours)
        return [self._entry(*row) for row in rows]

    def _entry(self, operation: str, body: bytes, outcome: Outcome | None, result: bytes | None) -> JournalEntry:
        steps = self._file.rows("SELECT body FROM steps WHERE operation = ? ORDER BY number", (operation,))
        try:
            return JournalEntry(
                _operation(body), tuple(_step(row[0]) for row in steps), outcome, _result(result) if result else None
            )
        except msgspec.DecodeError as trouble:
            raise Corrupt(
                f"cannot read operation {operation} in {self._file.path}: {trouble}",
                remedy="restore it from a backup of this machine; `holdfast agent check` lists the damage",
                code="agent_state_damaged",
            ) from trouble

    def result_of(self, order: str) -> OrderResult | None:
        rows = self._file.rows(
            "SELECT result FROM operations WHERE order_id = ? AND result IS NOT NULL ORDER BY number DESC LIMIT 1",
            (order,),
        )
        return _result(rows[0][0]) if order and rows else None

    def unsent(self, limit: int) -> Sequence[OrderResult]:
        rows = self._file.rows(
            "SELECT result FROM operations WHERE result IS NOT NULL AND taken = 0 ORDER BY number LIMIT ?",
            (max(limit, 0),),
        )
        return [_result(row[0]) for row in rows]

    def taken(self, orders: Sequence[str]) -> None:
        if not orders:
            return
        with self._file.transaction() as db:
            for order in orders:
                db.execute("UPDATE operations SET taken = 1 WHERE order_id = ? AND result IS NOT NULL", (order,))

    def used_counter(self, counter: int) -> bool:
        return bool(self._file.rows("SELECT 1 FROM uses WHERE counter = ?", (counter,)))

    def highest_counter(self) -> int:
        return int(self._file.rows("SELECT coalesce(max(counter), 0) FROM uses")[0][0])

    def set_aside(self, name: str, value: bytes) -> None:
        with self._file.transaction() as db:
            db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def fact(self, name: str) -> bytes | None:
        rows = self._file.rows("SELECT value FROM facts WHERE name = ?", (name,))
        return bytes(rows[0][0]) if rows else None

    def facts(self, prefix: str) -> dict[str, bytes]:
        rows = self._file.rows(
            "SELECT name, value FROM facts WHERE name >= ?1 AND substr(name, 1, length(?1)) = ?1 ORDER BY name",
            (prefix,),
        )
        return {str(name): bytes(value) for name, value in rows}

    def drop_fact(self, name: str) -> None:
        with self._file.transaction() as db:
            db.execute("DELETE FROM facts WHERE name = ?", (name,))

    def made_by(self, path: str) -> str | None:
        rows = self._file.rows("SELECT operation FROM made WHERE path = ?", (path,))
        return str(rows[0][0]) if rows else None

    def note_made(self, path: str, operation: str, scratch: bool) -> None:
        with self._file.transaction() as db:
            db.execute(_NOTE_MADE, (path, operation, scratch))

    def is_scratch(self, path: str) -> bool:
        return bool(self._file.rows("SELECT 1 FROM made WHERE path = ? AND scratch", (path,)))

    def forget_made(self, path: str) -> None:
        with self._file.transaction() as db:
            db.execute("DELETE FROM made WHERE path = ?", (path,))

    def check(self) -> Sequence[str]:
        found = self._file.check()
        for (operation,) in self._file.rows("SELECT id FROM operations"):
            try:
                self._entries("WHERE id = ?", (operation,))
            except Corrupt as trouble:
                found.append(trouble.message)
        lone = self._file.rows(
            "SELECT DISTINCT operation FROM steps WHERE operation NOT IN (SELECT id FROM operations)"
        )
        found += [f"steps without their operation: {row[0]}" for row in lone]
        return found

    def close(self) -> None:
        self._file.close()


def _first_use(db: apsw.Connection, use: OrderUse) -> bool:
    known = db.execute(
        "SELECT 1 FROM uses WHERE id = ? OR counter = ? OR nonce = ?", (use.id, use.counter, use.nonce)
    ).fetchall()
    highest: Any = db.execute("SELECT coalesce(max(counter), 0) FROM uses").fetchall()[0][0]
    if known or use.counter <= highest - COUNTER_WINDOW:
        return False
    db.execute("INSERT INTO uses VALUES (?, ?, ?, ?)", (use.id, use.counter, use.nonce, use.expires_s))
    # Counters below the window are refused without a row; a second window is kept as a margin.
    db.execute("DELETE FROM uses WHERE counter <= ?", (max(highest, use.counter) - 2 * COUNTER_WINDOW,))
    return True


def _forget_old(db: apsw.Connection) -> None:
    old = "outcome IS NOT NULL AND (result IS NULL OR taken = 1) AND number <= (SELECT max(number) FROM operations) - ?"
    db.execute(f"DELETE FROM steps WHERE operation IN (SELECT id FROM operations WHERE {old})", (KEPT_OPERATIONS,))  # noqa: S608
    db.execute(f"DELETE FROM operations WHERE {old}", (KEPT_OPERATIONS,))  # noqa: S608 (fixed text)
