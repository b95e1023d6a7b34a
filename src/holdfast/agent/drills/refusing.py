"""What a drill cannot prove: the backup may be good."""

from holdfast.agent.services.records import Records
from holdfast.errors import Failed
from holdfast.model import dump
from holdfast.model.backup import VerifiedReceipt
from holdfast.model.container import Guest
from holdfast.reconcile import drill_copy

MARGIN_BYTES = 256 << 20  # what the service itself may write while it is tried
FILE_BYTES = 4096  # that each file takes at least
LOADED = 2  # what the program of the service makes of a dump, in sizes of the dump: tables and indexes


def serving(records: Records, service: str) -> Guest:
    """What a restored backup is tried with."""
    found = records.of(service).serving
    if found is None:
        raise Failed(
            f"{service} does not serve on this node yet, so there is nothing to try the backup with",
            remedy=f"holdfast ps {service}",
            code="not_serving",
        )
    return found


def refuse(found: VerifiedReceipt, guest: Guest, data_dir: str, room_bytes: int) -> None:
    receipt, service = found.receipt, found.receipt.service
    if (path := drill_copy.outside(guest, data_dir)) is not None:
        raise Failed(
            f"{service} mounts {path}, which is not in its backups, and a drill must not have the real one",
            remedy=f"declare a volume for this data in services/{service}.toml and move it there; without a drill, "
            f"`holdfast restore {service} --backup ID --beside` brings one back beside the data, to look at it",
            code="outside_mount",
        )
    sizes = 1 + LOADED if dump.is_made_by(receipt.method) else 1
    need_bytes = receipt.size_bytes * sizes + receipt.files * FILE_BYTES + MARGIN_BYTES
    if room_bytes < need_bytes:
        raise Failed(
            f"a drill of {service} needs {need_bytes:,} bytes of disk, and {max(room_bytes, 0):,} may be used",
            remedy="free some space on this node: `df -h` shows it",
            code="no_space",
        )


def no_room(words: str) -> Failed:
    return Failed(
        f"the disk of this node had no room left: {words}",
        remedy="free some space on this node: `df -h` shows it",
        code="no_space",
    )
