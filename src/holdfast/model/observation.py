"""The last observed state of a node: can be rebuilt, never part of a revision."""

from typing import Literal

from msgspec import Struct


class NodeObservation(Struct, frozen=True, omit_defaults=True):
    """`claimed` facts come from the node; `status` is the hub's own conclusion (M-47)."""

    node: str
    status: Literal["healthy", "unhealthy", "unknown"] = "unknown"
    containers: int | None = None  # None: not counted
    seen_at_s: float = 0.0
