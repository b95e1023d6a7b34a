"""`holdfast retired`: data of services that were removed or moved away, from the signed reports of the nodes."""

from argparse import Namespace
from typing import Any

import msgspec

from holdfast.cli import tables
from holdfast.cli.checkpoints import checkpoint_view
from holdfast.cli.flags import Parser, repeated
from holdfast.cli.nodes import fleet_view
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.nodes.show_report import origin
from holdfast.cli.services.copies import left
from holdfast.cli.sizes import counted, size
from holdfast.cli.text import block
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.model.report import RetiredData

DETAILS = """\
The data of a removed service stays on its node, and so does the copy of a service that moved to another node:
superseded, if this node handed it over; fenced, if it was away and the service began with a backup elsewhere. Neither
runs. The list shows the command that brings the service back to each copy, and the one that purges it: by an order that
is signed for that directory on that node. Purged data is kept aside for 7 days and is listed with the earliest time of
its deletion, and with the command that brings it back.

examples:
  holdfast retired
  holdfast retired --json
"""

Row = dict[str, Any]


def declare(parser: Parser) -> None:
    """No arguments of its own."""


def run(args: Namespace, box: Toolbox) -> int:
    view = fleet_view.look(args, box)
    rows = retired(view, args)
    if args.json:
        document = {"retired": rows, "unknown": silent(view)}
        box.terminal.say_raw(msgspec.json.encode(document).decode())
        return 0
    if not rows:
        box.terminal.remark("No node reports data that a service left there.")
    for row, line in zip(rows, tables.lines([_cells(row) for row in rows], box.terminal, tail=True), strict=True):
        purge = () if row["purged"] else (f"  purge: {row['purge']}",)
        box.terminal.say(block((line, f"  restore: {row['restore']}", *purge)))
    for name in silent(view):
        box.terminal.remark(f"Unknown for {name}: {origin(view.nodes[name])}")
    return 0


def _cells(row: Row) -> tuple[str, ...]:
    since = _since(row)
    if row["purged"]:
        since = f"purged; kept {_kept(row['until'])}"
    copies = f", {counted(row['checkpoints'], 'checkpoint')}" if row["checkpoints"] else ""
    much = f"{size(row['size_bytes'])}, {counted(row['files'], 'file')}{copies}"
    return row["name"], row["node"], much, since, row["path"]


def _since(row: Row) -> str:
    at = f" {row['left']}" if row["left"] else ""
    match row["state"]:
        case "superseded":
            of = f"manifest {row['digest'][:16]}, epoch {row['epoch']}"
            return f"superseded{at}: handed over to {row['target']} ({of})"
        case "fenced" if row["removed_in"] and not row["target"]:  # also if it was on its way there
            return (
                f"fenced{at}: placed on another node when revision {row['removed_in']} removed it, epoch {row['epoch']}"
            )
        case "fenced":
            with_backup = f" with backup {row['digest'][:16]}" if row["digest"] else ""
            return f"fenced{at}: runs on {row['target'] or 'another node'}{with_backup}, epoch {row['epoch']}"
    return f"removed in revision {row['removed_in']}" if row["removed_in"] else "removed at an unknown time"


def _kept(until: str | None) -> str:
    return f"until {until}" if until else "until you decide: the node lost its journal, and with it the time"


def retired(view: FleetView, args: Namespace) -> list[Row]:
    """Only from signed reports that are not old."""
    found = []
    for node, one in sorted(view.nodes.items()):
        for data in one.report.retired if one.report is not None and not one.is_old else ():
            found.append(_row(node, data, view, one.age_s, args))
    return sorted(found, key=lambda row: (row["name"], row["node"]))


def silent(view: FleetView) -> list[str]:
    """Joined nodes without a current report: their retired data is unknown."""
    return sorted(n for n, one in view.nodes.items() if one.view.joined and (one.report is None or one.is_old))


def _row(node: str, data: RetiredData, view: FleetView, age_s: float, args: Namespace) -> Row:
    copies = checkpoint_view.amount(view, data.name, node)[0] if not data.purge else 0
    grave = view.applied.table.tombstones.get(f"service.{data.name}")
    copy = left(node, data, view.applied)
    return {
        "name": data.name,
        "node": node,
        "path": data.path,
        "size_bytes": data.size_bytes,
        "files": data.files,
        "removed_in": data.removed_in or (grave.removed_in if grave is not None else 0),
        "state": copy.state,
        "epoch": copy.epoch,
        "target": copy.target or None,
        "digest": copy.digest,
        "left": rfc3339(copy.left_s) if copy.left_s else None,
        "age_s": round(age_s, 3),
        "until": rfc3339(data.until_s) if data.until_s else None,
        "checkpoints": data.checkpoints or copies,
        "purge": f"holdfast purge {data.name} -n {node}{' --now' if data.purge else ''}{repeated(args)}",
        "restore": f"holdfast retired restore {data.name} -n {node}{repeated(args)}",
        "purged": bool(data.purge),
    }
