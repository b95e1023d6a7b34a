"""`holdfast sign FILE`: add one signature to a saved plan, an order, an invite or a revocation."""

from argparse import Namespace
from shlex import quote
from typing import TYPE_CHECKING

import msgspec

from holdfast.cli.flags import Parser
from holdfast.cli.fleet import saved_plan, show_plan, signing
from holdfast.cli.nodes import destroy_signature, statement_file
from holdfast.cli.orders import order_file, order_sign
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict, Corrupt, Invalid
from holdfast.model.applied import Applied, head_of
from holdfast.model.revision import NAMESPACE, Head

if TYPE_CHECKING:
    from holdfast.cli.fleet.seen_heads import Heads

DETAILS = """\
Shows the saved plan, the order, the invite or the revocation, computed from the bytes that are signed, and adds your
signature to the file. A file that was changed since the first signature is refused (exit 7).
Your signature also covers the history below a plan, so its base revision must be one that this machine knows: the one
in fleet.lock, or the newest seen before. Otherwise the hub is asked, and the new revisions are verified. Without a hub:
copy the file to the machine that holds the key, together with fleet.lock.

examples:
  holdfast sign change.plan --key ~/.ssh/recovery
  holdfast sign purge.order --key ~/.ssh/second
  holdfast sign w2.invite --key ~/.ssh/second
"""


def declare(parser: Parser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="a file written by plan -o, order sign, node invite, node revoke or hub restore"
    )


def run(args: Namespace, box: Toolbox) -> int:
    content = box.disk.read(args.file, saved_plan.BYTES_MAX)
    if content is not None and order_file.is_one(content):
        return order_sign.add(args.file, order_file.read(content), args, box)
    if content is not None and statement_file.is_one(content):
        return destroy_signature.add(args.file, content, args, box)
    opened = saved_plan.open_file(args.file, box.disk)
    candidate = opened.saved.candidate
    if candidate is None:
        raise Invalid(f"{args.file} changes nothing, so there is nothing to sign", remedy="`holdfast plan` shows why")
    _check_base(args.file, opened.base, args, box)
    signer = signing.signer_of(opened.plan, opened.base, args, box)
    if not args.json:
        box.terminal.say(show_plan.text(opened.plan, box.terminal, args.verbose))
    box.terminal.confirm("Sign this plan?", "not signed")
    armoured = signer.sign(candidate.header, NAMESPACE)
    if armoured not in candidate.signatures:
        box.disk.replace(args.file, saved_plan.with_signature(opened.saved, candidate, armoured), 0o600)
    count = len({*candidate.signatures, armoured})
    if args.json:
        box.terminal.say_raw(msgspec.json.encode({"file": args.file, "signatures": count}).decode())
    else:
        box.terminal.say(f"Signed: {args.file} has {count} signature{'s' * (count != 1)} now.")
    return 0


def _check_base(file: str, base: Applied | None, args: Namespace, box: Toolbox) -> None:
    """Refuse a plan whose base revision this machine has not verified: a signature on the plan would also approve that
    base, which may lack the signatures it needs. A first revision has no base."""
    if base is None:
        return
    from holdfast.cli.fleet import session
    from holdfast.cli.fleet.seen_heads import compare

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
    """Verify every revision since the last one seen, as other commands do."""
    from holdfast.cli.fleet import session

    try:
        hub = box.hubs.reader(session.found_target(args, box))
    except Invalid as trouble:  # no directory that names the hub
        raise _unknown(file, base) from trouble
    if hub is None:
        raise _unknown(file, base)
    applied = heads.check(hub, adopt=True)
    if applied is None or applied.head != base:
        raise _stale(file, base, head_of(applied))


def _unknown(file: str, base: Head) -> Conflict:
    return Conflict(
        f"{file} is based on revision {base.number} ({base.digest[:12]}…), which this machine has never seen",
        remedy="verify it with a fleet directory that you trust, by its hub or its fleet.lock: "
        f"holdfast sign {quote(file)} --fleet DIR",
        code="base_unknown",
    )


def _stale(file: str, base: Head, known: Head) -> Conflict:
    return Conflict(
        f"{file} is based on revision {base.number} ({base.digest[:12]}…), but the applied revision is {known.number} "
        f"({known.digest[:12]}…)",
        remedy=f"plan again and read the new plan: holdfast plan -o {quote(file)}",
        code="stale_plan",
    )
