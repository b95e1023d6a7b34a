"""`holdfast node drain NODE`: a signed revision that moves services off a node and places no new ones there."""

from argparse import Namespace
from shlex import quote

import msgspec

from holdfast.cli.flags import Parser, repeated
from holdfast.cli.fleet import saved_plan, session, show_plan
from holdfast.cli.fleet.commit_plan import DETACH, carry_out
from holdfast.cli.fleet.session import Standing
from holdfast.cli.secrets import secret_opening
from holdfast.cli.tools import Toolbox
from holdfast.errors import Invalid, SignatureRequired
from holdfast.model.applied import Applied
from holdfast.model.plan import Plan
from holdfast.planning.drain import plan_drain

DETAILS = """\
For use before maintenance. Services without data that are not pinned move to other workers; each is started there and
proven healthy before this node stops its copy. Services that are pinned or have data stay and keep running; the plan
lists them with the command that would move them. A drained node gets no new services until `--undo`; services do not
move back automatically. Needs grade apply, for protected services grade destroy; -o saves the plan for others to sign.

--with-data then moves the services that stay, with their data, one after another, as `holdfast migrate --all` does.

examples:
  holdfast node drain w1
  holdfast node drain w1 --with-data
  holdfast node drain w1 --undo
  holdfast node drain w1 -o drain.plan && holdfast sign drain.plan --key KEY && holdfast apply drain.plan
"""


def declare(parser: Parser) -> None:
    parser.add_argument("node", metavar="NODE", help="name of the node")
    parser.add_argument("--undo", action="store_true", help="allow services on it again")
    parser.add_argument("--with-data", action="store_true", help="move services with data too, with their data")
    parser.add_argument("--force", action="store_true", help="with --with-data: set data that is in the way aside")
    secret_opening.declare(parser, "your age identity, for secrets that a new node cannot open")
    parser.add_argument("-o", "--out", metavar="FILE", help="save the plan so that others can sign it; change nothing")
    parser.add_argument("--detach", action="store_true", help=DETACH)
    parser.add_argument("--adopt", action="store_true", help="continue although fleet.lock is behind")


def run(args: Namespace, box: Toolbox) -> int:
    current = session.standing(args, box, drafts=True)
    if current.applied is None or current.hub is None:
        raise session.nothing_applied(current.target)
    name = args.node.removeprefix("node.")
    if args.with_data and (args.undo or args.out):
        raise Invalid("--with-data moves data now: it has no --undo and no -o", remedy="leave it out", code="usage")
    if args.force and not args.with_data:
        raise Invalid("--force is for --with-data", remedy="leave it out, or give both", code="usage")
    found = plan_drain(name, current.applied, current.hub.observations(), args.undo, current.formats)
    if args.out:
        return _save(found, current.applied, args, box)
    try:
        if args.with_data:
            return _with_data(name, found, current, args, box)
        return carry_out(found, current.applied, current.target, current.heads, args, box, None)
    except SignatureRequired as trouble:
        raise SignatureRequired(trouble.message, remedy=_by_drain(trouble.remedy, name, args.undo)) from trouble


def _with_data(name: str, found: Plan, current: Standing, args: Namespace, box: Toolbox) -> int:
    """Pins move with the data: the drain places what has neither, the moves take the rest."""
    from holdfast.cli.moves import every_service

    if found.candidate is not None:
        if not args.json:
            box.terminal.say(show_plan.text(found, box.terminal, args.verbose))
        box.terminal.confirm("Drain the node?", "not drained")
        every_service.carried(found, current, args, box, lambda: None)
    args.source, args.to, args.backup = name, "", ""
    return every_service.run(args, box)


def _save(found: Plan, applied: Applied, args: Namespace, box: Toolbox) -> int:
    box.disk.replace(args.out, saved_plan.save(found, applied), 0o600)
    if args.json:
        document = show_plan.document(found)
        document["saved"] = args.out
        box.terminal.say_raw(msgspec.json.encode(document).decode())
    else:
        box.terminal.say(show_plan.text(found, box.terminal, args.verbose))
        box.terminal.remark(f"Saved to {args.out}. Apply it with: holdfast apply {quote(args.out)}{repeated(args)}")
    return 0


def _by_drain(remedy: str, name: str, undo: bool) -> str:
    """The commands that collect signatures, on the plan of this drain."""
    drain = f"holdfast node drain {name}{' --undo' * undo} -o"
    return remedy.replace("holdfast plan -o", drain).replace("change.plan", "drain.plan")
