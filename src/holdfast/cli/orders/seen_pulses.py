"""The newest pulse of each node that this machine verified: a hub cannot show an older one unnoticed (X05)."""

import os
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from holdfast.errors import Corrupt
from holdfast.model.report import Pulse, SignedPulse

if TYPE_CHECKING:
    from holdfast.ports.disk import Disk

BYTES_MAX = 64 * 1024


class SeenPulse(Struct, frozen=True):
    """Verified with `key`."""

    signed: SignedPulse
    key: str
    life: str
    counter: int
    at_s: float


def seen(signed: SignedPulse, pulse: Pulse, key: str) -> SeenPulse:
    return SeenPulse(signed, key, pulse.life, pulse.counter, pulse.at_s)


def is_put_back(shown: SeenPulse, before: SeenPulse | None) -> bool:
    """The node used a higher order counter once, and has signed a lower one since."""
    return before is not None and shown.at_s > before.at_s and shown.counter < before.counter


def newer(shown: SeenPulse, before: SeenPulse | None) -> SeenPulse:
    """A hub that was restarted shows an older pulse for a moment; one that withholds pulses does so for longer."""
    return before if before is not None and before.at_s > shown.at_s else shown


class SeenPulses:
    """One small file per node. Written only if the life or the counter is another one."""

    def __init__(self, disk: "Disk", state_dir: str, fleet: str) -> None:
        self._disk = disk
        self._folder = os.path.join(state_dir, "pulses", fleet)

    def of(self, node: str, key: str = "") -> SeenPulse | None:
        """None also if the node has another key by now."""
        content = self._disk.read(self._path(node), BYTES_MAX)
        if content is None:
            return None
        try:
            found = msgspec.json.decode(content, type=SeenPulse)
        except (msgspec.DecodeError, UnicodeDecodeError) as trouble:
            raise Corrupt(
                f"the pulse of {node} that this machine saw before cannot be read: {trouble}",
                remedy=f"remove {self._path(node)}; the next order stores the pulse that the hub shows then",
                code="memory_damaged",
            ) from trouble
        return found if key in ("", found.key) else None

    def remember(self, node: str, shown: SeenPulse) -> None:
        before = self.of(node, shown.key)
        if before is not None and (before.life, before.counter) == (shown.life, shown.counter):
            return
        self._disk.make_directory(self._folder)
        self._disk.replace(self._path(node), msgspec.json.encode(shown))

    def _path(self, node: str) -> str:
        return os.path.join(self._folder, node + ".json")
