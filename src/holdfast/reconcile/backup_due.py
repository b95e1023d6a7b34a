"""When a service is backed up: at its times, by request, and after a failure again. Pure."""

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model.backup_report import BackupMade
from holdfast.reconcile.backup_times import Times

PAUSE_S, PAUSE_S_MAX = 300.0, 3600.0  # after the first failure, and at most
AHEAD_S = 25 * 3600.0  # a backup so far in the future was dated by a wrong clock
STALE_PAUSES = 2.0  # the longest ones between two backups
ORDERS_KEPT = 3


class Book(Struct, frozen=True, omit_defaults=True):
    """What the node keeps on its disk about the backups of one service."""

    known_s: float  # since when this node is to back it up
    last: BackupMade | None = None
    asked_s: float = 0.0  # an order or a hub asks for one since then; 0: none does
    asked_by: str = ""  # id of the order; "" for a hub
    tried_s: float = 0.0  # when the last attempt that failed ended
    failures: int = 0  # since the last backup
    trouble: str = ""  # of the last attempt
    failed_by: tuple[str, ...] = ()  # the newest orders whose backup failed: their commands may still wait

    @property
    def last_s(self) -> float:
        """When the last backup began; 0: none was made."""
        return self.last.made_s if self.last is not None else 0.0

    @property
    def sequence(self) -> int:
        return self.last.sequence if self.last is not None else 0


def next_s(book: Book, now_s: float, times: Times, phase_s: float) -> float:
    """When the next backup is due; now or earlier if one is due now."""
    if book.asked_s:
        return max(book.asked_s, _after_pause(book))
    if not book.last_s or book.last_s > now_s + AHEAD_S:
        return max(book.known_s, _after_pause(book))
    return max(times.due_s(book.last_s, phase_s), _after_pause(book))


def _after_pause(book: Book) -> float:
    if not book.failures:
        return 0.0
    return book.tried_s + min(PAUSE_S * (1 << min(book.failures - 1, 10)), PAUSE_S_MAX)


def asked(book: Book, now_s: float, order: str = "") -> Book:
    """The pause after a failure is over: a request is tried at once. An order replaces the request of a hub."""
    return replace(book, asked_s=now_s, asked_by=order or book.asked_by, tried_s=0.0)


def failed(book: Book, now_s: float, trouble: str) -> Book:
    """This is the answer to an order; what was due is tried again."""
    failed_by = (*book.failed_by, book.asked_by)[-ORDERS_KEPT:] if book.asked_by else book.failed_by
    return replace(
        book,
        tried_s=now_s,
        failures=book.failures + 1,
        trouble=trouble,
        asked_s=0.0,
        asked_by="",
        failed_by=failed_by,
    )


def done(book: Book, made: BackupMade) -> Book:
    """A request that came while it ran is for another one."""
    still_asked = book.asked_s > made.made_s
    return replace(
        book,
        last=made,
        asked_s=book.asked_s if still_asked else 0.0,
        asked_by=book.asked_by if still_asked else "",
        tried_s=0.0,
        failures=0,
        trouble="",
    )


def is_stale(book: Book, now_s: float, times: Times) -> bool:
    """A clock that was ahead when the last backup was made does not hide it for longer than that."""
    last_s = book.last_s if book.last_s <= now_s + AHEAD_S else 0.0
    return now_s - (last_s or book.known_s) > STALE_PAUSES * times.longest_s
