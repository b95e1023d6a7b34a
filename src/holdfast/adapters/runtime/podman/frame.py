"""Decode podman's output stream: frames of an 8-byte header (stream, length) and content. Pure."""

import re
from collections.abc import Iterator
from datetime import datetime

from holdfast.ports.runtime import LogLine

HEAD_BYTES = 8
STDERR = 2
FRAME_BYTES_MAX = 16 * 1024 * 1024

_stamp = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d) ?")


class Frames:
    """Bytes in as they arrive, complete frames out: stream and content."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, piece: bytes) -> Iterator[tuple[int, bytes]]:
        self._held += piece
        while len(self._held) >= HEAD_BYTES:
            length = int.from_bytes(self._held[4:HEAD_BYTES], "big")
            if length > FRAME_BYTES_MAX:
                raise ValueError(f"a frame of {length} bytes")
            if len(self._held) < HEAD_BYTES + length:
                return
            stream, content = self._held[0], bytes(self._held[HEAD_BYTES : HEAD_BYTES + length])
            del self._held[: HEAD_BYTES + length]
            yield stream, content


def log_line(container: str, stream: int, content: bytes) -> LogLine:
    text = content.decode("utf-8", errors="replace").removesuffix("\n")
    found = _stamp.match(text)
    if found is None:
        return LogLine(container, 0.0, stream == STDERR, text)
    whole = datetime.fromisoformat(found[1] + found[3].replace("Z", "+00:00")).timestamp()
    return LogLine(container, whole + float(found[2] or 0), stream == STDERR, text[found.end() :])
