"""What a node reports about moves. Values only."""

from typing import Literal

from msgspec import Struct

from holdfast.model.deployment import StepResult


class MoveState(Struct, frozen=True, omit_defaults=True):
    """One service that comes or goes with its data. `step`: copy, catch up, stop, hand over, receive, take in, restore;
    "" once it is done."""

    service: str
    epoch: int
    role: Literal["source", "target"]
    peer: str  # the other node
    step: str = ""
    note: str = ""
    since_s: float = 0.0
    done_bytes: int = 0
    total_bytes: int = 0
    passes: int = 0
    handed_over: bool = False  # of the source: it signed for it, and does not run the service any more
    arrived: bool = False  # of the target: the data is here
    trouble: str = ""
    remedy: str = ""
    steps: tuple[StepResult, ...] = ()  # that are over, oldest first


class MoveStates(Struct, frozen=True):
    """The moves in a report. Readers take only this of it."""

    moves: tuple[MoveState, ...] = ()
    bare: tuple[str, ...] = ()  # services that this machine took over without their data, and does not start
