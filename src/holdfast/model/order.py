"""Orders: signed permission to act once on one node. Only trust/orders.py verifies them."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from holdfast.model import canonical
from holdfast.model.fleet import Grade
from holdfast.model.record import Signer
from holdfast.model.report import SignedPulse
from holdfast.model.revision import Count, DigestText

NAMESPACE = "holdfast-order"
FORMAT = 2
OLD_FORMAT = 1  # names no pulse: an agent of this release does not begin it
EXPIRY_S = 15 * 60
EXPIRY_S_MAX = 7 * 24 * 3600
COUNTER_WINDOW = 1024  # an order this far behind the highest counter may still run
COUNTER_LEAP_MAX = 1 << 20  # an order this far ahead may run; one signature must not use up all counters

Arguments = Mapping[str, str]


class ActionRule(Struct, frozen=True):
    """What the gate decides about it, the grade it needs, and whether the hub may order it without a signature (closed
    list of design.md §3)."""

    act: str  # name of an act of gate/acts.py
    grade: Grade
    target: Literal["node", "service", "data"]
    about: str
    hub_may: bool = False
    hub_per_hour: int = 0  # 0: no limit
    built: bool = True
    or_node: bool = False  # the node itself may be the target too


# All actions. CLI, hub and agent refuse any other.
ACTIONS: Mapping[str, ActionRule] = {
    "ping": ActionRule("PING", "apply", "node", "answer at once", hub_may=True),
    "check-in": ActionRule("CHECK_IN", "apply", "node", "send a whole report now", hub_may=True),
    "renew-certificate": ActionRule("RENEW", "apply", "node", "issue the serving certificate again", True, 2),
    "backup": ActionRule("BACK_UP", "apply", "service", "back up now", True, 2, or_node=True),
    "verify": ActionRule("VERIFY", "apply", "service", "read a backup back", True, 2, built=False),
    "drill": ActionRule("DRILL", "apply", "service", "prove a backup by restoring it into scratch", True, 2),
    "restart": ActionRule("RESTART", "apply", "service", "restart the containers"),
    "stop": ActionRule("STOP", "apply", "service", "stop and hold"),
    "start": ActionRule("START", "apply", "service", "lift a hold"),
    "force-cleanup": ActionRule("CLEAN_UP", "apply", "service", "remove the containers; data stays"),
    "exec": ActionRule("EXEC", "apply", "service", "run a command in a container", built=False),
    "logs": ActionRule("LOGS", "apply", "service", "stream logs", built=False),
    "purge": ActionRule("DESTROY_DATA", "destroy", "data", "set data aside for 7 days; --arg now=yes: destroy it"),
    "restore": ActionRule("OVERWRITE_DATA", "destroy", "data", "restore a backup over data: --arg backup=DIGEST"),
    "decommission": ActionRule("DECOMMISSION", "destroy", "node", "forget the fleet, keep all data", built=False),
    "break-glass": ActionRule("BREAK_GLASS", "destroy", "node", "open direct mode for a while", built=False),
    "run-schedule": ActionRule("EXEC", "apply", "service", "run a schedule now"),
    "resync": ActionRule("RESYNC", "apply", "node", "accept orders again after its state was put back"),
    "adopt": ActionRule("ATTACH_DATA", "destroy", "data", "attach an existing directory to its service"),
    "restore-checkpoint": ActionRule(
        "OVERWRITE_DATA", "destroy", "data", "put a checkpoint in the place of data: --arg checkpoint=ID"
    ),
    "restore-retired": ActionRule("ATTACH_DATA", "destroy", "data", "bring purged data back: --arg purge=ID"),
    "delete-checkpoint": ActionRule("DESTROY_COPY", "destroy", "data", "delete a checkpoint: --arg checkpoint=ID"),
    "fetch-backup": ActionRule("FETCH", "apply", "data", "make a checkpoint of a backup: --arg backup=DIGEST"),
    "revoke-grant": ActionRule(
        "REVOKE_GRANT", "destroy", "service", "end the login of a need: --arg need=NAME --arg consumer=NODE"
    ),
}


FETCHES = frozenset({"restore", "fetch-backup"})  # a node that has one reads the backups of its service


class Order(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What operators sign: it contains everything that could be swapped (H-33, W16)."""

    format: int
    fleet: DigestText
    id: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$(?!\n)")]  # idempotency key
    node: str
    target: str  # node.<name>, service.<name>, or data.<name> for the directory <data-dir>/<name>
    action: str
    arguments: DigestText  # of their canonical bytes
    counter: Count
    nonce: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$(?!\n)")]
    not_before_s: Count
    expires_s: Count
    pulse: SignedPulse | None = None  # the newest pulse of the node that the signer verified; None in format 1
    after_restart: bool = False  # may run in a later life of the agent too; only with grade apply


class SignedOrder(Struct, frozen=True):
    order: bytes  # canonical Order
    arguments: bytes  # canonical Arguments
    signatures: tuple[str, ...]


class HubOrder(Struct, frozen=True):
    """What a hub may order without an operator: actions with `hub_may`, nothing else."""

    id: str
    node: str
    action: str
    target: str = ""


class Delivered(Struct, frozen=True):
    """An order in delivery to its node, under a lease: a result for an older attempt is ignored."""

    attempt: int
    signed: SignedOrder | None = None
    hub: HubOrder | None = None


class OrderResult(Struct, frozen=True, omit_defaults=True):
    """`refused`: nothing was done, and nothing will be."""

    id: str
    attempt: int
    outcome: Literal["done", "failed", "refused"]
    code: str = ""
    message: str = ""
    remedy: str = ""
    finished_s: float = 0.0


class Refusal(Struct, frozen=True):
    """Why something was not done, as an error would report it, for callers that return it instead of raising."""

    code: str
    message: str
    remedy: str


class VerifiedOrder(Struct, frozen=True):
    """Proof that operators of the right grade ordered exactly this, here, now. Only trust/orders.py makes it."""

    order: Order
    arguments: Arguments
    grade: Grade
    signers: tuple[Signer, ...]


def decode_order(content: bytes) -> Order:
    return canonical.decode(content, Order, "the order")
