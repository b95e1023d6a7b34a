"""Where each act of the table is decided: in the agent before it acts, for a revision as a whole, or not yet.

Values only; tests/architecture/test_door.py compares them with the code.
"""

from collections.abc import Mapping

from msgspec import Struct

from holdfast.gate.acts import Act

_DOOR = "agent/services/door.py"
_ORDERS = "agent/orders/order_gate.py"
_SERVICE, _NODE, _FLEET = (f"planning/kinds/{name}.py" for name in ("service_grades", "node", "fleet"))
_STORAGE = "planning/kinds/storage.py"

# The module that asks, for one container, path or copy, or for an order as it comes.
ASKED: Mapping[Act, str] = {
    Act.PING: _ORDERS,
    Act.CHECK_IN: _ORDERS,
    Act.RESYNC: _ORDERS,
    Act.RENEW: _ORDERS,
    Act.BACK_UP: _ORDERS,
    Act.DRILL: "gate/copies.py",
    Act.FETCH: _ORDERS,
    Act.CREATE: _DOOR,
    Act.START: _DOOR,
    Act.RESTART: _ORDERS,  # and again for each container, by the same order
    Act.STOP: _DOOR,
    Act.EXEC: _DOOR,
    Act.LOGS: _ORDERS,
    Act.REPLACE: _DOOR,
    Act.CLEAN_UP: _DOOR,
    Act.RETIRE: _DOOR,
    Act.MOUNT: "gate/mounts.py",
    Act.MOUNT_STORAGE: "gate/mounts.py",
    Act.REACH_HOST: "gate/mounts.py",
    Act.DESTROY_DATA: _ORDERS,
    Act.OVERWRITE_DATA: "gate/copies.py",
    Act.DESTROY_COPY: "gate/copies.py",
    Act.SET_ASIDE: "gate/copies.py",
    Act.ATTACH_DATA: _ORDERS,
    Act.REVOKE_GRANT: _ORDERS,
}


class Judged(Struct, frozen=True):
    """A demand of planning: command line, hub and agent judge each revision by it (agent/acceptance/)."""

    module: str
    words: str  # of the demand


JUDGED: Mapping[Act, Judged] = {
    Act.ROUTE: Judged("agent/acceptance/route_grades.py", "was not signed well enough"),
    Act.SHRINK_RETENTION: Judged(_FLEET, "lowers backups.retain"),
    Act.UNPROTECT_VOLUME: Judged(_SERVICE, "weakens the protection of"),
    Act.LENGTHEN_INTERVAL: Judged(_FLEET, "makes backups."),
    Act.CHANGE_CUSTODY: Judged(_SERVICE, "changes custody"),
    Act.DETACH_STORAGE: Judged(_STORAGE, "detaches a storage target"),
    Act.REPOINT_STORAGE: Judged(_STORAGE, "points the storage target somewhere else"),
    Act.MOVE_VOLUME: Judged(_SERVICE, "to another path"),
    Act.LIFT_PROTECT: Judged(_SERVICE, "lifts protect"),
    Act.RAISE_REMOVALS: Judged(_FLEET, "raises removals_max"),
    Act.REMOVE_ORPHANS: Judged(_NODE, "lets the agent remove orphans"),
    Act.OPEN_DIRECT: Judged(_NODE, "opens the node for direct control"),
    Act.KEY_NODE: Judged(_NODE, "changes the node's key"),
    Act.WIDEN_RECIPIENTS: Judged("planning/secrets.py", "to more recipients than before"),
    Act.WIDEN_POLICY: Judged("planning/kinds/policy.py", "may widen what is allowed"),
    Act.CHANGE_TRUST: Judged("planning/kinds/trust.py", "changes who is trusted"),
}

# The feature that will ask.
NOT_BUILT: Mapping[Act, str] = {
    Act.VERIFY: "backups",
    Act.DESTROY_GUEST: "guests",
    Act.DECOMMISSION: "leaving a fleet",
    Act.BREAK_GLASS: "direct mode",
    Act.DOWNGRADE: "agent releases in the revision",
}
