"""A deployment: one applied attempt of a service on a node (V-17). Values only."""

from typing import Literal

from msgspec import Struct

from holdfast.model import canonical
from holdfast.model.revision import Entry

ID_LENGTH = 16

# settling: in progress, or about to be. held: stopped by an order, or declared inactive. failed: the attempt did not
# work and is not tried again; the previous version still serves.
Phase = Literal["settling", "converged", "failed", "held"]


def deployment_of(entry: Entry) -> str:
    """The same entry gives the same deployment, wherever it is computed."""
    return canonical.digest(canonical.encode(entry))[:ID_LENGTH]


class StepResult(Struct, frozen=True, omit_defaults=True):
    """One step of a rollout as people read it: "pull", "start app 1", "healthy app 1", "switch", "stop old app 1"."""

    name: str
    outcome: Literal["running", "done", "failed"]
    at_s: float
    took_s: float = 0.0
    message: str = ""


class ServiceState(Struct, frozen=True, omit_defaults=True):
    """The state of one service on this node. `applied` is wanted, `serving` runs; they are equal once converged."""

    service: str
    phase: Phase
    applied: str  # deployment
    applied_revision: int = 0  # the revision that brought it
    serving: str = ""  # deployment; "" while nothing serves
    serving_revision: int = 0
    images: tuple[str, ...] = ()  # that serve
    step: str = ""  # in progress, or the one that failed
    code: str = ""
    message: str = ""
    remedy: str = ""
    steps: tuple[StepResult, ...] = ()  # of the newest attempt
    standby: bool = False  # runs here for a silent node (failover)
