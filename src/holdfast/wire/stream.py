"""The arguments of an order for a stream, and the stream's frames: one JSON object a line. Pure."""

import binascii
from collections.abc import Iterable, Mapping

import msgspec

from holdfast.errors import Corrupt, Invalid
from holdfast.model.ids import is_name
from holdfast.model.stream import Frame, LogsWanted

FRAME_BYTES_MAX = 128 * 1024
TEXT_CHARS_MAX = 16 * 1024  # of one line; four bytes or an escape of six each, at most
TAIL_MAX = 1_000_000_000
CALLER_BYTES_MAX = 4 * 1024

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Frame] = msgspec.json.Decoder(Frame)


# ---- the order


def arguments(wanted: LogsWanted) -> dict[str, str]:
    said = {"caller": binascii.b2a_base64(wanted.caller, newline=False).decode("ascii")}
    if wanted.component:
        said["component"] = wanted.component
    if wanted.follow:
        said["follow"] = "true"
    if wanted.tail is not None:
        said["tail"] = str(wanted.tail)
    if wanted.since_s:
        said["since_s"] = f"{wanted.since_s:.6f}"
    if wanted.ago_s:
        said["ago_s"] = f"{wanted.ago_s:.3f}"
    return said


def logs_wanted(said: Mapping[str, str]) -> LogsWanted:
    """Raises Invalid: an operator signed it, but its arguments may still be wrong."""
    try:
        unknown = said.keys() - {"caller", "component", "follow", "tail", "since_s", "ago_s"}
        caller = binascii.a2b_base64(said["caller"], strict_mode=True)
        component = said.get("component", "")
        if unknown or not 0 < len(caller) <= CALLER_BYTES_MAX or not (component == "" or is_name(component)):
            raise ValueError("it has an unknown argument")
        if said.get("follow", "true") != "true":
            raise ValueError("follow must be true or absent")
        return LogsWanted(
            caller,
            component,
            "follow" in said,
            _whole(said["tail"]) if "tail" in said else None,
            _seconds(said.get("since_s", "0")),
            _seconds(said.get("ago_s", "0")),
        )
    except (KeyError, ValueError) as trouble:
        raise Invalid(
            f"the arguments of this order for logs are wrong: {trouble}",
            remedy="use `holdfast logs SERVICE`, which makes and submits such an order",
            code="stream_arguments",
        ) from None


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= TAIL_MAX):
        raise ValueError("tail must be a number of lines")
    return int(text)


def _seconds(text: str) -> float:
    whole, _, part = text.partition(".")
    if not (text.isascii() and whole.isdigit() and len(text) <= 24 and (not part or part.isdigit())):
        raise ValueError("a time must be a number of seconds")
    return float(text)


# ---- the frames


def written(frames: Iterable[Frame]) -> bytes:
    return _encoder.encode_lines(list(frames))


def clipped(text: str) -> str:
    """As much of a line as fits into a frame, without anything that is not text (half a surrogate pair)."""
    if len(text) > TEXT_CHARS_MAX:
        text = text[:TEXT_CHARS_MAX] + "…"
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


class Frames:
    """Takes bytes as they come, returns complete frames. Holds at most one unfinished frame."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, content: bytes) -> list[Frame]:
        self._rest += content
        *whole, rest = self._rest.split(b"\n")
        if len(rest) > FRAME_BYTES_MAX or any(len(line) > FRAME_BYTES_MAX for line in whole):
            raise _malformed(f"a frame is longer than {FRAME_BYTES_MAX:,} bytes")
        self._rest = rest
        return [_read(line) for line in whole]


def _read(line: bytearray) -> Frame:
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise _malformed(str(trouble)) from None


def _malformed(why: str) -> Corrupt:
    return Corrupt(
        f"the stream sent invalid data: {why}",
        remedy="check that both ends run compatible releases: holdfast node list",
        code="stream_malformed",
    )
