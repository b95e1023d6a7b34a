"""From a plan to a committed revision: removals, question, signature, commit, memory. Where applying verbs meet."""

from argparse import Namespace

import msgspec

from holdfast.cli import receipts, show_finding, show_plan, signing
from holdfast.cli.heads import Heads
from holdfast.cli.toolbox import Toolbox
from holdfast.errors import Conflict, Failed
from holdfast.ledger.readiness import ROWS
from holdfast.model.applied import Applied, head_of, table_of
from holdfast.model.plan import Plan
from holdfast.model.revision import Candidate, Head, decode_header, digest_of
from holdfast.planning import removals
from holdfast.planning.documents import removals_max


def check_removals(plan: Plan, applied: Applied | None, allowed: int | None) -> None:
    limit = removals_max(applied.contents, applied.table) if applied is not None and plan.removals else 0
    removals.check(plan.removals, table_of(applied), limit, allowed)


def carry_out(
    plan: Plan, applied: Applied | None, target: str, heads: Heads, args: Namespace, box: Toolbox, allowed: int | None
) -> int:
    """The ordinary way: one operator, one signature."""
    if plan.candidate is None:
        return nothing_to_do(plan, args, box)
    if not args.json and not (args.quiet and args.yes):
        box.terminal.say(show_plan.text(plan, box.terminal, args.verbose))
    check_removals(plan, applied, allowed)
    signing.refuse_if_hopeless(plan, applied, args, box)
    _ask(plan, box)
    candidate = signing.signed(plan.candidate, signing.sign(plan, applied, args, box))
    head = commit(candidate, applied, target, heads, box)
    return report(head, plan, applied, target, args, box)


def _ask(plan: Plan, box: Toolbox) -> None:
    count = len(plan.changes)
    question = f"Apply {'this change' if count == 1 else f'these {count} changes'}?"
    if not box.terminal.confirm(question, "look at the plan, then run the same command with --yes"):
        raise Failed(
            "not applied: the answer was not yes",
            remedy="nothing was changed; run it again when ready",
            code="declined",
        )


def commit(candidate: Candidate, applied: Applied | None, target: str, heads: Heads, box: Toolbox) -> Head:
    """Note the intention, commit, then write fleet.lock: cut anywhere, the next command finds its way."""
    hub = box.hub_for_writing(target)
    fleet = decode_header(candidate.header).fleet
    heads.expect(fleet, head_of(applied), Head(decode_header(candidate.header).number, digest_of(candidate.header)))
    head = hub.commit(candidate)
    if head.digest != digest_of(candidate.header):
        raise Conflict(
            f"the hub answered with another head ({head.number}) than the one sent",
            remedy="holdfast history shows what is applied; plan again",
            code="stale_base",
        )
    trouble = heads.moved(fleet, head)
    if trouble is not None:
        raise Failed(
            f"revision {head.number} IS applied, but fleet.lock could not follow: {trouble.message}",
            remedy=f"{trouble.remedy}; nothing has to be applied again, the next command writes the lock",
            code="lock_not_written",
        )
    for finding in hub.status().findings:
        if finding.code in ROWS:  # of the ledger; how nodes are is told by `status`, and by their receipts
            box.terminal.warn(show_finding.line(finding))
    return head


def report(head: Head, plan: Plan, before: Applied | None, target: str, args: Namespace, box: Toolbox) -> int:
    """Once the nodes have signed for it, unless nobody wants to wait; what is missing then is exit 6."""
    got = receipts.NONE if getattr(args, "detach", False) else _receipts(before, head, target, box)
    if args.json:
        document = show_plan.document(plan)
        document["applied"] = {"number": head.number, "digest": head.digest}
        document["receipts"] = msgspec.to_builtins(got)
        box.terminal.say(msgspec.json.encode(document).decode())
    else:
        count = len(plan.changes)
        text = f"Applied revision {head.number}: {count} change{'s' * (count != 1)}, digest {head.digest[:12]}…"
        box.terminal.say(box.terminal.paint("green", text))
        for line in receipts.told(got):
            box.terminal.remark(line)
    if got.missing:
        raise receipts.missing(got, head)
    return 0


def _receipts(before: Applied | None, head: Head, target: str, box: Toolbox) -> receipts.Receipts:
    hub = box.hub(target)
    return receipts.wait(hub, before, head, box) if hub is not None else receipts.NONE


def nothing_to_do(plan: Plan, args: Namespace, box: Toolbox) -> int:
    if args.json:
        document = show_plan.document(plan)
        document["applied"] = {"number": plan.base.number, "digest": plan.base.digest}
        box.terminal.say(msgspec.json.encode(document).decode())
    else:
        box.terminal.say(show_plan.text(plan, box.terminal))
    return 0
