"""An alert to people. One when a node becomes silent, one when it is back (I-30)."""

from typing import Literal

from msgspec import Struct


class Alert(Struct, frozen=True):
    code: str  # node_silent, node_back, …
    level: Literal["alarm", "recovery"]
    fleet: str
    address: str  # node.w1
    message: str
    remedy: str
    at_s: float
