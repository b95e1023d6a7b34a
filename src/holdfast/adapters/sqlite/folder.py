"""Flush the folder of a SQLite file: SQLite ignores errors of this flush."""

import os


def sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
