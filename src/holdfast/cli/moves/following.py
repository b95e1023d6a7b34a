"""Follow a move that is recorded; a start that failed on the new node is tried again, by an order as of `restart`."""

from argparse import Namespace

from holdfast.cli.fleet.commit_plan import conclude
from holdfast.cli.fleet.session import Standing
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.orders import order_and_wait
from holdfast.cli.tools import Toolbox
from holdfast.cli.waiting import outcome
from holdfast.model.plan import Plan


def run(service: str, home: str, current: Standing, view: FleetView, args: Namespace, box: Toolbox) -> int:
    """It is placed there already: wait for a move that is under way, and try a start again that failed."""
    applied, hub = current.applied, current.hub
    assert applied is not None and hub is not None
    if not args.json:
        box.terminal.say(f"service.{service} is placed on {home}.")
    if not args.detach:
        _start_again(service, home, view, args, box)
    found = outcome.look_again(hub, applied, f"service.{service}", box) if not args.detach else outcome.NOTHING
    return conclude(found, applied.head, Plan(applied.head, (), "apply", None), hub, args, box)


def _start_again(service: str, node: str, view: FleetView, args: Namespace, box: Toolbox) -> None:
    """Nothing if it runs, or is under way. Its result is in the reports that the command looks at next."""
    if not _has_failed(service, node, view):
        return
    if not args.json:
        box.terminal.remark(f"{service} did not start on {node}: it is tried again.")
    timed = Namespace(**vars(args) | {"timeout": order_and_wait.WAIT})
    given = order_and_wait.ordered("restart", f"service.{service}", (node,), order_and_wait.NONE, view, timed, box)
    order_and_wait.ended(given, view, timed, box)


def _has_failed(service: str, node: str, view: FleetView) -> bool:
    """By the report of the node; no version of it serves."""
    found = view.nodes.get(node)
    states = found.report.services if found is not None and found.report is not None and not found.is_old else ()
    return any(one.service == service and one.phase == "failed" and not one.serving for one in states)
