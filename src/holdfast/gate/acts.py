"""The closed list of actions the gate decides about, and the facts it uses. Values only."""

from collections.abc import Mapping
from enum import Enum

from holdfast.model.order import ACTIONS


class Act(Enum):
    """The value is the text for people, after "may not …"."""

    # Needs grade `apply`, or no signature at all.
    PING = "answer"
    CHECK_IN = "send a report"
    RESYNC = "accept orders again"
    RENEW = "renew a certificate"
    BACK_UP = "back up"
    VERIFY = "read a backup back"
    DRILL = "prove a backup by restoring it into scratch"
    CREATE = "create"
    START = "start"
    RESTART = "restart"
    STOP = "stop and hold"
    ROUTE = "route"
    EXEC = "run a command in a container"
    LOGS = "stream logs"
    REPLACE = "replace a container whose data stays"
    SET_ASIDE = "move a directory aside"
    CLEAN_UP = "take away the containers this agent made for a service"
    RETIRE = "take away a container"
    MOUNT = "mount a volume of the service"
    MOUNT_STORAGE = "mount a storage target"
    FETCH = "bring a backup back beside the data"

    # May destroy data.
    DESTROY_DATA = "destroy data"
    OVERWRITE_DATA = "write over data"
    DESTROY_GUEST = "destroy a guest with its disk"
    DESTROY_COPY = "delete a checkpoint or backup"
    DECOMMISSION = "leave the fleet"

    # Makes a later loss of data more likely.
    SHRINK_RETENTION = "keep fewer backups"
    UNPROTECT_VOLUME = "stop backing a volume up"
    LENGTHEN_INTERVAL = "back up or drill less often"
    CHANGE_CUSTODY = "change who can open backups"
    DETACH_STORAGE = "detach a storage target"
    REPOINT_STORAGE = "point a storage target elsewhere"
    MOVE_VOLUME = "rename or re-path a volume"

    # Removes a protection or gives access.
    LIFT_PROTECT = "lift protect"
    RAISE_REMOVALS = "raise removals_max"
    REMOVE_ORPHANS = "let orphans be removed"
    OPEN_DIRECT = "open direct control"
    BREAK_GLASS = "open direct mode for a while"
    REVOKE_GRANT = "take a credential back that is in use"
    ATTACH_DATA = "attach existing data to another service"
    REACH_HOST = "reach into the host"
    KEY_NODE = "add or re-key a node"
    WIDEN_RECIPIENTS = "let more keys open secrets or backups"
    WIDEN_POLICY = "widen a policy"
    DOWNGRADE = "run an older agent release"
    CHANGE_TRUST = "change who is trusted"


class Provenance(Enum):
    """The origin of a thing, from this agent's own journal. No message has a field for it (H-29, I-04)."""

    OWN_TRANSACTION = "made by the journaled operation now under way"
    OWN_SCRATCH = "marked as scratch by this agent"
    OWN_EARLIER = "made by this agent in an earlier operation"
    FOREIGN = "not made by this agent"
    UNKNOWN = "the journal cannot tell"


class Data(Enum):
    """What would be lost, from looking at the disk."""

    NOTHING = "nothing there"
    EMPTY = "there, without any content"
    COPIED = "data, another proven copy exists"
    MAYBE_ONLY_COPY = "data that may be the only copy"


# The act of each order of model/order.py. A test checks that the grades agree.
ACT_OF: Mapping[str, Act] = {action: Act[rule.act] for action, rule in ACTIONS.items()}
