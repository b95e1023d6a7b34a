"""Moves of services with their data: what a revision says of one, and what the two nodes sign for. Values only."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.model import canonical
from holdfast.model.backup_key import BackupKey

NAMESPACE = "holdfast-move"
FORMAT = 1
KEY_BYTES_MAX = 4096
WORD_BYTES_MAX = 64 * 1024
EPOCH, READY = 10_000, 5_000  # the number of a word: its epoch, then passes, then what the target says
LAST = READY - 1  # the number of the last word of each side
TIME_MAX_S = 253_402_300_799.0  # the end of the year 9999

Count = Annotated[int, Meta(ge=0, le=canonical.INT_MAX)]
Number = Annotated[int, Meta(ge=0, le=LAST)]


def epoch_of(key: BackupKey) -> int:
    """Of an object of a move."""
    return key.sequence // EPOCH if key.kind == "receipts" else key.generation


class Move(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How the data of a service comes to its node in this epoch. Without a backup the source hands it over: it runs
    the service until then. `back`: the move before this one is taken back."""

    source: str  # the node that has the data
    backup: Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?$(?!\n)")] = ""  # digest of the receipt of a backup
    key: Annotated[bytes, Meta(max_length=KEY_BYTES_MAX)] = b""  # of that backup, sealed to the node
    back: bool = False
    aside: bool = False  # data of this service that is on the node already is moved aside
    kept: bool = False  # the node goes on with the copy that it kept of an older epoch: no data moves
    turn: Annotated[int, Meta(ge=0)] = 0  # of services that a node restores: it begins after those with a lower one

    @property
    def origin(self) -> str:
        """For people."""
        if self.kept:
            return "the copy that is there"
        if self.backup:
            return f"backup {self.backup[:16]}"
        return f"{'given back' if self.back else 'handed over'} by {self.source}"

    @property
    def hands_over(self) -> bool:
        """The source takes part: it has the data, and runs the service until it has handed it over."""
        return not self.backup and not self.kept


class Peer(Struct, frozen=True, forbid_unknown_fields=True):
    """Another node that this one hands data to, or gets it from."""

    key: str  # SSH public line
    address: str  # in the overlay


class Decided(Struct, frozen=True, forbid_unknown_fields=True):
    """Of one schedule: up to when its minutes were decided on the source. The target goes on from there."""

    decided_s: Annotated[float, Meta(ge=0, le=TIME_MAX_S)]
    cron: str
    timezone: str


class Pass(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the source signs for each pass: a manifest, whose packs are stored. The one with `is_last` is the handover:
    the service is stopped there, and does not start again in this epoch or an earlier one."""

    format: int
    fleet: str
    service: str
    epoch: Count
    source: str
    target: str
    number: Number
    manifest: Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?$(?!\n)")]  # digest as stored; "" if there is no pass
    files: Count
    size_bytes: Count
    new_bytes: Count
    is_last: bool = False
    deployment: str = ""  # that wrote the data
    revision: Count = 0
    schedules: dict[str, Decided] = {}  # by name
    held: bool = False  # an order had stopped the service
    untaken: bool = False  # the source never had the data: it is where the move before took it from. There is no pass
    taken: bool = False  # the target signed that it has all: the source stores this at the hub, for itself


class Ready(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the target signs: it has this pass, and could start the service now. `has_all`: it took the handover."""

    format: int
    fleet: str
    service: str
    epoch: Count
    target: str
    number: Number
    has_all: bool = False


class SignedStatement(Struct, frozen=True, forbid_unknown_fields=True):
    statement: bytes  # canonical Pass or Ready
    signature: str  # SSHSIG by the node's key
