"""`holdfast history`: the revisions of a fleet, newest first."""

from argparse import Namespace
from typing import Any

import msgspec

from holdfast.cli import session
from holdfast.cli.flags import Parser, positive
from holdfast.cli.terminal import harmless
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.declared.load import load
from holdfast.model.record import RevisionRecord
from holdfast.ports.hub_link import HubReader

DETAILS = """\
One line per revision: number, time of the commit, what changed, who signed. `history show N` has the details.

examples:
  holdfast history
  holdfast history --limit 5 --json
  holdfast history show 3
"""


def declare(parser: Parser) -> None:
    parser.add_argument("--limit", type=positive, default=50, metavar="N", help="at most N revisions (default 50)")


def run(args: Namespace, box: Toolbox) -> int:
    hub = box.hub(_target(args, box))
    limit = args.limit
    found = hub.records(0, limit) if hub is not None else []
    if not found:
        box.terminal.remark("Nothing has been applied yet; holdfast apply makes the first revision.")
    if args.json:
        box.terminal.say(msgspec.json.encode({"revisions": [document(record) for record in found]}).decode())
    elif found:
        box.terminal.say("\n".join(_line(record, box) for record in found))
    if found and len(found) < limit and found[-1].number > 1:
        box.terminal.remark(
            f"Only the newest {len(found)} revisions are listed, the most that one answer holds. "
            f"Show an older one: holdfast history show {found[-1].number - 1}"
        )
    return 0


def reachable_hub(args: Namespace, box: Toolbox) -> HubReader:
    """A hub with at least one revision. The directory is only read to find the hub."""
    target = _target(args, box)
    hub = box.hub(target)
    if hub is None or hub.applied() is None:
        raise session.nothing_applied(target)
    return hub


def _target(args: Namespace, box: Toolbox) -> str:
    return session.hub_target(args, None if args.hub else load(box.fleet_directory(args.fleet)))


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
    }


def _line(record: RevisionRecord, box: Toolbox) -> str:
    texts = {"destroy": "detach"}  # as in a plan: an apply detaches data and deletes none
    changes = ", ".join(f"{count} {texts.get(kind, kind)}" for kind, count in record.changes.items())
    who = ", ".join(signer.operator for signer in record.approval.signers)
    number = box.terminal.paint("bold", f"{record.number:>4}")
    rest = f"{rfc3339(record.committed_at_s)}  {changes:<28}  signed by {who}  {record.digest[:12]}"
    return f"{number}  {harmless(rest)}"
