"""When the backups of a service are proven by a drill, and what a drill has shown. Pure.

Drills have their times as backups have them (reconcile/backup_times.py).
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from holdfast.errors import Corrupt, HoldfastError
from holdfast.model.drill import Cause, DrillResult, Verdict
from holdfast.reconcile.backup_due import AHEAD_S
from holdfast.reconcile.backup_times import Times

FIRST_S = 3600.0  # from the first backup to its drill
PAUSE_S, PAUSE_S_MAX = 1800.0, 6 * 3600.0  # after a drill that was not conclusive
NEWER_S = 3600.0  # after a failed drill, once there is a newer backup
OVERDUE_PAUSES = 2.0
CUT_MAX = 2  # drills that the end of the agent cut off: so many in a row are repeated at once
PROVEN_KEPT = 50

# Codes of troubles that say that this backup cannot be restored; damaged bytes do too. A machine, an image or a target
# that is not there says nothing about a backup.
TRIED: frozenset[str] = frozenset(  # by the service itself
    {"not_healthy", "drill_cmd_failed", "load_failed", "unhealthy", "ended_early"}
)
RED: frozenset[str] = TRIED | {"not_found", "cannot_open", "not_the_newest"}


class Book(Struct, frozen=True, omit_defaults=True):
    """What the node keeps on its disk about the drills of one service. `proven`: digest of a receipt → when."""

    known_s: float
    last: DrillResult | None = None
    proven: Mapping[str, float] = {}
    proven_made: Mapping[str, float] = {}  # digest → when that backup was made
    asked_s: float = 0.0
    asked_by: str = ""  # id of the order; "" for a hub
    asked_for: str = ""  # digest of the backup that the order names; "" the newest
    unclear: int = 0  # drills in a row that were not conclusive
    begun_s: float = 0.0  # of the one under way; 0: none is
    cut: int = 0  # drills in a row that began and had no end, the one under way included

    @property
    def newest_proven(self) -> str:
        """The digest of the backup that was proven last."""
        return max(self.proven, key=lambda digest: self.proven[digest], default="")

    @property
    def cause(self) -> Cause:
        return "schedule" if not self.asked_s else "order" if self.asked_by else "hub"


def next_s(book: Book, phase_s: float, now_s: float, times: Times, newest: str) -> float:
    """When the next drill is due; now or earlier if one is due now. `newest`: digest of the newest backup."""
    due_s = _due_s(book, phase_s, now_s, times, newest)
    if book.cut <= CUT_MAX or book.begun_s > now_s + AHEAD_S:
        return due_s
    return max(due_s, book.begun_s + _pause_s(book.cut - CUT_MAX))  # a drill may be what ends the agent each time


def _due_s(book: Book, phase_s: float, now_s: float, times: Times, newest: str) -> float:
    if book.asked_s:
        return book.asked_s
    last = book.last
    if last is None or last.at_s > now_s + AHEAD_S:
        return book.known_s + FIRST_S + phase_s
    if last.verdict == "inconclusive":
        return last.at_s + _pause_s(book.unclear)
    due_s = times.due_s(last.at_s, phase_s)
    is_other = last.verdict == "failed" and newest not in ("", last.backup)
    return min(due_s, last.at_s + NEWER_S) if is_other else due_s


def _pause_s(tries: int) -> float:
    return min(PAUSE_S * (1 << min(max(tries - 1, 0), 8)), PAUSE_S_MAX)


def asked(book: Book, now_s: float, order: str = "", backup: str = "") -> Book:
    """An order replaces the request of a hub; a hub displaces no order. By order it does not wait for a pause."""
    if book.asked_by and not order:
        return book
    return replace(book, asked_s=now_s, asked_by=order, asked_for=backup, cut=0 if order else book.cut)


def begun(book: Book, now_s: float) -> Book:
    """Noted before anything of it exists."""
    return replace(book, begun_s=now_s, cut=book.cut + 1)


def gave_way(book: Book) -> Book:
    return replace(book, begun_s=0.0, cut=0)


def ended(book: Book, result: DrillResult) -> Book:
    """A request that came while it ran is for another one."""
    still = book.asked_s > result.at_s
    proven, made = dict(book.proven), dict(book.proven_made)
    if result.backup and result.verdict != "inconclusive":
        proven.pop(result.backup, None)
        made.pop(result.backup, None)
    if result.verdict == "verified":
        proven[result.backup] = result.at_s
        made[result.backup] = result.made_s
    kept = sorted(proven, key=lambda digest: proven[digest])[-PROVEN_KEPT:]
    return replace(
        book,
        last=result,
        proven={digest: proven[digest] for digest in kept},
        proven_made={digest: made.get(digest, 0.0) for digest in kept},
        asked_s=book.asked_s if still else 0.0,
        asked_by=book.asked_by if still else "",
        asked_for=book.asked_for if still else "",
        unclear=book.unclear + 1 if result.verdict == "inconclusive" else 0,
        begun_s=0.0,
        cut=0,
    )


def is_overdue(book: Book, now_s: float, times: Times) -> bool:
    proven_s = max((at_s for at_s in book.proven.values() if at_s <= now_s + AHEAD_S), default=0.0)
    return now_s - (proven_s or book.known_s) > OVERDUE_PAUSES * times.longest_s


def verdict_of(trouble: HoldfastError) -> Verdict:
    return "failed" if isinstance(trouble, Corrupt) or trouble.code in RED else "inconclusive"
