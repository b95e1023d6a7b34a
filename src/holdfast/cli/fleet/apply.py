"""`holdfast apply`: sign the planned revision and commit it."""

from argparse import Namespace
from typing import TYPE_CHECKING

from holdfast.cli.flags import Parser
from holdfast.cli.fleet import session, show_plan, signing
from holdfast.cli.fleet.commit_plan import (
    DETACH,
    carry_out,
    check_removals,
    commit,
    nothing_to_do,
    report,
    with_message,
)
from holdfast.cli.fleet.plan import declare_message, declare_shared
from holdfast.cli.fleet.seen_heads import Heads
from holdfast.cli.nodes import accepted_heads
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict
from holdfast.model.applied import head_of
from holdfast.model.revision import Candidate

if TYPE_CHECKING:
    from holdfast.cli.fleet.saved_plan import Opened

DETAILS = """\
Plans, shows the plan, asks, signs the new revision with your SSH key and commits it. With FILE, applies a saved plan
exactly as it was saved. If another revision was applied since, the saved plan is stale (exit 5).

Then waits for each service that changed: its node reports it running (or removed), DNS answers for its names, and its
edge reports each public hostname live. A terminal shows one line for each service; -v shows every step, as does output
that is not a terminal. --detach does not wait.
Exit 1: a step failed; the previous version keeps serving. The error names the step; run the same command again to
continue. Exit 6: not ready in time ([timeouts]); nothing needs to be applied again.

The first apply creates an offline ledger (--hub DIR, default .ledger). A plan that removes something needs
--allow-removals N with the exact number. A plan that needs a higher grade or more signatures than yours exits 4 and
prints the commands that collect them.

examples:
  holdfast apply
  holdfast apply -m "raise the upload limit"
  holdfast apply --yes --allow-removals 1
  holdfast plan -o change.plan && holdfast sign change.plan --key ~/.ssh/root && holdfast apply change.plan
"""


def declare(parser: Parser) -> None:
    parser.add_argument("file", nargs="?", metavar="FILE", help="a saved plan")
    parser.add_argument("--detach", action="store_true", help=DETACH)
    declare_message(parser)
    declare_shared(parser)


def run(args: Namespace, box: Toolbox) -> int:
    return _apply_file(args, box) if args.file else apply_directory(args, box)


def apply_directory(args: Namespace, box: Toolbox, only: str | None = None) -> int:
    current = session.begin(args, box, plans=True)
    found = session.make_plan(current, args, box, only)
    _repair(current, box)
    if found.candidate is None and current.applied is not None:
        current.heads.moved(current.applied.fleet_id, current.applied.head)
    return carry_out(found, current.applied, current.target, current.heads, args, box, args.allow_removals, only)


def _repair(current: session.Session, box: Toolbox) -> None:
    """Store contents that are damaged in the ledger again, from the fleet directory."""
    if current.hub is None or current.applied is None or not current.hub.suspects_damage():
        return
    wanted = set(current.hub.damaged())
    if not wanted:
        return
    from holdfast.planning import repair

    good = repair.contents(wanted, current.fleet, current.applied)
    repaired = box.hubs.writer(current.target).mend(good) if good else 0
    if repaired:
        box.terminal.remark(f"Repaired {repaired} damaged content{'s' * (repaired != 1)} from the fleet directory.")


def _apply_file(args: Namespace, box: Toolbox) -> int:
    from holdfast.cli.fleet import saved_plan

    opened = saved_plan.open_file(args.file, box.disk)
    target = session.found_target(args, box)
    heads = session.heads(args, box)
    hub = box.hubs.reader(target)
    applied = heads.check(hub, adopt=True)
    accepted_heads.verified(hub, applied, box.clock.now_s())
    if head_of(applied) != opened.plan.base:
        from shlex import quote

        raise Conflict(
            f"{args.file} is stale: it was planned on revision {opened.plan.base.number}, "
            f"but the applied revision is {head_of(applied).number}",
            remedy=f"plan again and read the new plan: holdfast plan -o {quote(args.file)}",
            code="stale_plan",
        )
    candidate = opened.saved.candidate
    if candidate is None:
        return nothing_to_do(opened.plan, args, box, box.hubs.reader(target), applied)
    if not args.json and not (args.quiet and args.yes):
        box.terminal.say(show_plan.text(opened.plan, box.terminal, args.verbose))
    check_removals(opened.plan, applied, args.allow_removals)
    return _commit_opened(opened, candidate, target, heads, args, box)


def _commit_opened(
    opened: "Opened", candidate: Candidate, target: str, heads: Heads, args: Namespace, box: Toolbox
) -> int:
    plan = opened.plan
    if not candidate.signatures:  # the file has no signature yet: this operator signs, as with a plain apply
        signing.refuse_if_hopeless(plan, opened.base, args, box)
    else:
        signing.check_threshold(plan, opened.base, candidate, args)
    box.terminal.confirm("Apply this saved plan?", "not applied")
    if not candidate.signatures:
        candidate = signing.signed(candidate, signing.sign(plan, opened.base, args, box))
    head = commit(with_message(candidate, args), opened.base, target, heads, box)
    return report(head, plan, opened.base, target, args, box)
