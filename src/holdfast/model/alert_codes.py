"""The code of every alert that the hub sends, and of the alert that ends each. Tables."""

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
    "backup_failed": "backup_made",
    "backup_stale": "backup_fresh",
    "backup_damaged": "backup_whole",
    "drill_failed": "drill_verified",
    "target_gone": "target_back",
    "crash_loop": "crash_loop_over",
    "runtime_unavailable": "runtime_back",
    "clock_skew": "clock_right",
    "disk_filling": "disk_has_room",
}

# code → the alarm it ends, "" for an alarm
RECOVERY_OF: Mapping[str, str] = {
    "node_silent": "",
    "node_back": "node_silent",
    "rollout_failed": "",
    "rollout_recovered": "rollout_failed",
    "service_unhealthy": "",
    "service_healthy": "service_unhealthy",
    **dict.fromkeys(OVER, ""),
    **{recovery: alarm for alarm, recovery in OVER.items()},
}
