"""Check operators: usable keys, no two alike, and thresholds they can reach. Pure."""

from collections.abc import Sequence

from holdfast.declared.flaw import Flaws
from holdfast.declared.layout import FLEET_FILE
from holdfast.declared.words import shown
from holdfast.errors import Invalid
from holdfast.model import ssh_key, trust
from holdfast.model.fleet import Operator, Thresholds
from holdfast.model.ids import is_name, parse_address
from holdfast.model.size import counted
from holdfast.planning.edges import form_complaint

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
    for index, item in enumerate(operator.scope):
        if (wrong := _complaint(item)) is not None:
            flaws.add_checked(
                FLEET_FILE,
                ("operators", at, "scope", index),
                wrong,
                f'write KIND.NAME such as "service.web", or "{EVERY_SERVICE}"; a hostname beyond the service\'s own as '
                '"name:www.example.com" or "name:*.shop.example.com"; nodes to place it on as "node:w1"',
            )


def _complaint(item: str) -> str | None:
    """Why this is not an item of a scope, or None."""
    kind, colon, rest = item.partition(":")
    if item == EVERY_SERVICE or (colon and kind == "node" and is_name(rest)):
        return None
    if colon and kind == "name":
        return form_complaint(rest.removeprefix("*."))
    try:
        parse_address(item)
    except Invalid:
        return f"{shown(item)} is not an address"
    return None


def _check_thresholds(operators: Sequence[Operator], thresholds: Thresholds, flaws: Flaws) -> None:
    if not any(operator.grade == "root" for operator in operators):
        flaws.add(
            FLEET_FILE,
            ("operators",),
            "no operator has the grade root, so the operators could never be changed",
            'give one operator grade = "root"',
        )
        return
    declared = trust.of(tuple(operators), thresholds)
    for grade in trust.GRADES:
        able = sum(trust.may_sign(declared, operator, grade) for operator in operators)
        needed = trust.threshold(declared, grade)
        if able < needed and trust.needs_touch(declared, grade):
            flaws.add(
                FLEET_FILE,
                ("trust", "destroy_requires"),
                f"leaves {counted(able, 'operator')} who can sign for grade {grade}, and {needed} must: the others "
                "have keys that need no touch",
                f'make a security key: ssh-keygen -t ed25519-sk; add an operator of grade = "{grade}" with its public '
                "line",
            )
            continue
        if able < needed:
            flaws.add(
                FLEET_FILE,
                ("trust", grade),
                f"needs {counted(needed, 'signature')} of grade {grade}, but only {able} of the operators can give one",
                "lower it, or add operators",
            )
