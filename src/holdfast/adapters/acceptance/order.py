"""The one rule of what may replace what was accepted: the same revision again, or a higher one. Pure."""

from holdfast.errors import Corrupt
from holdfast.ports.acceptance import Accepted


def check_forward(before: Accepted | None, after: Accepted) -> None:
    if before is None or (after.head == before.head and after.fleet == before.fleet):
        return
    if after.fleet != before.fleet or after.head.number <= before.head.number:
        raise Corrupt(
            f"revision {after.head.number} ({after.head.digest[:12]}…) would take the place of revision "
            f"{before.head.number} ({before.head.digest[:12]}…), which this node accepted before",
            remedy="restore the hub's ledger that has the newer revision: holdfast import ledger",
            code="revision_refused",
        )
