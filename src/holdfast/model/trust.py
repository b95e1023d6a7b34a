"""The trust resource: operators, grades and thresholds. Values and look-ups only; trust/ verifies."""

from collections.abc import Iterable

from msgspec import Struct

from holdfast.model import canonical
from holdfast.model.fleet import Grade, Operator, Thresholds
from holdfast.model.ids import Digest

GRADES: tuple[Grade, ...] = ("apply", "destroy", "root")
RANK: dict[Grade, int] = {grade: rank for rank, grade in enumerate(GRADES)}


class Trust(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The operators of a fleet, sorted by name, and how many must sign for each grade."""

    operators: tuple[Operator, ...]
    thresholds: Thresholds = Thresholds()


def of(operators: tuple[Operator, ...], thresholds: Thresholds) -> Trust:
    return Trust(tuple(sorted(operators, key=lambda operator: operator.name)), thresholds)


def digest(trust: Trust) -> Digest:
    return canonical.digest(canonical.encode(trust))


def higher(one: Grade, other: Grade) -> Grade:
    return one if RANK[one] >= RANK[other] else other


def threshold(trust: Trust, grade: Grade) -> int:
    return int(getattr(trust.thresholds, grade))


def may_sign(operator: Operator, grade: Grade) -> bool:
    return RANK[operator.grade] >= RANK[grade]


def outside_scope(operator: Operator, addresses: Iterable[str]) -> str | None:
    """The first address this operator may not sign for, or None. An operator without a scope may sign everywhere."""
    if not operator.scope:
        return None
    return next((a for a in addresses if not any(_covers(scope, a) for scope in operator.scope)), None)


def _covers(scope: str, address: str) -> bool:
    return scope == address or (scope.endswith(".*") and address.startswith(scope[:-1]))
