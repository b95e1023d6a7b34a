"""Stored objects that the agent fetches for the archiver process, some of them ahead."""

import os
import threading
from collections import deque
from collections.abc import Iterable

from holdfast.adapters.archive.messages import UNDER_WAY_MAX, Channel, Need
from holdfast.adapters.archive.packs import emptied


class Objects:
    def __init__(self, folder: str, channel: Channel) -> None:
        self._folder, self._channel = folder, channel
        emptied(folder)
        self._here = threading.Condition()
        self._asked: set[str] = set()
        self._there: set[str] = set()
        self._ahead: deque[str] = deque()
        channel.listen(self._answered)

    def expect(self, digests: Iterable[str]) -> None:
        """In this order they will be taken, each once."""
        self._ahead.extend(digests)
        with self._here:
            self._ask()

    def take(self, digest: str) -> str:
        """The path of a file with the object, which the caller drops."""
        with self._here:
            if digest not in self._asked:
                self._asked.add(digest)
                self._channel.say(Need(digest))
            while digest not in self._there:
                self._here.wait()
        return os.path.join(self._folder, digest)

    def drop(self, digest: str) -> None:
        os.unlink(os.path.join(self._folder, digest))
        with self._here:
            self._asked.discard(digest)
            self._there.discard(digest)
            self._ask()

    def content(self, digest: str) -> bytes:
        with open(self.take(digest), "rb") as file:
            content = file.read()
        self.drop(digest)
        return content

    def _ask(self) -> None:
        while self._ahead and len(self._asked) < UNDER_WAY_MAX:
            digest = self._ahead.popleft()
            if digest not in self._asked:
                self._asked.add(digest)
                self._channel.say(Need(digest))

    def _answered(self, digest: str) -> None:
        with self._here:
            self._there.add(digest)
            self._here.notify_all()
