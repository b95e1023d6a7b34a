"""`holdfast backup list`: the stored backups, and what each node reports about the next ones."""

from argparse import Namespace
from collections.abc import Sequence

import msgspec

from holdfast.cli import tables
from holdfast.cli.backups import backup_view, drill_view, hub_copies
from holdfast.cli.backups.backup_view import Copy, Found
from holdfast.cli.backups.hub_copies import HubCopy
from holdfast.cli.flags import Parser
from holdfast.cli.nodes import fleet_view
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.sizes import size
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.model import backup_key
from holdfast.model.backup_report import BackupState
from holdfast.model.drill import DrillState
from holdfast.model.duration import aged
from holdfast.status import backup_copies

DETAILS = """\
Each backup has a receipt that its node signed; this command verifies it. A receipt that is damaged, or of a node whose
key the applied revision does not have, is listed as unproven and is not offered for a restore. Backups of services that
are no longer applied are listed too; those of nodes themselves (certificates, proxy state) have the name node.NAME.
SIZE is that of the files; STORED is what the sealed objects take, which backups of one service share. PROVEN is the age
of the last drill that restored this backup and found the service healthy on it; FAILED: the last drill could not
restore it. COPIES are the targets that have the backup: the hub, as this command reads it, and the others as the node
of the service reports them. A copy on the machine of the data counts as none. hub.NAME is the newest file of the hub,
as its node reports it: it lies on storage targets, and not at the hub.

examples:
  holdfast backup list
  holdfast backup list web --json
"""

HEADS = ("SERVICE", "ID", "MADE", "NODE", "FILES", "SIZE", "STORED", "CAUSE", "PROVEN", "COPIES")


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", nargs="?", default="", help="only of this service (default: all)")


def run(args: Namespace, box: Toolbox) -> int:
    view = fleet_view.look(args, box)
    service = args.service.removeprefix("service.")
    rows = backup_view.found(view, service)
    states = {name: one for name, one in backup_view.states(view).items() if service in ("", name)}
    drills, now_s = drill_view.states(view), box.clock.now_s()
    hubs = [one for one in hub_copies.found(view.applied, view.nodes) if service in ("", one.name)]
    copies = {row.key: backup_view.copies(view, row.proven, states) for row in rows if row.proven is not None}
    if args.json:
        document = {
            "backups": [
                {**backup_view.document(row.proven), "copies": [one.document() for one in copies[row.key]]}
                for row in rows
                if row.proven is not None
            ],
            "unproven": [
                {"service": row.key.service, "key": row.key.text, "why": row.doubt} for row in rows if row.doubt
            ],
            "services": [
                {
                    **_state_document(name, node, state),
                    "same_machine": _is_same_machine(view, node, state),
                    **drill_view.document(drills.get(name)),
                }
                for name, (node, state) in sorted(states.items())
            ],
            "hub": [one for one in hub_copies.documents(view.applied, view.nodes) if service in ("", one["service"])],
            "targets": [{"node": node, **msgspec.to_builtins(one)} for node, one in backup_view.targets(view)],
        }
        box.terminal.say_raw(msgspec.json.encode(document).decode())
        return 0
    cells = [_cells(row, drills.get(row.key.service), now_s, copies[row.key]) for row in rows if row.proven is not None]
    cells += [_hub_cells(one) for one in hubs if one.state.last is not None]
    for line in tables.lines(cells, box.terminal, HEADS, tail=True):
        box.terminal.say(line)
    if not cells:
        box.terminal.remark("No backup is stored.")
    for row in rows:
        if row.doubt:
            box.terminal.remark(f"Unproven: {row.doubt}")
    for name, (node, state) in sorted(states.items()):
        same = "; on the machine of its data, so it counts as no copy" if _is_same_machine(view, node, state) else ""
        is_drilled = backup_key.is_of_service(name)
        last = f"; last proven {drill_view.words(drills.get(name), now_s)}" if is_drilled else ""
        red = f"; {words}" if (words := drill_view.red(drills.get(name))) else ""
        box.terminal.remark(f"{name}: {_words(state, node, now_s)}{last}{red}{same}")
    for node, target in backup_view.targets(view):
        if target.state != "attached":
            box.terminal.remark(f"{target.name} on {node}: {target.state}; {target.reason}")
    return 0


def _is_same_machine(view: FleetView, node: str, state: BackupState) -> bool:
    """The newest backup lies on the machine of the data only."""
    if backup_key.hub_of(state.service) and state.last is None:
        return False
    return backup_view.is_hub(view, node) and not backup_copies.elsewhere(state, is_on_hub=True)


def _cells(row: Found, drill: DrillState | None, now_s: float, copies: Sequence[Copy]) -> tuple[str, ...]:
    assert row.proven is not None
    receipt = row.proven.receipt
    return (
        receipt.service,
        row.proven.id,
        rfc3339(receipt.made_s),
        receipt.node,
        str(receipt.files),
        size(receipt.size_bytes) + (" (partial)" if receipt.partial else ""),
        size(receipt.stored_bytes),
        receipt.cause,
        _proven(row.proven.digest, drill, now_s),
        ", ".join(str(one) for one in copies),
    )


def _hub_cells(one: HubCopy) -> tuple[str, ...]:
    """The newest one, as its node reports it."""
    last = one.state.last
    assert last is not None
    copies = [name if name in one.elsewhere else f"{name} (same machine)" for name in one.targets]
    words = (one.name, last.id, rfc3339(last.made_s), one.node, str(last.files))
    return (*words, size(last.size_bytes), size(last.stored_bytes), last.cause, "-", ", ".join(copies))


def _proven(digest: str, drill: DrillState | None, now_s: float) -> str:
    """What the last drill says of this backup, or the last one that verified it."""
    if drill is None:
        return "-"
    last = drill.last
    if last is not None and last.backup == digest and last.verdict == "failed":
        return "FAILED"
    return drill_view.words(drill, now_s) if drill.proven == digest else "-"


def _words(state: BackupState, node: str, now_s: float) -> str:
    if state.running_s:
        return f"{node} backs it up now, since {aged(max(now_s - state.running_s, 0.0))}"
    words = f"next on {node} in {aged(state.next_s - now_s)}" if state.next_s > now_s else f"due on {node} now"
    if state.stale:
        words = f"STALE; {words}"
    if state.trouble:
        words += f"; the last attempt failed: {state.trouble}"
    return words


def _state_document(name: str, node: str, state: BackupState) -> dict[str, object]:
    return {
        "service": name,
        "node": node,
        "next": rfc3339(state.next_s) if state.next_s else None,
        "running": rfc3339(state.running_s) if state.running_s else None,
        "failures": state.failures,
        "trouble": state.trouble,
        "stale": state.stale,
    }
