"""`holdfast apply`: sign the planned revision and commit it."""

from argparse import Namespace

from holdfast.cli import saved_plan, session, show_plan, signing
from holdfast.cli.commit_plan import (
    DETACH,
    carry_out,
    check_removals,
    commit,
    nothing_to_do,
    report,
)
from holdfast.cli.flags import Parser
from holdfast.cli.plan import declare_shared
from holdfast.cli.seen_heads import Heads
from holdfast.cli.session import hub_target
from holdfast.cli.tools import Toolbox
from holdfast.declared.load import load
from holdfast.errors import Conflict, Failed, SignatureRequired
from holdfast.model import canonical
from holdfast.model.applied import head_of
from holdfast.model.fleet import Fleet
from holdfast.model.revision import Candidate
from holdfast.planning.kinds.every import documents
from holdfast.planning.manifests import compile_manifests

DETAILS = """\
Plans, shows the plan, asks, signs the new revision with your SSH key and commits it. With FILE, applies a saved plan
exactly as it was saved. If another revision was applied since, the saved plan is stale (exit 5).

Then waits for each service that changed: its node reports it running (or removed), DNS answers for its names, and its
edge reports each public hostname live. Steps are shown as they happen. --detach does not wait.
Exit 1: a step failed; the previous version keeps serving. The error names the step; run the same command again to
continue. Exit 6: not ready in time ([timeouts]); nothing needs to be applied again.

The first apply creates an offline ledger (--hub DIR, default .ledger). A plan that removes something needs
--allow-removals N with the exact number. A plan that needs a higher grade or more signatures than yours exits 4 and
prints the commands that collect them.

examples:
  holdfast apply
  holdfast apply --yes --allow-removals 1
  holdfast plan -o change.plan && holdfast sign change.plan --key ~/.ssh/root && holdfast apply change.plan
"""


def declare(parser: Parser) -> None:
    parser.add_argument("file", nargs="?", metavar="FILE", help="a saved plan")
    parser.add_argument("--detach", action="store_true", help=DETACH)
    declare_shared(parser)


def run(args: Namespace, box: Toolbox) -> int:
    return _apply_file(args, box) if args.file else apply_directory(args, box)


def apply_directory(args: Namespace, box: Toolbox, only: str | None = None) -> int:
    current = session.begin(args, box)
    found = session.make_plan(current, args, box, only)
    _repair(current, box)
    if found.candidate is None and current.applied is not None:
        current.heads.moved(current.applied.fleet_id, current.applied.head)
    return carry_out(found, current.applied, current.target, current.heads, args, box, args.allow_removals, only)


def _repair(current: session.Session, box: Toolbox) -> None:
    """Store contents that are damaged in the ledger again, from the fleet directory.

    Manifests follow from the table alone, so they can be compiled again even if the directory has changed.
    """
    wanted = set(current.hub.damaged()) if current.hub is not None else set()
    if not wanted or current.applied is None:
        return
    manifests = compile_manifests(current.applied.fleet_id, current.applied.table)
    found = [*documents(current.fleet).values(), *current.fleet.secrets.values(), *manifests.values()]
    texts: dict[str, bytes] = {canonical.digest(text): text for text in found}
    good = {digest: texts[digest] for digest in wanted if digest in texts}
    repaired = box.hub_for_writing(current.target).mend(good) if good else 0
    if repaired:
        box.terminal.remark(f"Repaired {repaired} damaged content{'s' * (repaired != 1)} from the fleet directory.")


def _apply_file(args: Namespace, box: Toolbox) -> int:
    opened = saved_plan.open_file(args.file, box.disk)
    target = hub_target(args, _fleet_or_none(args, box))
    heads = session.heads(args, box)
    applied = heads.check(box.hub(target), adopt=True)
    if head_of(applied) != opened.plan.base:
        raise Conflict(
            f"{args.file} is stale: it was planned on revision {opened.plan.base.number}, "
            f"but the applied revision is {head_of(applied).number}",
            remedy=f"plan again and read the new plan: holdfast plan -o {args.file}",
            code="stale_plan",
        )
    candidate = opened.saved.candidate
    if candidate is None:
        return nothing_to_do(opened.plan, args, box, box.hub(target), applied)
    if not args.json and not (args.quiet and args.yes):
        box.terminal.say(show_plan.text(opened.plan, box.terminal, args.verbose))
    check_removals(opened.plan, applied, args.allow_removals)
    return _commit_opened(opened, candidate, target, heads, args, box)


def _commit_opened(
    opened: saved_plan.Opened, candidate: Candidate, target: str, heads: Heads, args: Namespace, box: Toolbox
) -> int:
    plan = opened.plan
    if not candidate.signatures:  # the file has no signature yet: this operator signs, as with a plain apply
        signing.refuse_if_hopeless(plan, opened.base, args, box)
    if not box.terminal.confirm("Apply this saved plan?", "run the same command with --yes"):
        raise Failed("not applied: the answer was not yes", remedy="nothing was changed", code="declined")
    if not candidate.signatures:
        candidate = signing.signed(candidate, signing.sign(plan, opened.base, args, box))
    else:
        _check_threshold(opened, candidate, args)
    head = commit(candidate, opened.base, target, heads, box)
    return report(head, plan, opened.base, target, args, box)


def _check_threshold(opened: saved_plan.Opened, candidate: Candidate, args: Namespace) -> None:
    from holdfast.trust.approval import approve

    current, incoming = signing.trusts(opened.plan, opened.base)
    addresses = tuple(change.address for change in opened.plan.changes)
    try:
        approve(candidate.header, candidate.signatures, opened.plan.grade, addresses, current, incoming)
    except SignatureRequired as trouble:
        raise SignatureRequired(trouble.message, remedy=signing.commands(args)) from trouble


def _fleet_or_none(args: Namespace, box: Toolbox) -> Fleet | None:
    """The directory is only needed to find the hub; with --hub a saved plan can be applied from anywhere."""
    return None if args.hub else load(box.fleet_directory(args.fleet))
