"""From a plan to a committed revision: removals, question, signature, commit, fleet.lock. All applying verbs use it."""

from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from holdfast.cli.fleet import show_plan, signing
from holdfast.cli.fleet.seen_heads import Heads
from holdfast.cli.hub_target import UNSERVED, is_url
from holdfast.cli.tools import Toolbox
from holdfast.errors import INTERRUPTED, Conflict, Failed
from holdfast.model.applied import Applied, head_of
from holdfast.model.plan import Plan
from holdfast.model.revision import Candidate, Head, decode_header, digest_of
from holdfast.ports.hub_link import FleetReader, HubReader

if TYPE_CHECKING:  # what is needed after the commit is loaded after it
    from holdfast.cli.waiting.outcome import Outcome

NOTHING_MORE: Mapping[str, Any] = {}
DETACH = "return once the revision is committed; do not wait for the result"


def with_message(candidate: Candidate, args: Namespace) -> Candidate:
    text = getattr(args, "message", "")
    return msgspec.structs.replace(candidate, message=text) if text else candidate


def check_removals(plan: Plan, applied: Applied | None, allowed: int | None) -> None:
    if not plan.removals and allowed is None:
        return
    from holdfast.planning import removals

    removals.check_planned(plan, applied, allowed)


def carry_out(
    plan: Plan,
    applied: Applied | None,
    target: str,
    heads: Heads,
    args: Namespace,
    box: Toolbox,
    allowed: int | None,
    only: str | None = None,
    first: Callable[[], dict[str, Any]] = dict,
) -> int:
    """The usual case: one operator, one signature. `only`: the one address the command is about. `first` is done
    between signing and committing; its answer is part of the document."""
    if plan.candidate is None:
        return nothing_to_do(plan, args, box, box.hubs.reader(target), applied, only)
    if not args.json and not (args.quiet and args.yes):
        box.terminal.say(show_plan.text(plan, box.terminal, args.verbose, allowed))
    check_removals(plan, applied, allowed)
    signing.refuse_if_hopeless(plan, applied, args, box)
    _ask(plan, box)
    candidate = with_message(signing.signed(plan.candidate, signing.sign(plan, applied, args, box)), args)
    more = first()
    head = commit(candidate, applied, target, heads, box)
    return report(head, plan, applied, target, args, box, more)


def _ask(plan: Plan, box: Toolbox) -> None:
    count = len(plan.changes)
    question = f"Apply {'this change' if count == 1 else f'these {count} changes'}?"
    box.terminal.confirm(question, "not applied", "look at the plan, then run the same command with --yes")


def commit(candidate: Candidate, applied: Applied | None, target: str, heads: Heads, box: Toolbox) -> Head:
    """Note the intention, commit, then write fleet.lock: after a crash at any point the next command can continue."""
    hub = box.hubs.writer(target)
    header, digest = decode_header(candidate.header), digest_of(candidate.header)
    fleet = header.fleet
    heads.expect(fleet, head_of(applied), Head(header.number, digest))
    head = hub.commit(candidate)
    if head.digest != digest:
        raise Conflict(
            f"the hub answered with head {head.number}, which is not the revision that was sent",
            remedy="`holdfast history` shows what is applied; plan again",
            code="stale_base",
        )
    trouble = heads.moved(fleet, head)
    if trouble is not None:
        raise Failed(
            f"revision {head.number} is applied, but fleet.lock was not updated: {trouble.message}",
            remedy=f"{trouble.remedy}; nothing needs to be applied again: the next command writes the lock",
            code="lock_not_written",
        )
    from holdfast.cli.hub import show_finding
    from holdfast.ledger.boot_findings import ROWS

    by = "the hub" if isinstance(hub, FleetReader) else ""
    for finding in hub.status().findings:
        if finding.code in ROWS:  # of the ledger; `status` and the receipts report on nodes
            box.terminal.warn(show_finding.line(finding, box.terminal, by))
    return head


def report(
    head: Head,
    plan: Plan,
    before: Applied | None,
    target: str,
    args: Namespace,
    box: Toolbox,
    more: Mapping[str, Any] = NOTHING_MORE,
) -> int:
    """Report the commit, then wait for the result unless --detach; a result that is not ready is an error."""
    from holdfast.cli.waiting import outcome

    count = len(plan.changes)
    text = f"Applied revision {head.number}: {count} change{'s' * (count != 1)}, digest {head.digest[:12]}…"
    if not args.json:
        box.terminal.say(box.terminal.paint("green", text))
    _check_message(head, target, args, box)
    if not args.json and not is_url(target):
        then = "nothing runs yet" if before is None else "no node hears of it"
        box.terminal.remark(f"It is recorded in {target}, and no hub serves it: {then}.")
        box.terminal.remark("Make a hub: holdfast hub init --help")
    hub = None if getattr(args, "detach", False) else box.hubs.reader(target)
    try:
        found = outcome.wait(hub, before, head, box) if hub is not None else outcome.NOTHING
    except KeyboardInterrupt:
        from holdfast.cli.waiting import verdict

        box.terminal.remark(verdict.interrupted(head, plan, args))
        return INTERRUPTED
    return conclude(found, head, plan, hub, args, box, more)


def _check_message(head: Head, target: str, args: Namespace, box: Toolbox) -> None:
    hub = box.hubs.reader(target) if getattr(args, "message", "") else None
    if hub is not None and any(one.message is UNSET for one in hub.records(head.number, 1)):
        box.terminal.warn("the hub has an older release, which does not keep messages")


def conclude(
    found: "Outcome",
    head: Head,
    plan: Plan,
    hub: HubReader | None,
    args: Namespace,
    box: Toolbox,
    more: Mapping[str, Any] = NOTHING_MORE,
) -> int:
    from holdfast.cli.waiting import verdict

    if args.json:
        document = show_plan.document(plan)
        document["applied"] = {"number": head.number, "digest": head.digest}
        document |= verdict.document(found) | dict(more)
        box.terminal.say_raw(msgspec.json.encode(document).decode())
    else:
        for line in verdict.told(found):
            box.terminal.remark(line)
    trouble = verdict.trouble(found, head, hub)
    if trouble is not None:
        raise trouble
    return 0


def nothing_to_do(
    plan: Plan, args: Namespace, box: Toolbox, hub: HubReader | None, applied: Applied | None, only: str | None = None
) -> int:
    """Nothing to apply; but an earlier revision may still be rolling out, or may have failed."""
    from holdfast.cli.waiting import outcome

    if not args.json:
        box.terminal.say(show_plan.text(plan, box.terminal, only=only))
    if not args.json and hub is not None and not isinstance(hub, FleetReader):
        box.terminal.remark(UNSERVED)
    waits = hub is not None and applied is not None and not getattr(args, "detach", False)
    found = outcome.look_again(hub, applied, only, box) if waits and hub and applied else outcome.NOTHING
    return conclude(found, plan.base, plan, hub, args, box)
