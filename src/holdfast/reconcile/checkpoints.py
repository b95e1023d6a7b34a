"""How many checkpoints a node keeps and reports, and whether one more may be made. Pure.

No limit removes a checkpoint that is younger than seven days, nor the last one of a service that has content: at a
limit the rollout waits, and an operator of grade destroy deletes one.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from holdfast.model.container import Guest
from holdfast.model.report import CheckpointState, ReportedCheckpoints, UnlistedCheckpoints
from holdfast.model.size import size
from holdfast.ports.storage import Checkpoint, Need

KEPT_S = 7 * 24 * 3600.0
COUNT_MAX = 1000  # of one service
SHARE_MAX = 0.5  # of the file system, by all checkpoints of the node
LISTED_BYTES = 96 * 1024  # of a report, which is sent as a whole whenever something in it changes
DETAILED = 5  # of a service: older ones are listed without their images


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


def listed(
    found: Sequence[CheckpointState], unlisted: Sequence[UnlistedCheckpoints] = (), bytes_max: int = LISTED_BYTES
) -> ReportedCheckpoints:
    """What a report says of them: the newest of each service, as many as there is room for; the rest, and what was left
    out before, is counted."""
    ranks: Counter[str] = Counter()
    ranked = []
    for one in sorted(found, key=lambda one: (one.made_s, one.id), reverse=True):
        short = replace(one, images=(), before_images=(), left_out=(), deployment="")
        ranked.append((ranks[one.service], one if ranks[one.service] < DETAILED else short))
        ranks[one.service] += 1
    left_bytes, kept = bytes_max, []
    more = {one.service: (one.count, one.size_bytes) for one in unlisted}
    for _, one in sorted(ranked, key=lambda pair: (pair[0], pair[1].service)):
        left_bytes -= len(msgspec.json.encode(one)) + 1
        if left_bytes >= 0:
            kept.append(one)
        else:
            count, size_bytes = more.get(one.service, (0, 0))
            more[one.service] = count + 1, size_bytes + one.size_bytes
    kept.sort(key=lambda one: (one.service, one.made_s, one.id))
    return ReportedCheckpoints(
        tuple(kept), tuple(UnlistedCheckpoints(name, *much) for name, much in sorted(more.items()))
    )
