"""How a log line is shown: its source, its time, and no terminal control characters."""

from typing import Any

import msgspec
from msgspec import Struct

from holdfast.cli.terminal import Terminal
from holdfast.cli.text import harmless
from holdfast.model.stream import StreamedLine

STYLES = ("cyan", "green", "yellow", "blue")


class Manner(Struct, frozen=True):
    service: str
    timestamps: bool = False
    as_json: bool = False
    raw: bool = False


class LogLines:
    """Each source gets a colour (they repeat); names are aligned to the longest one so far."""

    def __init__(self, terminal: Terminal, manner: Manner) -> None:
        self._terminal = terminal
        self._manner = manner
        self._styles: dict[str, str] = {}
        self._width = 0

    def text(self, node: str, said: StreamedLine) -> str:
        if self._manner.as_json:
            return msgspec.json.encode(self.document(node, said)).decode()
        source = harmless(f"{node} {self._manner.service}/{said.component}.{said.replica}")
        self._width = max(self._width, len(source))
        style = self._styles.setdefault(source, STYLES[len(self._styles) % len(STYLES)])
        when = f"{read_by_people(said.at_s)} " if self._manner.timestamps else ""
        words = said.text if self._manner.raw else harmless(said.text.rstrip("\r\n").expandtabs())
        return f"{self._terminal.paint(style, f'{source:<{self._width}} |')} {when}{words}"

    def document(self, node: str, said: StreamedLine) -> dict[str, Any]:
        return {
            "node": node,
            "service": self._manner.service,
            "component": said.component,
            "replica": said.replica,
            "container": said.container,
            "time": moment(said.at_s),
            "stream": "stderr" if said.error else "stdout",
            "text": said.text,
        }


def read_by_people(at_s: float) -> str:
    """Without digits that the runtime did not tell: podman 4.3 tells whole seconds (N45)."""
    return moment(at_s).replace(".000000Z", "Z")


def moment(at_s: float) -> str:
    """RFC 3339 in UTC, with microseconds."""
    from time import gmtime, strftime

    sane = min(max(at_s, 0.0), 253402300799.0)  # a node may report any number
    whole, part = divmod(round(sane * 1_000_000), 1_000_000)
    return f"{strftime('%Y-%m-%dT%H:%M:%S', gmtime(whole))}.{part:06d}Z"
