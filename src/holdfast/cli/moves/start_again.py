"""Try to start a service again whose data arrived and whose start failed there: an order, as of `holdfast restart`."""

from argparse import Namespace

from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.orders import order_and_wait
from holdfast.cli.tools import Toolbox


def ordered(service: str, node: str, view: FleetView, args: Namespace, box: Toolbox) -> None:
    """Nothing if it runs, or is under way. Its result is in the reports that the command looks at next."""
    if not has_failed(service, node, view):
        return
    if not args.json:
        box.terminal.remark(f"{service} did not start on {node}: it is tried again.")
    timed = Namespace(**vars(args) | {"timeout": order_and_wait.WAIT})
    given = order_and_wait.ordered("restart", f"service.{service}", (node,), order_and_wait.NONE, view, timed, box)
    order_and_wait.ended(given, view, timed, box)


def has_failed(service: str, node: str, view: FleetView) -> bool:
    """By the report of the node; no version of it serves."""
    found = view.nodes.get(node)
    states = found.report.services if found is not None and found.report is not None and not found.is_old else ()
    return any(one.service == service and one.phase == "failed" and not one.serving for one in states)
