"""`holdfast restart|stop|start|force-cleanup SERVICE`: one action for a service, by a signed order to each node."""

from argparse import Namespace
from collections.abc import Callable
from functools import partial

from msgspec import UNSET

from holdfast.cli.flags import Command, Parser
from holdfast.cli.nodes import fleet_view
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.orders import order_and_wait
from holdfast.cli.tools import Toolbox
from holdfast.errors import Invalid
from holdfast.model.verified_report import VerifiedReport

Places = Callable[[str, FleetView, Namespace], tuple[str, ...]]

_RESTART = """\
Signs an order with your key (grade apply), submits it and waits until the node has signed the result. A service that
was stopped runs again; a deployment that failed is tried again. On a node with reconcile = "observe" the existing
containers are stopped and started unchanged, and nothing is deployed.
Exit 0: done; 1: the node failed or refused; 4: another signature is needed; 6: no answer in time.

examples:
  holdfast restart web
  holdfast restart web -n w2 --json
"""

_STOP = """\
Signs an order with your key (grade apply), submits it and waits until the node has signed the result. The service stays
stopped, also after a restart of its agent or machine, until `holdfast start`, `holdfast restart` or a new deployment;
`ps` shows it as held. Nothing is removed, and no standby starts. To keep a service stopped by declaration, set
active = false in its file.
Exit 0: done; 1: the node failed or refused; 4: another signature is needed; 6: no answer in time.

examples:
  holdfast stop web
  holdfast stop web --detach
"""

_START = """\
Undoes `holdfast stop`: signs an order with your key (grade apply), submits it and waits until the node has signed the
result. A running service is not changed.
Exit 0: done; 1: the node failed or refused; 4: another signature is needed; 6: no answer in time.

examples:
  holdfast start web
  holdfast start web --timeout 10m
"""

_FORCE_CLEANUP = """\
For problems that ordinary commands cannot fix. A signed order (grade apply) removes every container of the service that
the agent created on that node, and forgets failed attempts. Data, images and other containers are not touched. If the
service is applied, it is then deployed again; if it was removed, only its data remains. A node with
reconcile = "observe" refuses, because it would not create the containers again.
Exit 0: done; 1: the node failed or refused; 4: another signature is needed; 6: no answer in time.

examples:
  holdfast force-cleanup web
  holdfast force-cleanup old-web -n w2
"""


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", help="name of the service (services/NAME.toml)")
    parser.add_argument(
        "-n", "--node", metavar="NODE", help="only on this node (default: every node where it is placed or runs)"
    )
    order_and_wait.declare_shared(parser)


def _run(action: str, where: Places, args: Namespace, box: Toolbox) -> int:
    """Order an action for one service on all its nodes."""
    name = args.service.removeprefix("service.")
    view = order_and_wait.look(args, box)
    return order_and_wait.carry_out(action, f"service.{name}", where(name, view, args), view, args, box)


def _placed(service: str, view: FleetView, args: Namespace) -> tuple[str, ...]:
    return places(service, view, args.node, args)


def places(service: str, view: FleetView, only: str | None, args: Namespace) -> tuple[str, ...]:
    """Where it is applied, and where it runs as a standby; `only` narrows that to one node."""
    entry = view.applied.table.entries.get(f"service.{service}")
    if entry is None or entry.node is UNSET:
        raise _unknown(service, view)
    runs = sorted(name for name, one in view.nodes.items() if name != entry.node and stands_in(one, service))
    found = (entry.node, *runs)
    if only is None:
        return found
    fleet_view.node(view, only, args)
    if only not in found and only not in entry.failover:
        raise Invalid(
            f"{service} is neither placed on {only} nor running there as a standby",
            remedy=f"omit -n, or use one of: {', '.join(found)}",
            code="not_placed",
        )
    return (only,)


def stands_in(one: VerifiedReport, service: str) -> bool:
    states = one.report.services if one.report is not None and not one.is_old else ()
    return any(state.service == service and state.standby for state in states)


def _unknown(service: str, view: FleetView) -> Invalid:
    if f"service.{service}" in view.applied.table.tombstones:
        return Invalid(
            f"{service} was removed; at most its data remains",
            remedy=f"`holdfast retired` shows the data; to run the service again: `holdfast deploy {service}`",
            code="not_applied",
        )
    return fleet_view.no_service(service, sorted(view.applied.table.of_kind("service")))


def _also_removed(name: str, view: FleetView, args: Namespace) -> tuple[str, ...]:
    """Includes removed services and former nodes: their leftover containers are what this verb is for."""
    if args.node:
        fleet_view.node(view, args.node, args)
        return (args.node,)
    stone = view.applied.table.tombstones.get(f"service.{name}")
    if stone is not None and stone.node is not UNSET and stone.node in view.nodes:
        return (stone.node,)
    return places(name, view, None, args)


COMMANDS = {
    "restart": Command(_RESTART, declare, partial(_run, "restart", _placed)),
    "stop": Command(_STOP, declare, partial(_run, "stop", _placed)),
    "start": Command(_START, declare, partial(_run, "start", _placed)),
    "force-cleanup": Command(_FORCE_CLEANUP, declare, partial(_run, "force-cleanup", _also_removed)),
}
