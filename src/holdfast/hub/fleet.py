"""The hub's side of the fleet, as its HTTP interface calls it: each call goes to the object that handles it."""

from holdfast.hub.fleet_views import FleetViews
from holdfast.hub.nodes.check_in import CheckInHandler
from holdfast.hub.nodes.joining import Joining
from holdfast.hub.nodes.revocation import Revocations
from holdfast.hub.orders.submission import Orders
from holdfast.hub.watch_loop import WatchLoop
from holdfast.hub.watched_fleet import WatchedFleet


class HubFleet:
    """wiring/hub.py builds it. What is refused here is in the audit log already."""

    def __init__(
        self,
        *,
        fleet: WatchedFleet,
        check_ins: CheckInHandler,
        joining: Joining,
        orders: Orders,
        revocations: Revocations,
        views: FleetViews,
        loop: WatchLoop,
    ) -> None:
        # on the event loop
        self.node_of_key = fleet.node_of_key
        self.join = joining.join
        self.check_in = check_ins.check_in
        self.submit = orders.submit
        self.revoke = revocations.revoke
        self.news = views.news
        self.run = loop.run
        # from any thread
        self.committed = fleet.committed
        self.status_findings = fleet.findings
        self.orders = orders.newest
        self.nodes = views.nodes
        self.observations = views.observations
        self.converged = views.converged
        self.audit_lines = views.audit_lines
        self.audit_entries = views.audit_entries
