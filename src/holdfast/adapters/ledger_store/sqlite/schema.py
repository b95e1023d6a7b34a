"""The format of the ledger's SQLite file, and how to create and open it. Never repairs, never overwrites."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

import apsw

from holdfast.adapters.sqlite.folder import sync_folder
from holdfast.adapters.sqlite.trouble import os_trouble, trouble

APPLICATION_ID = 0x48464C44  # "HFLD"
FORMAT = 1
LOCK_WAIT_MS = 5000

# A value is stored once, in the history; `live` only names the current change of a key. Leases and counters are part of
# format 1, but no release has used them.
SCHEMA = """
CREATE TABLE changes (
    revision INTEGER NOT NULL, key TEXT NOT NULL, value BLOB, PRIMARY KEY (revision, key)
) WITHOUT ROWID;
CREATE TABLE live (
    key TEXT PRIMARY KEY, created INTEGER NOT NULL, modified INTEGER NOT NULL, lease TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX leased ON live (lease) WHERE lease <> '';
CREATE TABLE leases (
    name TEXT PRIMARY KEY, holder TEXT NOT NULL, token INTEGER NOT NULL, ttl_s REAL NOT NULL, expires_s REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE blobs (digest TEXT PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counters VALUES ('kept_after', 0), ('token', 0);
"""


def connect(path: str) -> apsw.Connection:
    """For writing. Syncs every commit. The store runs checkpoints, because it must see their errors."""
    db = _connect(path, apsw.SQLITE_OPEN_READWRITE, {"journal_mode": "wal", "synchronous": "full"})
    db.wal_autocheckpoint(0)
    return db


def connect_reader(path: str) -> apsw.Connection:
    """For reading beside a writer of this process."""
    return _connect(path, apsw.SQLITE_OPEN_READONLY, {})


def connect_silently(path: str) -> apsw.Connection:
    """For reading without writing a byte, not even to -shm; requires that -wal and -shm exist."""
    plain = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return _connect(f"file:{plain}?mode=ro&readonly_shm=1", apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI, {})


def _connect(name: str, flags: int, pragmas: Mapping[str, str]) -> apsw.Connection:
    db = apsw.Connection(name, flags=flags)
    try:
        db.set_busy_timeout(LOCK_WAIT_MS)
        # Closing keeps -wal and -shm: without them a later reader could not read the file without writing.
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        for pragma, value in {"cell_size_check": "on", "trusted_schema": "off", **pragmas}.items():
            db.pragma(pragma, value)
    except apsw.Error as error:
        raise trouble(error, db.filename, db.system_errno) from error
    return db


def create(path: str) -> None:
    """A crash leaves either no ledger or a complete one; an existing ledger is left unchanged."""
    draft = f"{path}.new-{os.getpid()}"
    try:
        _make_folder(os.path.dirname(path))
        _sweep_drafts(path)
        try:
            _write_draft(draft, path)
            with suppress(FileExistsError):
                os.link(draft, path)
        finally:
            _sweep_drafts(path)  # frees the space on a full disk
        sync_folder(os.path.dirname(path))
    except apsw.Error as error:
        raise trouble(error, path) from error
    except OSError as error:
        raise os_trouble(error, path) from error


def _make_folder(folder: str) -> None:
    if os.path.isdir(folder):
        return
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
        os.chmod(folder, 0o700)  # mkdir applies the umask
    sync_folder(os.path.dirname(folder))


def _sweep_drafts(path: str) -> None:
    """Remove drafts of killed creators; a running creator keeps its draft."""
    folder, start = os.path.dirname(path), f"{os.path.basename(path)}.new-"
    for name in os.listdir(folder):
        pid = name.removeprefix(start).partition("-")[0]
        if name.startswith(start) and (pid == str(os.getpid()) or not os.path.exists(f"/proc/{pid}")):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))


def _write_draft(draft: str, path: str) -> None:
    handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    os.fchmod(handle, 0o600)  # -wal and -shm inherit this mode
    os.close(handle)
    db = apsw.Connection(draft, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        # No process uses the draft before it gets its final name, so one flush before that is enough.
        db.pragma("synchronous", "off")
        db.pragma("journal_mode", "memory")
        # Before the switch to WAL, so that the main file identifies itself from the start.
        db.execute(f"BEGIN; PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={FORMAT}; {SCHEMA} COMMIT")
        db.pragma("journal_mode", "wal")
    except apsw.Error as error:
        raise trouble(error, path, db.system_errno) from error
    finally:
        db.close()
    handle = os.open(draft, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
