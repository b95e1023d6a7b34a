"""What a command looks at before it moves services: the applied revision and what nodes report."""

from argparse import Namespace

from holdfast.cli.fleet import session
from holdfast.cli.fleet.session import Standing
from holdfast.cli.nodes import fleet_view
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.tools import Toolbox


def look(args: Namespace, box: Toolbox) -> tuple[Standing, FleetView]:
    current = session.standing(args, box, drafts=True)
    if current.applied is None or current.hub is None:
        raise session.nothing_applied(current.target)
    view = fleet_view.look(args, box)
    fleet_view.keeper(view, "services are moved")
    return current, view
