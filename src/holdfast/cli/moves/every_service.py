"""Move every service of a node, one after another; stop at the first that fails."""

from argparse import Namespace
from collections.abc import Callable

import msgspec

from holdfast.cli.fleet import signing
from holdfast.cli.fleet.commit_plan import commit, with_message
from holdfast.cli.fleet.session import Standing
from holdfast.cli.moves import one_service
from holdfast.cli.moves.looking import look
from holdfast.cli.nodes import fleet_view
from holdfast.cli.sizes import counted
from holdfast.cli.tools import Toolbox
from holdfast.cli.waiting import outcome, verdict
from holdfast.errors import HoldfastError
from holdfast.model.plan import Plan

Moved = dict[str, str]  # service → where it runs now


def run(args: Namespace, box: Toolbox) -> int:
    """M-111: those that moved are not on that node any more, so the same command goes on where it stopped."""
    _, view = look(args, box)
    fleet_view.node(view, args.source, args)
    here = one_service.services_on(args.source, view.applied)
    core = [name for name in here if view.applied.service(name).tier == "core"]
    every = [name for name in here if name not in core]
    if core:
        box.terminal.remark(f'Not moved: {", ".join(core)} (tier = "core" belongs to the hub node)')
    if every:
        box.terminal.remark(f"{counted(len(every), 'service')} of {args.source}, in this order: {', '.join(every)}")
        box.terminal.confirm(f"Move {'it' if len(every) == 1 else 'them all'}?", "not moved")
    moved: Moved = {}
    for number, name in enumerate(every, 1):
        box.terminal.remark(f"[{number}/{len(every)}] {name}")
        try:
            moved[name] = _move(name, args, box)
        except HoldfastError as trouble:
            _tell_where(trouble, name, list(moved), every[number:])
            raise
    if args.json:
        rows = [{"service": name, "to": node} for name, node in moved.items()]
        document = {"from": args.source, "moved": rows, "skipped": core, "success": True}
        box.terminal.say_raw(msgspec.json.encode(document).decode())
    else:
        said = ", ".join(f"{name} to {node}" for name, node in moved.items())
        box.terminal.say(f"Moved: {said}." if moved else f"No service of {args.source} is left to move.")
    return 0


def _move(name: str, args: Namespace, box: Toolbox) -> str:
    """Each is planned when its turn comes, on top of the moves before it."""
    current, view = look(args, box)
    found = one_service.planned(name, current, view, args, box)
    plan = found.plan
    (change,) = (one for one in plan.changes if one.address == f"service.{name}")
    for note in change.notes:
        box.terminal.remark(f"{name} to {change.node}: {note}")
    for warning in plan.warnings:
        box.terminal.warn(warning)
    carried(plan, current, args, box, lambda: one_service.written(name, found, view, args, box))
    return change.node


def carried(plan: Plan, current: Standing, args: Namespace, box: Toolbox, first: Callable[[], object]) -> None:
    """Sign, commit and wait, as a part of a longer command. `first` is done before the commit."""
    assert plan.candidate is not None and current.hub is not None
    signing.refuse_if_hopeless(plan, current.applied, args, box)
    candidate = with_message(signing.signed(plan.candidate, signing.sign(plan, current.applied, args, box)), args)
    first()
    head = commit(candidate, current.applied, current.target, current.heads, box)
    if not args.detach:
        seen = outcome.wait(current.hub, current.applied, head, box)
        if (trouble := verdict.trouble(seen, head, current.hub)) is not None:
            raise trouble


def _tell_where(trouble: HoldfastError, name: str, moved: list[str], left: list[str]) -> None:
    """It stays the error that it is."""
    so_far = f"; moved before: {', '.join(moved)}" if moved else ""
    more = f"; not begun: {', '.join(left)}" if left else ""
    trouble.message = f"stopped at {name}: {trouble.message}{so_far}{more}"
    trouble.remedy = f"{trouble.remedy}; then the same command goes on"
