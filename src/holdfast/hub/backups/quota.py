"""How much the store of backups may take: the hub's own ledger can always write, and one node does not take the room
of all. Pure."""

from msgspec import Struct

from holdfast.errors import Failed
from holdfast.ports.backup_objects import StoreRoom

MIB = 1024**2
RESERVE_PART = 20  # a twentieth of the disk stays free …
RESERVE_BYTES_MIN, RESERVE_BYTES_MAX = 64 * MIB, 1024 * MIB  # … between these
FILES_RESERVE_PART = 20
COMMON_PART = 10  # above the reserve, the last tenth of the disk is for nodes that have less than an equal share


class Held(Struct, frozen=True):
    """What the store has: of the node that writes, of all, and how many nodes share it."""

    node_bytes: int
    all_bytes: int
    nodes: int


def reserve_bytes(room: StoreRoom) -> int:
    return min(max(room.size_bytes // RESERVE_PART, RESERVE_BYTES_MIN), RESERVE_BYTES_MAX)


def free_bytes(room: StoreRoom, pending_bytes: int = 0) -> int:
    """That objects may still take, after those that are being written now."""
    return max(room.free_bytes - pending_bytes - reserve_bytes(room), 0)


def refusal(room: StoreRoom, pending_bytes: int, size_bytes: int, held: Held) -> Failed | None:
    left = room.free_bytes - pending_bytes - size_bytes
    if left < reserve_bytes(room):
        return _full(f"{free_bytes(room, pending_bytes):,} bytes are free for objects, {size_bytes:,} are needed")
    if room.files and room.free_files < room.files // FILES_RESERVE_PART:
        return _full("its file system has almost no inodes left")
    share = (held.all_bytes + free_bytes(room, pending_bytes)) // max(held.nodes, 1)
    common = reserve_bytes(room) + room.size_bytes // COMMON_PART
    if held.nodes > 1 and left < common and held.node_bytes + size_bytes > share:
        return _full("the last part of the disk is for nodes that have stored less than this one")
    return None


def _full(why: str) -> Failed:
    return Failed(
        f"the store of backups takes nothing more: {why}; what it has stays, and the ledger goes on",
        remedy="free space on the disk of the hub, keep fewer backups, or attach a target with [[storage]]",
        code="no_space",
    )
