"""When a provider takes a credential back. It never does because something is silent (F-15, I-10). Pure.

A credential goes if the need is not in the accepted revision any more, the node that has it says in a signed statement
of that revision or a later one that it does not hold it, for as long as the grace says, and no state was put back.
"""

from typing import Literal

from msgspec import Struct

from holdfast.model.holdings import Holdings

Verdict = Literal["keep", "absent", "present", "replaced"]
Stage = Literal["making", "issued", "held", "disabled"]


class Grant(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One credential, in the journal of its provider. `answer` is sealed to the node, and kept until it is held."""

    generation: int
    handle: str
    type: str
    epoch: int
    stage: Stage = "making"
    params: dict[str, str] = {}
    issued_s: float = 0.0
    ttl_s: float = 0.0
    answer: bytes = b""


class Book(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """All credentials of one need on one node, oldest first. `dropped_in`: the first revision, as far as this node
    accepted them, without that need there; 0 while it is declared."""

    service: str
    need: str
    node: str
    key: str  # SSH public line of the node
    grants: tuple[Grant, ...] = ()
    dropped_in: int = 0

    @property
    def newest(self) -> Grant | None:
        return self.grants[-1] if self.grants else None


class Absence(Struct, frozen=True):
    """Confirmed absence of one handle, in the present life of this provider."""

    life: str  # of the node that says so
    last_s: float  # monotonic
    sum_s: float = 0.0


def judge(book: Book, grant: Grant, said: Holdings, is_sure: bool) -> Verdict:
    """`is_sure`: no state of this provider was put back."""
    if grant.handle in said.handles:
        return "present"
    if not is_sure or not said.is_sure:
        return "keep"
    newest = book.newest
    if newest is not None and newest is not grant and newest.handle in said.handles:
        return "replaced"  # the node holds the newer one only
    if not book.dropped_in or said.revision < book.dropped_in:
        return "keep"
    return "absent"


def counted(before: Absence | None, life: str, now_s: float, interval_s: float) -> Absence:
    """One more confirmed absence. The time since the last one counts, at most two sweeps of it: a gap proves
    nothing. A new life of the node begins from 0."""
    if before is None or before.life != life:
        return Absence(life, now_s)
    return Absence(life, now_s, before.sum_s + min(max(now_s - before.last_s, 0.0), 2 * interval_s))


def is_older(said: Holdings, before: Holdings | None) -> bool:
    """A statement that was sent before the last one: it proves nothing."""
    return before is not None and said.life == before.life and said.sequence <= before.sequence


def next_of(book: Book, has: int) -> tuple[int, Grant | None]:
    """The generation that an ask gets, and the grant that it gets again: one that is not finished, or whose answer may
    not have arrived. `has` is the generation that the node has."""
    newest = book.newest
    if newest is None:
        return has + 1, None  # the first one, or the next after one that was taken back
    if newest.generation > has and newest.stage in ("making", "issued"):
        return newest.generation, newest
    return max(newest.generation, has) + 1, None
