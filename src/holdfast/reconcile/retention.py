"""Which backups of a service stay on a target. Pure.

A backup is kept if one rule wants it. Backups by a schedule, by an order and by a hub are counted apart, so that none
of them displaces another. The newest one, the newest proven one and the newest that was read back always stay.

A node that takes a service over begins with number 1 in a later epoch, so backups have the order of both. Which of its
backups the node before had proven is not known here: they stay until this node has its own, one that is proven and one
that was read back. Until then, and if they claim to be newer, they take no place from any other backup.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from holdfast.model.backup import Cause, Receipt

DAY_S = 86_400
HUB_LAST = 2  # of the backups that a hub brought forward, which needs no signature
FOREIGN = "of another node"


class Policy(Struct, frozen=True):
    """How many: the newest ones, and the newest one of each of so many days, weeks and months that have any."""

    last: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0


class Held(Struct, frozen=True):
    """One backup on a target. `proven`: a drill restored it and it was healthy. `read`: every stored byte was read and
    was right. `mine`: the node that asks signed for it."""

    id: str
    sequence: int
    made_s: int
    cause: Cause
    proven: bool = False
    read: bool = False
    epoch: int = 0
    mine: bool = True

    @property
    def order(self) -> tuple[int, int, str]:
        """Newer ones are greater."""
        return self.epoch, self.sequence, self.id


def kept(held: Collection[Held], policy: Policy) -> Mapping[str, str]:
    """id → the reason why it stays. Everything else may go."""
    proven = max((one.epoch for one in held if one.mine and one.proven), default=0)
    read = max((one.epoch for one in held if one.mine and one.read), default=0)
    reasons = {one.id: FOREIGN for one in held if not one.mine and one.epoch >= min(proven, read)}
    newest_first = sorted((one for one in held if one.id not in reasons), key=lambda one: one.order, reverse=True)
    for one in newest_first[:1]:
        reasons[one.id] = "the newest"
    for one in (one for one in newest_first if one.proven):
        reasons.setdefault(one.id, "the newest that is proven")
        break
    for one in (one for one in newest_first if one.read):
        reasons.setdefault(one.id, "the newest that was read back")
        break
    for cause in ("schedule", "order"):
        _by_policy([one for one in newest_first if one.cause == cause], policy, reasons)
    _first(HUB_LAST, (one for one in newest_first if one.cause == "hub"), reasons, "one of the last")
    return reasons


def unneeded(kept: Iterable[Receipt], stored: Collection[str]) -> set[str]:
    """Digests of stored objects that no kept backup names."""
    needed = {one.digest for receipt in kept for one in (receipt.manifest, *receipt.packs)}
    return set(stored) - needed


def _by_policy(newest_first: Sequence[Held], policy: Policy, reasons: dict[str, str]) -> None:
    _first(policy.last, newest_first, reasons, "one of the last")
    for count, name, period in (
        (policy.daily, "day", _day),
        (policy.weekly, "week", _week),
        (policy.monthly, "month", _month),
    ):
        _first(count, _newest_of_each(newest_first, period), reasons, f"the newest of its {name}")


def _first(count: int, newest_first: Iterable[Held], reasons: dict[str, str], reason: str) -> None:
    for _, one in zip(range(count), newest_first, strict=False):
        reasons.setdefault(one.id, reason)


def _newest_of_each(newest_first: Iterable[Held], period: Callable[[int], tuple[int, ...]]) -> Iterable[Held]:
    seen = set[tuple[int, ...]]()
    for one in newest_first:
        of = period(one.made_s // DAY_S)
        if of not in seen:
            seen.add(of)
            yield one


# Periods of a day, which is counted from 1970-01-01, a Thursday. All in UTC.


def _day(day: int) -> tuple[int, ...]:
    return (day,)


def _week(day: int) -> tuple[int, ...]:
    """From Monday to Sunday."""
    return ((day + 3) // 7,)


def _month(day: int) -> tuple[int, ...]:
    """Year and month of the Gregorian calendar. The year begins with March here, so that a leap day is its last one."""
    era, of_era = divmod(day + 719_468, 146_097)  # 400 years each, from 0000-03-01 on
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    from_march = (5 * of_year + 2) // 153
    return (era * 400 + year, from_march)
