"""The limits for removals: protection, removals_max and --allow-removals. Pure (C-08, I-37, W12)."""

from holdfast.errors import Invalid, NotPermitted
from holdfast.model.applied import Applied, table_of
from holdfast.model.plan import Change, Plan
from holdfast.model.revision import Table
from holdfast.planning.documents import removals_max


def protected(removals: tuple[Change, ...], applied: Table) -> tuple[str, ...]:
    """The ledger stores the protection: deleting the file that declared it does not remove it."""
    return tuple(change.address for change in removals if applied.entries[change.address].protect)


def _counted(removals: tuple[Change, ...]) -> str:
    """`1 service`, `2 resources`: resources if the kinds differ."""
    kinds = {change.address.partition(".")[0] for change in removals}
    kind = kinds.pop() if len(kinds) == 1 else "resource"
    return f"{len(removals)} {kind}{'s' * (len(removals) != 1)}"


def check_planned(plan: Plan, applied: Applied | None, allowed: int | None) -> None:
    limit = removals_max(applied.contents, applied.table) if applied is not None and plan.removals else 0
    check(plan.removals, table_of(applied), limit, allowed)


def check(removals: tuple[Change, ...], applied: Table, removals_max: int, allowed: int | None) -> None:
    """Refuse unless the operator gave the exact number, within the fleet's limit, and nothing is protected."""
    if not removals:
        if allowed:
            raise Invalid(
                f"--allow-removals {allowed} was given, but this plan removes nothing",
                remedy="run the same command without --allow-removals",
                code="wrong_removals",
            )
        return
    names = ", ".join(change.address for change in removals[:8]) + (" …" if len(removals) > 8 else "")
    held = protected(removals, applied)
    if held:
        raise NotPermitted(
            f"{', '.join(held)} is protected in the ledger, and this plan would remove it",
            remedy=f"restore services/{held[0].partition('.')[2]}.toml if it is gone; to remove it, first apply it "
            "with protect = false (grade destroy), then delete the file and run the same command again",
            code="protected",
        )
    if len(removals) > removals_max:
        raise NotPermitted(
            f"this plan removes {len(removals)} resources ({names}); the fleet allows {removals_max} at a time",
            remedy="restore the missing files, remove fewer at a time, or raise removals_max in fleet.toml and apply "
            "that first (grade destroy)",
            code="too_many_removals",
        )
    if allowed is None:
        raise NotPermitted(
            f"this plan removes {_counted(removals)}: {names}",
            remedy="if a file is missing by mistake, restore it; if that is meant, run the same command with "
            f"--allow-removals {len(removals)}",
            code="removals_not_allowed",
        )
    if allowed != len(removals):
        raise Invalid(
            f"--allow-removals {allowed} was given, but this plan removes {len(removals)}: {names}",
            remedy=f"read the plan again; confirm with --allow-removals {len(removals)}",
            code="wrong_removals",
        )
