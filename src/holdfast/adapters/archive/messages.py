"""What the agent and its archiver process say to each other: JSON lines on the process's stdin and stdout."""

import os
import sys
import threading
from collections.abc import Callable
from typing import BinaryIO

import msgspec
from msgspec import Struct

from holdfast.errors import Conflict, Corrupt, Failed, HoldfastError, Invalid, TryLater
from holdfast.ports.archive import PackJob, Progress, UnpackJob

LINE_BYTES_MAX = 64 << 20  # a job has the whole manifest
UNDER_WAY_MAX = 4  # objects in the spool


class Work(Struct, frozen=True, kw_only=True):
    """The first line to the process. `manifest`: a file in `home`, because it may be large."""

    verb: str
    pack: PackJob | None = None
    unpack: UnpackJob | None = None
    path: str = ""


class Ready(Struct, frozen=True, tag="ready"):
    """To the agent: an object lies in the spool. Answered by Done when it is on every target."""

    digest: str


class Need(Struct, frozen=True, tag="need"):
    """To the agent: this object is needed. Answered by Done when it lies in the spool."""

    digest: str


class Told(Struct, frozen=True, tag="told"):
    progress: Progress


class Finished(Struct, frozen=True, tag="finished"):
    """The result is in the file `result` of `home`."""


class Trouble(Struct, frozen=True, tag="trouble"):
    family: str
    code: str
    message: str
    remedy: str


Event = Ready | Need | Told | Finished | Trouble
FAMILIES: dict[str, type[HoldfastError]] = {
    kind.__name__: kind for kind in (Conflict, Corrupt, Failed, Invalid, TryLater)
}

_encoder = msgspec.json.Encoder()
_events: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def line(value: Event | Work) -> bytes:
    return _encoder.encode(value) + b"\n"


def event_of(text: bytes) -> Event:
    return _events.decode(text)


def trouble(error: HoldfastError) -> Trouble:
    family = next((name for name, kind in FAMILIES.items() if isinstance(error, kind)), "Failed")
    return Trouble(family, error.code, error.message, error.remedy)


def error_of(said: Trouble) -> HoldfastError:
    return FAMILIES.get(said.family, Failed)(said.message, remedy=said.remedy, code=said.code)


class Channel:
    """The process's end. When the agent is gone, the process ends at once."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source, self._sink = source, sink
        self._lock = threading.Lock()
        self._answers: Callable[[str], None] = lambda digest: None

    def work(self) -> Work:
        return msgspec.json.decode(self._source.readline(LINE_BYTES_MAX), type=Work)

    def listen(self, answered: Callable[[str], None]) -> None:
        """Call `answered` with the digest of each line, in a thread of its own."""
        self._answers = answered
        threading.Thread(target=self._listen, daemon=True).start()

    def say(self, event: Event) -> None:
        with self._lock:
            self._sink.write(line(event))
            self._sink.flush()

    def _listen(self) -> None:
        while text := self._source.readline(LINE_BYTES_MAX):
            self._answers(text.decode().strip())
        sys.stderr.flush()
        os._exit(1)
