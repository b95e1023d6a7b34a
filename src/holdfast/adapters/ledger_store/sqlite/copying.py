"""A consistent copy of a ledger file, while a hub may be writing it. Writes nothing to the ledger itself."""

import os

import apsw

from holdfast.adapters.ledger_store.sqlite import ledger_file
from holdfast.adapters.ledger_store.sqlite.store import quiet_source
from holdfast.adapters.sqlite.trouble import os_trouble, trouble


def copy(path: str, into: str) -> None:
    """`into` does not exist. The copy is one file without -wal; it is not flushed."""
    path = os.path.abspath(path)
    ledger_file.examine(path)
    connect, folder = quiet_source(path)
    try:
        db = connect()
        try:
            db.execute("VACUUM INTO ?", (into,))
        finally:
            db.close()
        os.chmod(into, 0o600)
    except apsw.Error as error:
        raise trouble(error, into) from error
    except OSError as error:
        raise os_trouble(error, into) from error
    finally:
        if folder is not None:
            folder.cleanup()
