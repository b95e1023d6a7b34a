"""Moves of data between two nodes: who may run the service, and when the source stops it. Pure.

Two nodes never run it at once: the target waits for the signed handover of the source, and the source, once it has
signed, never starts the service again in that epoch.
"""

from msgspec import UNSET, Struct

from holdfast.model.move import Pass
from holdfast.model.revision import Entry

PASSES_MAX = 6
SMALL_BYTES = 64 << 20  # what changed since the last pass: copying it takes about a second
BRIEF_S = 3.0  # a pass that took no longer


class Out(Struct, frozen=True, omit_defaults=True):
    """What this node keeps of a service that it hands over. `stopping`: it holds the service for that. `handover`: as
    signed and stored, from which moment on the data is the other node's."""

    epoch: int
    entry: Entry | None = None  # as it was before: what runs here until then. None: this node never had the data
    passes: int = 0
    stopping: bool = False
    handover: bytes = b""
    number: int = 0  # of the pass that is the handover
    manifest: str = ""  # of that pass
    handed_s: float = 0.0  # when that was signed
    held: bool = False  # an order had stopped the service before
    is_taken: bool = False  # the target said so
    is_tidy: bool = False  # nothing is left of the copying


class Into(Struct, frozen=True, omit_defaults=True):
    """What this node keeps of a service that it gets. `number` and `manifest`: the last pass that is unpacked here."""

    epoch: int
    number: int = 0
    manifest: str = ""
    placing: bool = False  # all of it is unpacked, and takes the place of the service's data
    word: Pass | None = None  # with which it was handed over; None: it is a backup
    drop: tuple[str, ...] = ()  # names in it that are no data
    has_arrived: bool = False
    is_told: bool = False  # the source knows
    left: tuple[int, ...] = ()  # earlier epochs of which half a copy may be here
    is_tidy: bool = False  # the move is over, and nothing is left of half a copy


def begun(into: Into | None, epoch: int) -> Into:
    """What is kept of the move of this epoch. Half a copy of one before it is still to be deleted."""
    if into is None or into.epoch == epoch:
        return into or Into(epoch)
    return Into(epoch, left=into.left if into.has_arrived or into.is_tidy else (*into.left, into.epoch))


def awaits(entry: Entry, into: Into | None) -> bool:
    """The service must not run here yet: its data is not here."""
    return entry.move is not UNSET and not (into is not None and into.has_arrived and into.epoch == entry.epoch)


def runs_on(entry: Entry, out: Out | None) -> Entry | None:
    """What runs on here, although it is placed elsewhere: its data was not handed over."""
    if out is None or out.epoch != entry.epoch or out.handover:
        return None
    return out.entry


def may_go_back(out: Out | None, epoch: int) -> bool:
    """The data that this node handed over in the epoch before is whole, and goes on here if it was never taken."""
    return out is not None and out.epoch == epoch - 1 and out.entry is not None and bool(out.handover)


def may_end(passes: int, new_bytes: int, took_s: float, ready: int) -> bool:
    """Whether the next pass is the last one, for which the service stops. `ready`: the last pass that the target has;
    it must be nearly level, or the service would stand still while it catches up."""
    is_small = new_bytes <= SMALL_BYTES or took_s <= BRIEF_S
    return passes >= 1 and ready >= passes and (is_small or passes >= PASSES_MAX)
