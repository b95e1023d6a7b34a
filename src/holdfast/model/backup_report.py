"""What a node reports about its backups. Values only."""

from msgspec import Struct

from holdfast.model.backup import Cause


class BackupMade(Struct, frozen=True, omit_defaults=True):
    """The last backup of a service; `id` begins the digest of its receipt."""

    id: str
    digest: str
    sequence: int
    made_s: float
    took_s: float
    cause: Cause
    files: int
    size_bytes: int
    stored_bytes: int  # of all its objects
    new_bytes: int  # of those that were stored for it
    target: str
    order: str = ""  # that asked for it
    left_out: int = 0  # sockets, devices and other file systems; their names stay on the node
    unsettled: int = 0  # files that changed while they were read


class Copies(Struct, frozen=True, omit_defaults=True):
    """The backups of a service on one target, as its node last saw them."""

    target: str
    held: tuple[int, ...] = ()  # sequences, the newest first; not all of many
    lacks: int = 0  # backups that belong there and are not there yet
    read_s: float = 0.0  # when every byte of one was last read and right; 0: never
    same_machine: bool = False  # lost with the machine of the data: counts as no copy


class TargetReport(Struct, frozen=True, omit_defaults=True):
    """A storage target, as its node sees it."""

    name: str
    state: str  # of ports/backup_target.py
    reason: str = ""
    since_s: float = 0.0  # in this state
    free_bytes: int | None = None


class BackupState(Struct, frozen=True, omit_defaults=True):
    service: str
    next_s: float = 0.0
    last: BackupMade | None = None
    running_s: float = 0.0  # since when one is being made; 0: none is
    done_bytes: int = 0
    total_bytes: int = 0  # 0: not known
    failures: int = 0  # since the last one
    trouble: str = ""
    stale: bool = False
    failed_by: tuple[str, ...] = ()  # the newest orders whose backup failed
    copies: tuple[Copies, ...] = ()  # only where there are targets besides the hub


class RestoreState(Struct, frozen=True, omit_defaults=True):
    """A backup that is being brought back: fetched, and then perhaps loaded by a command of its service."""

    service: str
    since_s: float
    done_bytes: int = 0
    total_bytes: int = 0
    loads: bool = False


class BackupStates(Struct, frozen=True):
    """The backups in a report. Readers take only this of it."""

    backups: tuple[BackupState, ...] = ()
    targets: tuple[TargetReport, ...] = ()  # besides the hub
    restores: tuple[RestoreState, ...] = ()
