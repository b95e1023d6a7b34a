"""Something a person should hear about now. One per silence, one when it is over (I-30)."""

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
