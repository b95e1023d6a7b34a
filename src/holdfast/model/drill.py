"""Drills: as declared for a service, and as the node that runs them reports them. Values only."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from holdfast.model.schema import Duration, Table, Text

# verified: it was restored, and the service was healthy on it. failed: it was not. inconclusive: nothing is known.
Verdict = Literal["verified", "failed", "inconclusive"]
Cause = Literal["schedule", "order", "hub"]

LINES, LINE_CHARS = 20, 200


class Drill(Table, frozen=True):
    """A command that must end with exit code 0 on the restored data."""

    cmd: Annotated[tuple[Text, ...], Meta(min_length=1)]
    timeout: Duration = "10m"


# ---- as reported ----------------------------------------------------------------------------------------------------


class DrillResult(Struct, frozen=True, omit_defaults=True):
    """How a drill ended, with its evidence."""

    verdict: Verdict
    at_s: float  # when it began
    took_s: float
    cause: Cause
    backup: str = ""  # digest of the receipt; "" if none was chosen
    sequence: int = 0
    made_s: float = 0.0  # when that backup was made
    files: int = 0  # that were restored
    size_bytes: int = 0
    checks: tuple[str, ...] = ()  # what was looked at and right
    reason: str = ""  # why it is not verified
    remedy: str = ""
    lines: tuple[str, ...] = ()  # the last ones that the containers wrote, of a drill that failed
    order: str = ""  # that asked for it

    @property
    def id(self) -> str:
        return self.backup[:16]


class DrillState(Struct, frozen=True, omit_defaults=True):
    """`proven_s`: when the last drill that verified a backup began; 0: none did."""

    service: str
    next_s: float = 0.0
    last: DrillResult | None = None
    proven_s: float = 0.0
    proven: str = ""  # digest of that backup's receipt
    proven_made_s: float = 0.0  # when that backup was made
    running_s: float = 0.0  # since when one is under way; 0: none is
    step: str = ""  # of the one under way
    done_bytes: int = 0
    total_bytes: int = 0
    overdue: bool = False  # not proven for more than two intervals


class DrillStates(Struct, frozen=True):
    """The drills in a report. Readers take only this of it."""

    drills: tuple[DrillState, ...] = ()
