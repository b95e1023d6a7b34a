"""`holdfast plan`: show what an apply would change."""

from argparse import Namespace

import msgspec

from holdfast.cli import flags
from holdfast.cli.flags import Parser, positive
from holdfast.cli.fleet import session, show_plan
from holdfast.cli.fleet.commit_plan import check_removals
from holdfast.cli.text import block
from holdfast.cli.tools import Toolbox
from holdfast.errors import HoldfastError
from holdfast.model import message
from holdfast.model.applied import Applied
from holdfast.model.plan import Plan

DETAILS = """\
Compares the fleet directory with the applied revision and prints every change with the reason for its placement, the
nodes it touches and the grade of the signature it needs. Changes nothing. Exit 0 with or without changes.

Registries are asked for the digests of image tags. A new tag that its registry does not have is an error (exit 2); a
registry that does not answer or refuses is a warning.

Removals are always listed; only an apply with --allow-removals N removes them.

examples:
  holdfast plan
  holdfast plan --explain service.web       why this node, and why not the others
  holdfast plan -o change.plan              save it; holdfast sign and holdfast apply take the file
  holdfast plan --json | jq '.changes[].address'
"""


def declare(parser: Parser) -> None:
    parser.add_argument("-o", "--out", metavar="FILE", help="save the plan to sign and apply it later, unchanged")
    parser.add_argument("--explain", metavar="ADDRESS", help="explain the placement of this service (NAME)")
    declare_shared(parser)


def declare_shared(parser: Parser) -> None:
    parser.add_argument("--allow-removals", metavar="N", type=positive, help="exactly N resources may be removed")
    parser.add_argument("--offline", action="store_true", help="do not ask registries for image digests")
    parser.add_argument(
        "--adopt", action="store_true", help="plan from this directory although its fleet.lock is behind"
    )


def declare_message(parser: Parser) -> None:
    about = "why, in one line; history shows it (not signed)"
    parser.add_argument("-m", "--message", metavar="TEXT", type=message.check, default="", help=about)


def run(args: Namespace, box: Toolbox) -> int:
    current = session.begin(args, box, plans=True)
    if args.explain:
        return _explain(current, args, box)
    found = session.make_plan(current, args, box)
    if args.out:
        from holdfast.cli.fleet import saved_plan

        # also when nothing changes: an older plan must not stay behind under this name
        box.disk.replace(args.out, saved_plan.save(found, current.applied), 0o600)
    if args.json:
        document = show_plan.document(found, args.allow_removals)
        document["saved"] = args.out
        box.terminal.say_raw(msgspec.json.encode(document).decode())
        return 0
    box.terminal.say(show_plan.text(found, box.terminal, args.verbose))
    if found.candidate is not None:
        box.terminal.say(_next_step(found, current.applied, args))
    return 0


def _next_step(found: Plan, applied: Applied | None, args: Namespace) -> str:
    """A command that works when pasted, or the reason why there is none."""
    count = len(found.removals)
    try:
        check_removals(found, applied, count or None)
    except HoldfastError as trouble:
        return f"This plan cannot be applied: {trouble.message}. {trouble.remedy}"
    allow = f" --allow-removals {count}" if count else ""
    if args.out:
        from shlex import quote

        return f"Saved to {args.out}. Apply it with: holdfast apply {quote(args.out)}{allow}{flags.repeated(args)}"
    return f"Apply with: holdfast apply{allow}{flags.repeated(args)}"


def _explain(current: session.Session, args: Namespace, box: Toolbox) -> int:
    from holdfast.planning.explain import explain

    address = args.explain if "." in args.explain else f"service.{args.explain}"
    chosen, others = explain(current.fleet, current.applied, session.inputs(current, args, box), address)
    if args.json:
        document = {"address": address, "chosen": chosen, "rejected": list(others)}
        box.terminal.say_raw(msgspec.json.encode(document).decode())
    else:
        box.terminal.say(block((f"{address} → {chosen}", *(f"  {reason}" for reason in others))))
    return 0
