"""Check operators: usable keys, no two alike, and thresholds they can reach. Pure."""

from collections.abc import Sequence

from holdfast.declared.flaw import Flaws
from holdfast.declared.layout import FLEET_FILE
from holdfast.declared.words import shown
from holdfast.errors import Invalid
from holdfast.model import ssh_key, trust
from holdfast.model.fleet import Operator, Thresholds
from holdfast.model.ids import parse_address

EVERY_SERVICE = "service.*"


def check(operators: Sequence[Operator], thresholds: Thresholds, complete: bool, flaws: Flaws) -> None:
    """`complete`: no operator was left out for a mistake; only then can they be counted."""
    owners: dict[bytes, str] = {}
    for at, operator in enumerate(operators):
        _check_key(at, operator, owners, flaws)
        _check_scope(at, operator, flaws)
    if complete:
        _check_thresholds(operators, thresholds, flaws)


def _check_key(at: int, operator: Operator, owners: dict[bytes, str], flaws: Flaws) -> None:
    try:
        blob = ssh_key.parse(operator.key).blob
    except Invalid as trouble:
        flaws.add_checked(FLEET_FILE, ("operators", at, "key"), trouble.message, trouble.remedy)
        return
    owner = owners.setdefault(blob, operator.name)
    if owner != operator.name:
        flaws.add_checked(
            FLEET_FILE,
            ("operators", at, "key"),
            f'is also the key of operator "{owner}"',
            "give each operator their own key, or two signatures would count as one",
        )


def _check_scope(at: int, operator: Operator, flaws: Flaws) -> None:
    for index, address in enumerate(operator.scope):
        if address == EVERY_SERVICE:
            continue
        try:
            parse_address(address)
        except Invalid:
            flaws.add_checked(
                FLEET_FILE,
                ("operators", at, "scope", index),
                f"{shown(address)} is not an address",
                f'write KIND.NAME such as "service.web" or "node.w1", or "{EVERY_SERVICE}"',
            )


def _check_thresholds(operators: Sequence[Operator], thresholds: Thresholds, flaws: Flaws) -> None:
    if not any(operator.grade == "root" for operator in operators):
        flaws.add(
            FLEET_FILE,
            ("operators",),
            "no operator has the grade root, so the operators could never be changed",
            'give one operator grade = "root"',
        )
        return
    for grade in trust.GRADES:
        able = sum(trust.may_sign(operator, grade) for operator in operators)
        needed = getattr(thresholds, grade)
        if able < needed:
            flaws.add(
                FLEET_FILE,
                ("trust", grade),
                f"needs {needed} signatures of grade {grade}, but only {able} of the operators can give one",
                "lower it, or add operators",
            )
