"""Handles of this process that a piece of code leaves open."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


def open_handles() -> set[tuple[str, str]]:
    """The number of each open handle, and what it leads to."""
    found = set[tuple[str, str]]()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
        except FileNotFoundError:
            continue
    return found


@contextmanager
def none_left_open() -> Iterator[None]:
    """Fails if a handle is open at the end that was not open at the beginning.

    Fewer handles are no leak: Python may close at any time what an earlier test of this process left to be collected.
    """
    before = open_handles()
    yield
    left = open_handles() - before
    assert not left, f"left open: {sorted(left)}"
