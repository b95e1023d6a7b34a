"""The trust resource: operators, grades and thresholds. Values and look-ups only; trust/ verifies."""

from collections.abc import Iterable

from msgspec import Struct

from holdfast.model import canonical, ssh_key
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


def needs_touch(trust: Trust, grade: Grade) -> bool:
    return grade != "apply" and trust.thresholds.destroy_requires == "touch"


def may_sign(trust: Trust, operator: Operator, grade: Grade) -> bool:
    """Whether a signature with this operator's key counts for this grade, whatever its scope."""
    if needs_touch(trust, grade) and not ssh_key.needs_touch(operator.key):
        return False
    return RANK[operator.grade] >= RANK[grade]


def too_low(operator: Operator, grade: Grade) -> str:
    """Why `may_sign` says no, for people."""
    if RANK[operator.grade] < RANK[grade]:
        return f"{operator.name} has grade {operator.grade}"
    return f'the key of {operator.name} needs no touch, and [trust] has destroy_requires = "touch"'


def outside_scope(operator: Operator, addresses: Iterable[str]) -> str | None:
    """The first address or claim this operator may not sign for, or None. An operator without a scope may sign all.

    A claim is `name:HOST`, `node:NODE`, or `worker:NODE`, which a scope without any `node:` item covers too.
    """
    if not operator.scope:
        return None
    outside = next((a for a in addresses if not _covered(operator.scope, a)), None)
    return outside.replace("worker:", "node:") if outside is not None else None  # the item that is missing


def _covered(scope: tuple[str, ...], address: str) -> bool:
    kind, _, node = address.partition(":")
    if kind == "worker":
        return f"node:{node}" in scope or not any(item.startswith("node:") for item in scope)
    return any(_covers(item, address) for item in scope)


def _covers(item: str, address: str) -> bool:
    if item.startswith("name:*."):  # the names below, not the one itself
        return address.startswith("name:") and address.endswith(item[len("name:*") :])
    return item == address or (item.endswith(".*") and ":" not in address and address.startswith(item[:-1]))
