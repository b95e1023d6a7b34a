"""`holdfast backup SVC`: back a service up now, by a signed order."""

from argparse import Namespace
from typing import Final

import msgspec

from holdfast.cli.backups import backed_up
from holdfast.cli.backups.progress_lines import ProgressLines
from holdfast.cli.flags import Parser
from holdfast.cli.orders import order_and_wait, order_results, order_sign
from holdfast.cli.sizes import counted, size
from holdfast.cli.tools import Toolbox
from holdfast.errors import Failed
from holdfast.model import backup_key
from holdfast.model.backup_report import BackupMade, BackupStates
from holdfast.model.verified_report import VerifiedReport

DETAILS = """\
Signs an order with your key (grade apply) and submits it; the node begins a backup at once. The service runs on. What
is stored already is not stored again. With --wait the command waits until the node has signed for the backup, and shows
the progress. Without it the command returns when the node has taken the order.
Every volume with protect = "backup" is held whole. Without any order a node backs up at the interval of [backups].
Exit 0: done; 1: the backup failed, or the order was refused; 4: another signature is needed; 6: no end in time (it goes
on).

examples:
  holdfast backup web
  holdfast backup web --wait
  holdfast backup web --wait --timeout 2h --json
  holdfast backup node.edge1        # the certificates and the proxy state of a node itself
  holdfast backup hub.hub1 --wait   # the hub's own sealed file, which its node hub1 keeps on storage targets
"""

ACTION: Final = "backup"


def declare(parser: Parser) -> None:
    parser.add_argument(
        "service", metavar="SVC", help="name of the service (services/NAME.toml), or node.NAME, or hub.NAME"
    )
    parser.add_argument("--wait", action="store_true", help="wait until the backup is stored and signed for")
    order_and_wait.declare_shared(parser)


def run(args: Namespace, box: Toolbox) -> int:
    view = order_and_wait.look(args, box)
    service = args.service.removeprefix("service.")
    node, target = backed_up.home(service, view), backup_key.address(service)
    until_s = box.clock.monotonic_s() + order_sign.seconds(args.timeout, "--timeout")
    what = {"what": "hub"} if backup_key.hub_of(service) else {}
    given = order_and_wait.ordered(ACTION, target, (node,), what, view, args, box)
    if args.detach:
        return order_results.show_detached(ACTION, target, given, args, box)
    ended = order_and_wait.ended(given, view, args, box)
    if not args.wait:
        return order_results.show(ACTION, target, ended, args, box)
    trouble = order_results.trouble_of(ACTION, target, ended)
    if trouble is not None:
        raise trouble
    lines, order = ProgressLines(box), given[0].id

    def made(report: VerifiedReport) -> BackupMade | None:
        section = report.section(BackupStates)
        for state in (one for one in section.backups if one.service == service) if section is not None else ():
            if state.last is not None and state.last.order == order:
                return state.last
            if order in state.failed_by:
                raise Failed(
                    f"the backup of {service} failed: {state.trouble}",
                    remedy=f"holdfast status; the node tries again: holdfast backup list {service}",
                    code="backup_failed",
                )
            if state.running_s and not args.json:
                lines.show(state.done_bytes, state.total_bytes, state.running_s)
        return None

    return _told(service, node, backed_up.awaited(made, ACTION, service, node, until_s, view, box), args, box)


def _told(service: str, node: str, made: BackupMade, args: Namespace, box: Toolbox) -> int:
    if args.json:
        body = {
            "id": made.id,
            "service": service,
            "node": node,
            "size_bytes": made.size_bytes,
            "stored_bytes": made.stored_bytes,
            "new_bytes": made.new_bytes,
            "files": made.files,
            "target": made.target,
            "took_s": round(made.took_s, 3),
            "left_out": made.left_out,
            "unsettled": made.unsettled,
        }
        box.terminal.say_raw(msgspec.json.encode(body).decode())
        return 0
    box.terminal.say(
        f"Backup {made.id} of {service}: {counted(made.files, 'file')}, {size(made.size_bytes)}; "
        f"{size(made.new_bytes)} new at the {made.target}; {made.took_s:.1f} s."
    )
    if made.left_out:
        box.terminal.remark(f"Left out: {made.left_out} (sockets, devices, other file systems)")
    if made.unsettled:
        box.terminal.remark(f"Written to while they were read: {counted(made.unsettled, 'file')}")
    return 0
