"""What one node reports, as far as it is proven. A value; trust/reports.py is its only maker."""

from typing import TypeVar

import msgspec
from msgspec import Struct

from holdfast.model.cadence import NORMAL
from holdfast.model.duration import aged
from holdfast.model.node_view import NodeView
from holdfast.model.report import Pulse, Report

T = TypeVar("T")


class VerifiedReport(Struct, frozen=True):
    """`pulse` and `report` are None unless the node's key signed them; then `age_s` is the age of the pulse."""

    view: NodeView
    pulse: Pulse | None = None
    report: Report | None = None
    age_s: float = 0.0
    key: str = ""  # proven
    doubt: str = ""  # why there is no proof
    window_s: float = NORMAL.window_s  # a node that runs has sent a pulse within this time

    def section(self, kind: type[T]) -> T | None:
        """The fields of one keeper, from the same signed bytes; None if they are not proven, or of another form."""
        try:
            return msgspec.json.decode(self.view.report, type=kind) if self.report is not None else None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None

    @property
    def verified(self) -> bool:
        """Signed by the node, and recent enough to say how the node is now."""
        return self.pulse is not None and not self.is_old

    @property
    def is_old(self) -> bool:
        """The hub calls the node healthy, but the newest pulse it shows is too old to prove that."""
        return self.pulse is not None and self.view.status == "healthy" and self.age_s > self.window_s

    @property
    def withheld_s(self) -> float:
        """How much older the newest pulse is than the hub says; 0 if the two agree."""
        if self.pulse is None or self.view.age_s is None:
            return 0.0
        behind_s = self.age_s - self.view.age_s
        return behind_s if behind_s > self.window_s else 0.0

    @property
    def status(self) -> str:
        """Only the node itself can prove that it is healthy; the hub is believed that it is not, or unknown (M-47)."""
        return "unknown" if self.view.status == "healthy" and not self.verified else self.view.status

    @property
    def silence(self) -> str:
        """For people, "" while it is not silent: a command names a silent node at once (N32)."""
        if not self.key or self.status != "unhealthy":
            return ""
        return f"{self.view.name} is silent (last contact {aged(self.age_s)} ago)"

    @property
    def shown(self) -> str:
        """For people."""
        return "revoked" if self.view.revoked else self.status if self.view.joined else "not joined"
