"""`holdfast history`: the revisions of a fleet, newest first."""

from argparse import Namespace
from typing import Any

import msgspec

from holdfast.cli import tables
from holdfast.cli.flags import Parser, positive
from holdfast.cli.fleet import session
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.model.message import CHARS_MAX
from holdfast.model.record import RevisionRecord
from holdfast.ports.hub_link import HubReader

NAMED_MAX = 3

DETAILS = """\
One line per revision: number, time of the commit, the start of its digest, who signed, what changed, and the message of
apply -m. The message is not signed: the hub keeps it beside the revision. `history show N` has the details.

examples:
  holdfast history
  holdfast history --limit 5 --json
  holdfast history show 3
"""


def declare(parser: Parser) -> None:
    parser.add_argument("--limit", type=positive, default=50, metavar="N", help="at most N revisions (default 50)")


def run(args: Namespace, box: Toolbox) -> int:
    target = session.found_target(args, box)
    hub = box.hubs.reader(target)
    if hub is None and session.has_lock(args, box):
        raise session.no_ledger(target, args, box)
    limit = args.limit
    found = hub.records(0, limit) if hub is not None else []
    if not found:
        box.terminal.remark("Nothing has been applied yet; holdfast apply makes the first revision.")
    if args.json:
        box.terminal.say_raw(msgspec.json.encode({"revisions": [document(record) for record in found]}).decode())
    elif found:
        rows = [_cells(record) for record in found]
        for line in tables.lines(rows, box.terminal, styles={0: lambda cell: "bold"}, tail=True):
            box.terminal.say(line)
    if found and len(found) < limit and found[-1].number > 1:
        box.terminal.remark(
            f"Only the newest {len(found)} revisions are listed, the most that one answer holds. "
            f"Show an older one: holdfast history show {found[-1].number - 1}"
        )
    return 0


def reachable_hub(args: Namespace, box: Toolbox) -> HubReader:
    """A hub with at least one revision. The directory is only read to find the hub."""
    target = session.found_target(args, box)
    hub = box.hubs.reader(target)
    if hub is None:
        raise session.no_ledger(target, args, box)
    if hub.applied() is None:
        raise session.nothing_applied(target)
    return hub


def document(record: RevisionRecord) -> dict[str, Any]:
    return {
        "number": record.number,
        "digest": record.digest,
        "committed_at": rfc3339(record.committed_at_s),
        "changes": record.changes,
        "grade": record.approval.grade,
        "signers": [
            {"operator": s.operator, "fingerprint": s.fingerprint, "grade": s.grade} for s in record.approval.signers
        ],
        "removals": list(record.approval.removals),
        "addresses": list(record.addresses or ()),
        "message": record.message or "",
    }


def _cells(record: RevisionRecord) -> tuple[str, ...]:
    who = ", ".join(signer.operator for signer in record.approval.signers)
    when, message = rfc3339(record.committed_at_s), (record.message or "")[:CHARS_MAX]
    what = f"{_changes(record)}  {message}".rstrip()
    return f"{record.number:>4}", when, record.digest[:12], f"signed by {who}", what


def _changes(record: RevisionRecord) -> str:
    texts = {"destroy": "detach"}  # as in a plan: an apply detaches data and deletes none
    counts = ", ".join(f"{count} {texts.get(kind, kind)}" for kind, count in record.changes.items())
    named = list((record.addresses or ())[:NAMED_MAX])
    more = sum(record.changes.values()) - len(named)
    return f"{counts}: {', '.join(named + [f'+{more} more'] * (more > 0))}" if named else counts
