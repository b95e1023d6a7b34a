"""Lines of progress: bytes, rate, and the time that is left. One for each tenth; for each 64 MiB if the end is open."""

from holdfast.cli.sizes import size
from holdfast.cli.tools import Toolbox

STEP_BITS = 26


class ProgressLines:
    def __init__(self, box: Toolbox) -> None:
        self._box = box
        self._shown = -1

    def show(self, done_bytes: int, total_bytes: int, since_s: float) -> None:
        """`total_bytes` is 0, or too small, if the end is not known. The rate is that since the begin."""
        is_known = total_bytes >= done_bytes > 0
        step = done_bytes * 10 // total_bytes if is_known else done_bytes >> STEP_BITS
        if step <= self._shown or not done_bytes:
            return
        self._shown = step
        rate = done_bytes / max(self._box.clock.now_s() - since_s, 0.1)
        total = f" of {size(total_bytes)}" if is_known else ""
        left = f", {(total_bytes - done_bytes) / rate:.0f} s left" if is_known else ""
        self._box.terminal.remark(f"{size(done_bytes)}{total}, {size(int(rate))}/s{left}")
