"""The verbs of the archiver process, run in this process: for many cases, and for crashes at exact moments."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

from holdfast.adapters.archive import unpacking, updating
from holdfast.adapters.archive.messages import Channel, Event, Need
from holdfast.adapters.walking import private
from holdfast.ports.archive import Packed, UnpackJob
from tests.fleets.archives import Place


class Answers:
    """The agent's end: what is needed lies there at once."""

    def __init__(self, place: Place, home: str) -> None:
        self._place, self._home = place, home
        self._answered: Callable[[str], None] = lambda digest: None

    def listen(self, answered: Callable[[str], None]) -> None:
        self._answered = answered

    def say(self, event: Event) -> None:
        if isinstance(event, Need):
            with open(os.path.join(self._home, "in", event.digest), "wb") as file:
                file.write(self._place.store[event.digest])
            threading.Thread(target=self._answered, args=(event.digest,)).start()


def unpack_here(place: Place, packed: Packed, name: str = "copy") -> None:
    with _ready(place, place.unpack_job(packed, name, keep=True)) as (job, channel):
        unpacking.unpack(job, channel)


def update_here(place: Place, packed: Packed, name: str = "copy") -> None:
    with _ready(place, place.update_job(packed, name)) as (job, channel):
        updating.update(job, channel)


@contextmanager
def _ready(place: Place, job: UnpackJob) -> Iterator[tuple[UnpackJob, Channel]]:
    private.make(job.home)
    mask = os.umask(0o022)
    try:
        yield job, cast(Channel, Answers(place, job.home))
    finally:
        os.umask(mask)
