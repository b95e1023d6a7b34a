"""Codes of node findings that raise an alert, and the code of the alert that ends each. A table."""

from collections.abc import Mapping

# code of a node's finding → code of the alert that it is over. `public_dns_differs` raises no alert: that record is
# made outside the fleet, and the route works (M-80).
OVER: Mapping[str, str] = {
    "proxy_down": "proxy_back",
    "proxy_port_taken": "proxy_port_free",
    "certificate_failed": "certificate_issued",
    "certificate_expiring": "certificate_renewed",
    "certificate_stale": "certificate_shown",
    "handshake_failed": "handshake_seen",
    "edge_route_failed": "edge_route_live",
    "backend_unreachable": "backend_reachable",
    "dns_down": "dns_back",
    "dns_differs": "dns_agrees",
    "schedule_failed": "schedule_succeeded",
    "schedule_missed": "schedule_resumed",
}
