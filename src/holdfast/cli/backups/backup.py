"""`holdfast backup SVC`: back a service up now, by a signed order."""

from argparse import Namespace

import msgspec

from holdfast.cli.backups import backup_view
from holdfast.cli.backups.progress_lines import ProgressLines
from holdfast.cli.flags import Parser
from holdfast.cli.nodes import fleet_view
from holdfast.cli.orders import order_and_wait, order_results, order_sign
from holdfast.cli.sizes import counted, size
from holdfast.cli.tools import Toolbox
from holdfast.cli.waiting.report_poll import ReportPoll
from holdfast.errors import Failed, Invalid, Unreachable
from holdfast.model import backup_key
from holdfast.model.backup_report import BackupMade, BackupState, BackupStates
from holdfast.ports.hub_link import FleetReader

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
"""

ACTION = "backup"


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", help="name of the service (services/NAME.toml), or node.NAME")
    parser.add_argument("--wait", action="store_true", help="wait until the backup is stored and signed for")
    order_and_wait.declare_shared(parser)


def run(args: Namespace, box: Toolbox) -> int:
    view = order_and_wait.look(args, box)
    service = args.service.removeprefix("service.")
    target = backup_key.address(service)
    if target not in view.applied.table.entries:
        raise fleet_view.no_service(service, view.applied.table.of_kind("service"))
    reported = backup_view.states(view).get(service)
    if reported is None:
        raise Invalid(
            f"no node reports that it backs {service} up",
            remedy='declare protect = "backup" for a volume of it, then: holdfast apply; a node is backed up while it '
            "serves routes",
            code="not_backed_up",
        )
    node = reported[0]
    until_s = box.clock.monotonic_s() + order_sign.seconds(args.timeout, "--timeout")
    given = order_and_wait.ordered(ACTION, target, (node,), {}, view, args, box)
    if args.detach:
        return order_results.show_detached(ACTION, target, given, args, box)
    ended = order_and_wait.ended(given, view, args, box)
    if not args.wait:
        return order_results.show(ACTION, target, ended, args, box)
    trouble = order_results.trouble_of(ACTION, target, ended)
    if trouble is not None:
        raise trouble
    assert isinstance(view.hub, FleetReader), "a ledger directory takes no orders"
    poll = ReportPoll(view.hub, view.applied, (node,), box)
    return _told(service, node, _made(poll, service, node, given[0].id, until_s, args, box), args, box)


def _made(
    poll: ReportPoll, service: str, node: str, order: str, until_s: float, args: Namespace, box: Toolbox
) -> BackupMade:
    lines = ProgressLines(box)
    while True:
        state = _state(poll, service, node)
        if state is not None and state.last is not None and state.last.order == order:
            return state.last
        if state is not None and order in state.failed_by:
            raise Failed(
                f"the backup of {service} failed: {state.trouble}",
                remedy=f"holdfast status; the node tries again: holdfast backup list {service}",
                code="backup_failed",
            )
        if state is not None and state.running_s and not args.json:
            lines.show(state.done_bytes, state.total_bytes, state.running_s)
        left_s = until_s - box.clock.monotonic_s()
        if left_s <= 0:
            raise Unreachable(
                f"the backup of {service} is not over yet; it goes on",
                remedy=f"`holdfast backup list {service}` shows its end; a longer --timeout waits for it",
                code="backup_under_way",
            )
        poll.rest(left_s)


def _state(poll: ReportPoll, service: str, node: str) -> BackupState | None:
    one = poll.look().get(node)
    section = one.section(BackupStates) if one is not None else None
    return next((one for one in section.backups if one.service == service), None) if section is not None else None


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
