"""`holdfast sign PLAN|ORDER`: add one signature to a saved plan or to an order in a file."""

from argparse import Namespace

import msgspec

from holdfast.cli import order_file, order_sign, saved_plan, show_plan, signing
from holdfast.cli.flags import Parser
from holdfast.cli.toolbox import Toolbox
from holdfast.errors import Failed, Invalid

DETAILS = """\
Shows the saved plan or the order, computed from the very bytes that are signed, and adds your signature to the file.
Needs no hub: carry the file to the machine that holds the key.

examples:
  holdfast sign change.plan --key ~/.ssh/recovery
  holdfast sign purge.order --key ~/.ssh/second
"""


def declare(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file made by holdfast plan -o or by holdfast order sign")


def run(args: Namespace, box: Toolbox) -> int:
    content = box.disk.read(args.file, saved_plan.BYTES_MAX)
    if content is not None and order_file.is_one(content):
        return order_sign.add(args.file, order_file.read(content), args, box)
    opened = saved_plan.open_file(args.file, box.disk)
    candidate = opened.saved.candidate
    if candidate is None:
        raise Invalid(f"{args.file} changes nothing, so there is nothing to sign", remedy="holdfast plan shows why")
    if not args.json:
        box.terminal.say(show_plan.text(opened.plan, box.terminal, args.verbose))
    if not box.terminal.confirm("Sign this plan?", "run the same command with --yes"):
        raise Failed("not signed: the answer was not yes", remedy="nothing was changed", code="declined")
    armoured = signing.sign(opened.plan, opened.base, args, box)
    if armoured not in candidate.signatures:
        box.disk.replace(args.file, saved_plan.with_signature(opened.saved, candidate, armoured), 0o600)
    count = len({*candidate.signatures, armoured})
    if args.json:
        box.terminal.say(msgspec.json.encode({"file": args.file, "signatures": count}).decode())
    else:
        box.terminal.say(f"Signed: {args.file} now carries {count} signature{'s' * (count != 1)}.")
    return 0
