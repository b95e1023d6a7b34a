"""From a plan to a committed revision: removals, question, signature, commit, fleet.lock. All applying verbs use it."""

from argparse import Namespace

import msgspec

from holdfast.cli import outcome, show_finding, show_plan, signing, verdict
from holdfast.cli.seen_heads import Heads
from holdfast.cli.terminal import harmless
from holdfast.cli.tools import Toolbox
from holdfast.errors import INTERRUPTED, Conflict, Failed
from holdfast.ledger.boot_findings import ROWS
from holdfast.model.applied import Applied, head_of, table_of
from holdfast.model.plan import Plan
from holdfast.model.revision import Candidate, Head, decode_header, digest_of
from holdfast.planning import removals
from holdfast.planning.documents import removals_max
from holdfast.ports.hub_link import HubReader

DETACH = "return once the revision is committed; do not wait for the result"


def check_removals(plan: Plan, applied: Applied | None, allowed: int | None) -> None:
    limit = removals_max(applied.contents, applied.table) if applied is not None and plan.removals else 0
    removals.check(plan.removals, table_of(applied), limit, allowed)


def carry_out(
    plan: Plan,
    applied: Applied | None,
    target: str,
    heads: Heads,
    args: Namespace,
    box: Toolbox,
    allowed: int | None,
    only: str | None = None,
) -> int:
    """The usual case: one operator, one signature. `only`: the one address the command is about."""
    if plan.candidate is None:
        return nothing_to_do(plan, args, box, box.hub(target), applied, only)
    if not args.json and not (args.quiet and args.yes):
        box.terminal.say(show_plan.text(plan, box.terminal, args.verbose, allowed))
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
            remedy="nothing was changed; run the command again when ready",
            code="declined",
        )


def commit(candidate: Candidate, applied: Applied | None, target: str, heads: Heads, box: Toolbox) -> Head:
    """Note the intention, commit, then write fleet.lock: after a crash at any point the next command can continue."""
    hub = box.hub_for_writing(target)
    fleet = decode_header(candidate.header).fleet
    heads.expect(fleet, head_of(applied), Head(decode_header(candidate.header).number, digest_of(candidate.header)))
    head = hub.commit(candidate)
    if head.digest != digest_of(candidate.header):
        raise Conflict(
            f"the hub answered with head {head.number}, which is not the revision that was sent",
            remedy="holdfast history shows what is applied; plan again",
            code="stale_base",
        )
    trouble = heads.moved(fleet, head)
    if trouble is not None:
        raise Failed(
            f"revision {head.number} is applied, but fleet.lock was not updated: {trouble.message}",
            remedy=f"{trouble.remedy}; nothing needs to be applied again: the next command writes the lock",
            code="lock_not_written",
        )
    for finding in hub.status().findings:
        if finding.code in ROWS:  # of the ledger; `status` and the receipts report on nodes
            box.terminal.warn(show_finding.line(finding))
    return head


def report(head: Head, plan: Plan, before: Applied | None, target: str, args: Namespace, box: Toolbox) -> int:
    """Report the commit, then wait for the result unless --detach; a result that is not ready is an error."""
    count = len(plan.changes)
    text = f"Applied revision {head.number}: {count} change{'s' * (count != 1)}, digest {head.digest[:12]}…"
    if not args.json:
        box.terminal.say(box.terminal.paint("green", text))
    hub = None if getattr(args, "detach", False) else box.hub(target)
    try:
        found = outcome.wait(hub, before, head, box) if hub is not None else outcome.NOTHING
    except KeyboardInterrupt:
        box.terminal.remark(f"Interrupted. Revision {head.number} is applied; its rollout continues.")
        return INTERRUPTED
    return conclude(found, head, plan, args, box)


def conclude(found: outcome.Outcome, head: Head, plan: Plan, args: Namespace, box: Toolbox) -> int:
    if args.json:
        document = show_plan.document(plan)
        document["applied"] = {"number": head.number, "digest": head.digest}
        document |= verdict.document(found)
        box.terminal.say(msgspec.json.encode(document).decode())
    else:
        for line in verdict.told(found):
            box.terminal.remark(harmless(line))
    trouble = verdict.trouble(found, head)
    if trouble is not None:
        raise trouble
    return 0


def nothing_to_do(
    plan: Plan, args: Namespace, box: Toolbox, hub: HubReader | None, applied: Applied | None, only: str | None = None
) -> int:
    """Nothing to apply; but an earlier revision may still be rolling out, or may have failed."""
    if not args.json:
        box.terminal.say(show_plan.text(plan, box.terminal))
    waits = hub is not None and applied is not None and not getattr(args, "detach", False)
    found = outcome.look_again(hub, applied, only, box) if waits and hub and applied else outcome.NOTHING
    return conclude(found, plan.base, plan, args, box)
