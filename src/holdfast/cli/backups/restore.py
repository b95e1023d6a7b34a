"""`holdfast restore SVC`: bring a backup back, in the place of the data or beside it, by a signed order."""

from argparse import Namespace

from msgspec import UNSET

from holdfast.cli.backups import backup_view, key_for_node
from holdfast.cli.backups.restore_progress import RestoreProgress
from holdfast.cli.flags import Parser
from holdfast.cli.fleet.signing import operator_signer
from holdfast.cli.nodes import fleet_view
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.orders import order_and_wait
from holdfast.cli.secrets import secret_opening
from holdfast.cli.sizes import counted, size
from holdfast.cli.timestamps import moment, rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.errors import Invalid
from holdfast.model import backup_key
from holdfast.model.backup import VerifiedReceipt
from holdfast.model.checkpoint import fetched_id

DETAILS = """\
The node fetches the backup, opens it with its own key and compares every file with the signed manifest, while the
service runs. Then it stops the service, exchanges the data in one step and starts the service again; the data of now
becomes a checkpoint, so that a restore can be undone. An agent that is killed goes on with the same order: the data is
always the old or the restored one. Volumes with protect = "none" stay as they are.

Without --backup and --at it takes the newest backup with a valid signature. --at TIME takes the newest one of that time
or before. --beside replaces nothing: the backup becomes a checkpoint on the node (`holdfast checkpoint list`), which
only root can read. Into place needs grade destroy, --beside grade apply.

Exit 0: done; 1: the node failed or refused; 2: no such backup; 4: another signature is needed; 6: no answer in time.

examples:
  holdfast restore web
  holdfast restore web --at 2026-11-01T12:00:00Z
  holdfast restore web --backup 4f0c2a --beside
"""

WAIT = "2h"


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", help="the service whose data is restored")
    parser.add_argument("--backup", metavar="ID", default="", help="the backup, as `holdfast backup list` shows it")
    parser.add_argument("--at", metavar="TIME", default="", help="the newest backup of this time (RFC 3339) or before")
    parser.add_argument("--beside", action="store_true", help="replace nothing: make a checkpoint of the backup")
    parser.add_argument("--to", metavar="NODE", default="", help="the node, for a service that is not applied")
    secret_opening.declare(parser, "your age identity, to give another node the key of the backup")
    parser.add_argument(
        "--detach", action="store_true", help="submit the order and return; holdfast order list shows it"
    )
    parser.add_argument(
        "--timeout", metavar="TIME", default=WAIT, help=f"how long to wait until it is restored (default {WAIT})"
    )


def run(args: Namespace, box: Toolbox) -> int:
    service = args.service.removeprefix("service.")
    if backup_key.node_of(service):
        raise Invalid(
            f"{service} is a node: no order puts its files back, because its agent runs on them",
            remedy=f"holdfast backup export {service} FILE; docs/guides/restore.md says how to put it back",
            code="not_a_service",
        )
    if args.backup and args.at:
        raise Invalid("--backup and --at both choose a backup", remedy="give one of them", code="usage")
    view = order_and_wait.look(args, box)
    one = _chosen(service, view, args)
    node, action, target = _node(one, view, args), "fetch-backup" if args.beside else "restore", f"data.{service}"
    arguments = {"backup": one.digest, **key_for_node.arguments(one, node, view, args, box)}
    signer = operator_signer(view.applied.trust.operators, args, box)
    order_and_wait.refuse_if_hopeless(action, target, (node,), arguments, signer, view, args)
    if not args.json:
        _tell(one, node, view, args, box)
    if not args.beside:
        box.terminal.confirm("Replace the data?", "not restored")
    meanwhile = RestoreProgress(service, node, view, box).show if not args.json else _nothing
    return order_and_wait.carry_out(action, target, (node,), view, args, box, arguments, meanwhile)


def _nothing() -> None:
    return None


def _chosen(service: str, view: FleetView, args: Namespace) -> VerifiedReceipt:
    if args.at:
        return backup_view.before(view, service, moment(args.at, "--at"))
    return backup_view.named(view, service, args.backup)


def _node(one: VerifiedReceipt, view: FleetView, args: Namespace) -> str:
    """Where the service is applied; else where the backup was made, or --to."""
    service = one.receipt.service
    entry = view.applied.table.entries.get(f"service.{service}")
    home = entry.node if entry is not None and entry.node is not UNSET else ""
    if home and args.to not in ("", home):
        raise Invalid(
            f"service.{service} is applied on {home}, so its data is restored there",
            remedy=f"leave --to out; or undeploy it first: holdfast undeploy {service}",
            code="not_placed",
        )
    node = home or args.to or one.receipt.node
    fleet_view.node(view, node, args)
    return node


def _tell(one: VerifiedReceipt, node: str, view: FleetView, args: Namespace, box: Toolbox) -> None:
    receipt = one.receipt
    what = f"{counted(receipt.files, 'file')}, {size(receipt.size_bytes)}, made {rfc3339(receipt.made_s)}"
    if args.beside:
        box.terminal.say(f"{node} makes checkpoint {fetched_id(one.digest)} of backup {one.id}: {what}.")
        return
    box.terminal.say(f"data.{receipt.service} on {node} becomes that of backup {one.id}: {what}.")
    if f"service.{receipt.service}" in view.applied.table.entries:
        box.terminal.say("The service stops meanwhile; its data of now becomes a checkpoint there.")
    if receipt.partial:
        box.terminal.say("This backup holds the default set of files only (*.toml, *.db, *.pem): all others go.")
