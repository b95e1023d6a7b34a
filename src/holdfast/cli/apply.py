"""`holdfast apply`: sign the planned revision and commit it."""

from argparse import Namespace

from holdfast.cli import saved_plan, session, show_plan, signing
from holdfast.cli.carry_out import carry_out, check_removals, commit, report
from holdfast.cli.flags import Parser
from holdfast.cli.heads import Heads
from holdfast.cli.plan import declare_shared
from holdfast.cli.session import hub_target
from holdfast.cli.toolbox import Toolbox
from holdfast.declared.load import load
from holdfast.errors import Conflict, Failed, Invalid, SignatureRequired
from holdfast.model import canonical
from holdfast.model.applied import head_of
from holdfast.model.fleet import Fleet
from holdfast.planning.documents import documents

DETAILS = """\
Plans, shows the plan, asks, signs the new revision with your SSH key and commits it. With FILE a saved plan is applied
exactly as it was saved, or not at all: if anybody applied something in between, it is stale (exit 5).

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
    parser.add_argument("--detach", action="store_true", help="do not wait for nodes (an offline ledger has none)")
    declare_shared(parser)


def run(args: Namespace, box: Toolbox) -> int:
    return _apply_file(args, box) if args.file else apply_directory(args, box)


def apply_directory(args: Namespace, box: Toolbox, only: str | None = None) -> int:
    current = session.begin(args, box)
    found = session.make_plan(current, args, box, only)
    _mend(current, box)
    if found.candidate is None and current.applied is not None:
        current.heads.moved(current.applied.fleet_id, current.applied.head)
    return carry_out(found, current.applied, current.target, current.heads, args, box, args.allow_removals)


def _mend(current: session.Session, box: Toolbox) -> None:
    """Is everything there that stays? Contents damaged in the ledger are stored anew from the directory."""
    wanted = set(current.hub.damaged()) if current.hub is not None else set()
    if not wanted:
        return
    texts: dict[str, bytes] = {canonical.digest(text): text for text in documents(current.fleet).values()}
    good = {digest: texts[digest] for digest in wanted if digest in texts}
    mended = box.hub_for_writing(current.target).mend(good) if good else 0
    if mended:
        box.terminal.remark(f"Stored {mended} damaged content{'s' * (mended != 1)} anew from the fleet directory.")


def _apply_file(args: Namespace, box: Toolbox) -> int:
    content = box.disk.read(args.file, saved_plan.BYTES_MAX)
    if content is None:
        raise Invalid(f"{args.file} does not exist", remedy=f"save a plan first: holdfast plan -o {args.file}")
    opened = saved_plan.read(content)
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
    if not args.json:
        box.terminal.say(show_plan.text(opened.plan, box.terminal, args.verbose))
    allowed = args.allow_removals if args.allow_removals is not None else opened.saved.allow_removals
    check_removals(opened.plan, applied, allowed)
    return _commit_opened(opened, target, heads, args, box)


def _commit_opened(opened: saved_plan.Opened, target: str, heads: Heads, args: Namespace, box: Toolbox) -> int:
    candidate = opened.saved.candidate
    plan = opened.plan
    if not candidate.signatures:  # nobody signed the file yet: this operator does, as with a plain apply
        signing.refuse_if_hopeless(plan, opened.base, args, box)
    if not box.terminal.confirm("Apply this saved plan?", "run the same command with --yes"):
        raise Failed("not applied: the answer was not yes", remedy="nothing was changed", code="declined")
    if not candidate.signatures:
        candidate = signing.signed(candidate, signing.sign(plan, opened.base, args, box))
    else:
        _check_threshold(opened)
    return report(commit(candidate, opened.base, target, heads, box), plan, args, box)


def _check_threshold(opened: saved_plan.Opened) -> None:
    from holdfast.trust.approval import approve

    current, incoming = signing.trusts(opened.plan, opened.base)
    candidate = opened.saved.candidate
    addresses = tuple(change.address for change in opened.plan.changes)
    try:
        approve(candidate.header, candidate.signatures, opened.plan.grade, addresses, current, incoming)
    except SignatureRequired as trouble:
        raise SignatureRequired(
            trouble.message, remedy=signing.commands(opened.plan.grade, current, incoming)
        ) from trouble


def _fleet_or_none(args: Namespace, box: Toolbox) -> Fleet | None:
    """The directory is only needed to find the hub; a saved plan may be applied from elsewhere with --hub."""
    return None if args.hub else load(box.fleet_directory(args.fleet))
