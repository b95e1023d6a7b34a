"""How many checkpoints a node keeps, and whether one more may be made. Pure.

No limit removes a checkpoint that is younger than seven days, nor the last one of a service that has content: at a
limit the rollout waits, and an operator of grade destroy deletes one.
"""

from collections.abc import Sequence

from holdfast.model.container import Guest
from holdfast.model.size import size
from holdfast.ports.storage import Checkpoint, Need

KEPT_S = 7 * 24 * 3600.0
COUNT_MAX = 100  # of one service
SHARE_MAX = 0.5  # of the file system, by all checkpoints of the node


def off(guest: Guest) -> frozenset[str]:
    """Names of volumes that no checkpoint has. They lie directly inside the directory of their service."""
    return frozenset(source.rpartition("/")[2] for part in guest.parts for source in part.off)


def prunable(found: Sequence[Checkpoint], service: str, now_s: float) -> list[Checkpoint]:
    """Old ones of this service, without the newest and without the last one that has content."""
    mine = sorted((one for one in found if one.service == service), key=lambda one: (one.made_s, one.id))
    last = [one for one in mine if one.has_content][-1:]
    return [one for one in mine[:-1] if one not in last and now_s - one.made_s >= KEPT_S]


def refusal(found: Sequence[Checkpoint], service: str, need: Need, wanted: int) -> str | None:
    """Why `wanted` more checkpoints of this service are not made now; `found` is what stays after the old ones went."""
    count = sum(one.service == service for one in found)
    written_bytes = need.written_bytes * wanted
    if count + wanted > COUNT_MAX:
        return f"{count} checkpoints of {service} are kept on this node, and {COUNT_MAX} is the most that may be kept"
    if written_bytes > need.room_bytes:
        free = size(max(need.room_bytes, 0))
        return f"a checkpoint of {service} takes {size(written_bytes)}, and its disk has {free} for it"
    if need.held_bytes + written_bytes > need.disk_bytes * SHARE_MAX:
        return (
            f"the checkpoints of this node take {size(need.held_bytes)} of {size(need.disk_bytes)}, and one more of "
            f"{service} takes {size(written_bytes)}: together more than half of the disk"
        )
    return None
