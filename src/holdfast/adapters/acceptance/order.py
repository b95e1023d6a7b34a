"""The rule for replacing an accepted revision: only the same one or a higher number. Pure."""

from holdfast.errors import Corrupt
from holdfast.ports.acceptance import Accepted


def check_forward(before: Accepted | None, after: Accepted) -> None:
    if before is None or (after.head == before.head and after.fleet == before.fleet):
        return
    if after.fleet != before.fleet or after.head.number <= before.head.number:
        raise Corrupt(
            f"revision {after.head.number} ({after.head.digest[:12]}…) cannot replace revision "
            f"{before.head.number} ({before.head.digest[:12]}…), which this node has accepted",
            remedy="restore the hub ledger that contains the newer revision: holdfast import ledger",
            code="revision_refused",
        )
