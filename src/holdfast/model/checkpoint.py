"""What a checkpoint is a copy of. Values only."""

from collections.abc import Mapping

from msgspec import Struct

FETCHED = "backup-"  # begins the ids of checkpoints that were backups
MOVED = "move-"  # begins the ids of copies that another node handed over


def fetched_id(backup: str) -> str:
    """The id of the checkpoint that a backup becomes on a node; `backup` is the digest of its receipt."""
    return f"{FETCHED}{backup[:16]}"


def moved_id(epoch: int) -> str:
    """The id of the copy that another node hands over in this epoch, and the maker of its volumes here."""
    return f"{MOVED}{epoch}"


class Taken(Struct, frozen=True, omit_defaults=True):
    """Why a checkpoint was made, from this agent's journal. All empty: not known."""

    deployment: str = ""  # that wrote the data
    revision: int = 0  # that brought this deployment
    images: tuple[str, ...] = ()  # of this deployment
    before: str = ""  # the deployment that got the data next; "": a restore replaced the data
    before_revision: int = 0
    before_images: tuple[str, ...] = ()
    mixed: bool = False  # a component of the next deployment may have written into it already
    writers: Mapping[str, tuple[str, ...]] = {}  # by place: those that the passports admitted
    owners: Mapping[str, str] = {}  # by place: the last declared owner that all of it was given to
