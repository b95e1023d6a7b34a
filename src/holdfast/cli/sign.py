"""`holdfast sign PLAN|ORDER`: add one signature to a saved plan or to an order in a file."""

from argparse import Namespace
from typing import TYPE_CHECKING

import msgspec

from holdfast.cli import order_file, order_sign, saved_plan, show_plan, signing
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict, Corrupt, Failed, Invalid
from holdfast.model.applied import Applied, head_of
from holdfast.model.revision import Head

if TYPE_CHECKING:
    from holdfast.cli.seen_heads import Heads

DETAILS = """\
Shows the saved plan or the order, computed from the very bytes that are signed, and adds your signature to the file.
What you sign also stands for everything below it, so the revision a plan is based on must be one you know: the one in
fleet.lock, or the newest this machine has seen; else the hub is asked, and what is new is verified. Without a hub:
carry the file to the machine that holds the key, together with fleet.lock.

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
    _check_base(args.file, opened.base, args, box)
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


def _check_base(file: str, base: Applied | None, args: Namespace, box: Toolbox) -> None:
    """Is the plan on top of what this operator knows? A good plan on a revision that nobody was entitled to make would
    lend that one a signature it could not get by itself. A first revision has nothing below it."""
    if base is None:
        return
    from holdfast.cli import session
    from holdfast.cli.seen_heads import compare

    heads = session.heads(args, box)
    lock, memory = heads.lock(), heads.memory(base.fleet_id)
    if lock is not None and lock.fleet != base.fleet_id:
        raise Corrupt(
            f"{file} is for the fleet {base.fleet_id[:12]}…, but {args.fleet} is {lock.fleet[:12]}…",
            remedy="sign it with --fleet DIR, where DIR is the directory of its own fleet",
            code="other_fleet",
        )
    known = [seen.head for seen in (lock, memory) if seen is not None]
    for head in known:
        if head.number > base.head.number:
            raise _stale(file, base.head, head)
        if head.number == base.head.number:
            compare(base.head, head)
    if base.head not in known:
        _ask_hub(file, base.head, heads, args, box)


def _ask_hub(file: str, base: Head, heads: "Heads", args: Namespace, box: Toolbox) -> None:
    """Every revision since the last one seen is walked and judged on this machine, as for any other command."""
    from holdfast.cli import session
    from holdfast.declared.load import load

    try:
        hub = box.hub(session.hub_target(args, None if args.hub else load(box.fleet_directory(args.fleet))))
    except Invalid as trouble:  # no directory that says where the hub is
        raise _unknown(file, base) from trouble
    if hub is None:
        raise _unknown(file, base)
    applied = heads.check(hub, adopt=True)
    if applied is None or applied.head != base:
        raise _stale(file, base, head_of(applied))


def _unknown(file: str, base: Head) -> Conflict:
    return Conflict(
        f"{file} is based on revision {base.number} ({base.digest[:12]}…), which this machine has never seen",
        remedy=f"holdfast sign {file} --hub URL verifies it; without a hub: bring the fleet.lock of that revision "
        "along with the file (--fleet DIR), from an operator you trust",
        code="base_unknown",
    )


def _stale(file: str, base: Head, known: Head) -> Conflict:
    return Conflict(
        f"{file} is based on revision {base.number} ({base.digest[:12]}…), but the fleet is at {known.number} "
        f"({known.digest[:12]}…)",
        remedy=f"plan again and look at it anew: holdfast plan -o {file}",
        code="stale_plan",
    )
