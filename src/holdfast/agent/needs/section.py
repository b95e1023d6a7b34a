"""The needs of this node in its report."""

from msgspec import Struct

from holdfast.agent.keeper import Stage
from holdfast.model.need import NeedState

FEW = 50


class NeedsReport(Struct, frozen=True, omit_defaults=True):
    needs: tuple[NeedState, ...] = ()

    def shorter(self, stage: Stage) -> "NeedsReport":
        if stage == "nothing":
            return NeedsReport()
        if stage != "few":
            return self
        unwell = sorted(self.needs, key=lambda one: one.state == "fulfilled")
        return NeedsReport(tuple(unwell[:FEW]))
