"""Directories that only their owner can read."""

import os
from contextlib import suppress


def make(path: str) -> None:
    """With all that is missing above it; os.makedirs gives those a mode that other users can read."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for one in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(one, 0o700)
