"""The revisions from which this node starts over when it lost what it accepted; kept beside its identity (X14)."""

from collections.abc import Callable
from contextlib import suppress

from holdfast.errors import HoldfastError
from holdfast.model.revision import Head
from holdfast.ports.acceptance import Accepted

Store = Callable[[Head, Head], None]


class Anchors:
    """`vouched`: grading starts with its content. An operator named it in the invite, or this node has it in force as a
    whole: nothing is parked. `accepted`: the newest one; this node follows no chain that does not lead through it."""

    def __init__(self, vouched: Head, accepted: Head, store: Store) -> None:
        self.vouched = vouched
        self.accepted = accepted
        self._store = store

    def move(self, newest: Accepted) -> None:
        """Never back. What cannot be written now is written with the next revision or start."""
        whole = bool(newest.manifest) and newest.manifest == newest.in_force and not newest.unread
        vouched = newest.head if whole and newest.head.number > self.vouched.number else self.vouched
        accepted = newest.head if newest.head.number > self.accepted.number else self.accepted
        if (vouched, accepted) == (self.vouched, self.accepted):
            return
        with suppress(HoldfastError):
            self._store(vouched, accepted)
            self.vouched, self.accepted = vouched, accepted
