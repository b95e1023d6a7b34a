"""The facts the gate decides by, read from this agent's journal and disk, never from a message. Pure."""

from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.gate.acts import Data, Provenance
from holdfast.ports.journal import Journal
from holdfast.ports.storage import DataDirectory


class Facts(Struct, frozen=True):
    provenance: Provenance
    data: Data


# For acts that touch nothing on the disk: nothing was made, nothing can be lost. Rows about settings ignore it.
NO_THING = Facts(Provenance.FOREIGN, Data.NOTHING)


def provenance(journal: Journal, path: str, operation: str | None) -> Provenance:
    """`operation` is the journaled operation in progress, or None. An unreadable journal gives UNKNOWN."""
    try:
        maker, scratch = journal.made_by(path), journal.is_scratch(path)
        is_under_way = maker == operation and maker in {entry.operation.id for entry in journal.unfinished()}
    except (HoldfastError, OSError):
        return Provenance.UNKNOWN
    if maker is None:
        return Provenance.FOREIGN  # a scratch mark without an entry of its maker does not count
    if is_under_way:
        return Provenance.OWN_TRANSACTION
    return Provenance.OWN_SCRATCH if scratch else Provenance.OWN_EARLIER


def data(directory: DataDirectory | None, proven_copies: int = 0) -> Data:
    """A copy counts only if it was read back and found complete, where this node cannot lose it together with this."""
    if directory is None:
        return Data.NOTHING
    if directory.entries == 0:
        return Data.EMPTY
    return Data.COPIED if proven_copies > 0 else Data.MAYBE_ONLY_COPY


def look(journal: Journal, directory: DataDirectory | None, operation: str | None, proven_copies: int = 0) -> Facts:
    made = provenance(journal, directory.path, operation) if directory is not None else Provenance.FOREIGN
    return Facts(made, data(directory, proven_copies))
