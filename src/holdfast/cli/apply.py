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
Plans, shows the plan, asks, signs the new revision with your SSH key and commits it. With FILE a saved plan is applied
exactly as it was saved, or not at all: if anybody applied something in between, it is stale (exit 5).

Then waits until every service it changed is seen to run, or to be gone, by the signed word of its node, until DNS
answers by its names, and until every public hostname of it is live on its edge; steps are shown as they happen, in that
order. What fails is exit 1 with the step, and what served before serves on; what runs and is not public is said to be
so, and the same command again goes on from there. What has not settled within [timeouts] is exit 6, and nothing has to
be applied again. --detach does not wait.

An offline ledger (--hub DIR, default .ledger) is created by the first apply. A plan that removes something needs
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
    _mend(current, box)
    if found.candidate is None and current.applied is not None:
        current.heads.moved(current.applied.fleet_id, current.applied.head)
    return carry_out(found, current.applied, current.target, current.heads, args, box, args.allow_removals, only)


def _mend(current: session.Session, box: Toolbox) -> None:
    """Is everything there that stays? Contents damaged in the ledger are stored anew from the directory.

    Manifests follow from the table alone, so these are made again whatever the directory says by now.
    """
    wanted = set(current.hub.damaged()) if current.hub is not None else set()
    if not wanted or current.applied is None:
        return
    manifests = compile_manifests(current.applied.fleet_id, current.applied.table)
    found = [*documents(current.fleet).values(), *current.fleet.secrets.values(), *manifests.values()]
    texts: dict[str, bytes] = {canonical.digest(text): text for text in found}
    good = {digest: texts[digest] for digest in wanted if digest in texts}
    mended = box.hub_for_writing(current.target).mend(good) if good else 0
    if mended:
        box.terminal.remark(f"Stored {mended} damaged content{'s' * (mended != 1)} anew from the fleet directory.")


def _apply_file(args: Namespace, box: Toolbox) -> int:
    opened = saved_plan.open_file(args.file, box.disk)
    target = hub_target(args, _fleet_or_none(args, box))
    heads = session.heads(args, box)
    applied = heads.check(box.hub(target), adopt=True)
    if head_of(applied) != opened.plan.base:
        raise Conflict(
            f"{args.file} was planned on top of revision {opened.plan.base.number}, "
            f"but the fleet is at {head_of(applied).number}: it is stale",
            remedy=f"plan again and look at it anew: holdfast plan -o {args.file}",
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
    if not candidate.signatures:  # nobody signed the file yet: this operator does, as with a plain apply
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
    """The directory is only needed to find the hub; a saved plan may be applied from elsewhere with --hub."""
    return None if args.hub else load(box.fleet_directory(args.fleet))
