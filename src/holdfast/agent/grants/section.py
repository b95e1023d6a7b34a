"""The credentials that this node gave, in its report."""

from msgspec import Struct

from holdfast.agent.keeper import Stage
from holdfast.model.need import GrantState

FEW = 50


class GrantsReport(Struct, frozen=True, omit_defaults=True):
    grants: tuple[GrantState, ...] = ()

    def shorter(self, stage: Stage) -> "GrantsReport":
        if stage == "nothing":
            return GrantsReport()
        return GrantsReport(self.grants[:FEW]) if stage == "few" else self
