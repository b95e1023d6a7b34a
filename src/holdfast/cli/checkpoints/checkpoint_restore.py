"""`holdfast checkpoint restore SVC ID`: bring back the data of a checkpoint, and the version that wrote it."""

from argparse import Namespace

from msgspec.structs import replace

from holdfast.cli.checkpoints import checkpoint_view, restoring
from holdfast.cli.checkpoints.checkpoint_view import Found
from holdfast.cli.flags import Parser, repeated
from holdfast.cli.fleet import session
from holdfast.cli.fleet.commit_plan import DETACH
from holdfast.cli.fleet.history_show import table_at
from holdfast.cli.fleet.plan import declare_message
from holdfast.cli.nodes import known_nodes
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.orders import order_and_wait
from holdfast.cli.tools import Toolbox
from holdfast.errors import Invalid
from holdfast.model.plan import Plan
from holdfast.model.revision import Table
from holdfast.planning.rollback import plan_rollback

DETAILS = """\
Restores data and version together. The node copies the checkpoint while the service runs, stops and holds the service,
and exchanges the data in one step; its data of now becomes another checkpoint, so that a restore can be undone by a
restore. Then a new revision with the content that the service had when it wrote the data is signed and applied. Other
services and your files are not changed. --data-only restores the data, and the applied version goes on with it.

The order needs grade destroy. An agent that is killed goes on with the same order; the data is always the old or the
restored one. ID may be the beginning of an id.

Exit 0: done; 1: the node failed or refused; 2: no node reports such a checkpoint, or the service is on another node;
4: another signature is needed; 5: fleet.lock is behind, or the id is ambiguous; 6: no answer in time.

examples:
  holdfast checkpoint list web
  holdfast checkpoint restore web 4f0c2a
  holdfast checkpoint restore web 4f0c2a --data-only --yes
"""


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", help="the service whose data is restored")
    parser.add_argument("id", metavar="ID", help="the checkpoint, as `holdfast checkpoint list` shows it")
    parser.add_argument("-n", "--node", metavar="NODE", default="", help="the node that has it")
    parser.add_argument("--data-only", action="store_true", help="the applied version goes on with the restored data")
    parser.add_argument("--detach", action="store_true", help=DETACH)
    restoring.declare_wait(parser)
    declare_message(parser)
    parser.add_argument("--adopt", action="store_true", help="continue although fleet.lock is behind")


def run(args: Namespace, box: Toolbox) -> int:
    name = args.service.removeprefix("service.")
    view = order_and_wait.look(args, box)
    row = checkpoint_view.named(view, name, args.id, args.node)
    _refuse_moved(row, view, args)
    found = None if args.data_only else _version(row, view, args, box)
    if found is None or found.candidate is None:
        return restoring.data_only([row], view, args, box)
    return restoring.with_version([row], found, view, args, box)


def _refuse_moved(row: Found, view: FleetView, args: Namespace) -> None:
    name = row.state.service
    entry = view.applied.table.entries.get(f"service.{name}")
    if entry is not None and entry.node != row.node:
        raise Invalid(
            f"service.{name} is applied on {entry.node}, and this checkpoint is on {row.node}",
            remedy=f"`holdfast checkpoint list {name} -n {entry.node}{repeated(args)}` lists those of its node",
            code="not_placed",
        )


def _version(row: Found, view: FleetView, args: Namespace, box: Toolbox) -> Plan | None:
    """The plan that brings back what wrote the data; None for a service that is not applied."""
    name, address = row.state.service, f"service.{row.state.service}"
    session.heads(args, box).check(view.hub, adopt=args.adopt)
    now = view.applied.table.entries.get(address)
    if now is None:
        return None
    number = row.state.revision
    links = view.hub.links(number, number) if 1 <= number <= view.applied.head.number else []
    then = table_at(view.hub, links[0]).entries.get(address) if links else None
    if then is None:
        raise Invalid(
            f"the revision that wrote checkpoint {row.state.id} of {name} is not known, so that its version cannot be "
            "brought back",
            remedy=f"`holdfast checkpoint restore {name} {row.state.id} --data-only{repeated(args)}` restores the data",
            code="unknown_revision",
        )
    entries = {**view.applied.table.entries, address: replace(then, node=now.node)}
    reads = known_nodes.formats(view.nodes)
    return plan_rollback(Table(entries, view.applied.table.tombstones), view.applied, reads)
