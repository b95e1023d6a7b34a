"""What services, DNS names and edges have in common while a command waits for them."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from holdfast.cli.waiting import receipts
from holdfast.model.deployment import StepResult
from holdfast.ports.clock import Clock
from holdfast.status.blockers import Concern

if TYPE_CHECKING:
    from holdfast.model.verified_report import VerifiedReport

SILENT_S = 2.0  # an agent that reports no services this long after its receipt runs none; the same with routes
SLACK_S = 2.0  # an edge stops trying on its own: wait for its last report, which has the reason


class Limits(Struct, frozen=True):
    """[timeouts] of the fleet (M-64)."""

    deploy_s: float
    undeploy_s: float
    edge_route_s: float


class Awaited(Struct, frozen=True):
    """One thing that a command waits for, as its node last reported it."""

    node: str  # that reports it
    what: str  # name of the service, hostname; "" for DNS names
    lead: str  # begins each of its lines
    is_settled: bool
    is_due: bool = True  # its turn in the order of a deploy (M-78): a step that happens earlier is shown later
    step: str = ""
    steps: tuple[StepResult, ...] = ()
    result: str = ""  # done, failed, skipped: shown in a line of its own
    message: str = ""
    concerns: tuple[Concern, ...] = ()  # whose findings may be the reason that it waits

    def text(self, now_s: float, whole: bool = False) -> str:
        """What it does now. `whole`: with the message."""
        step = next((step for step in self.steps if step.outcome == "running"), None)
        doing = f"{step.name} {max(0.0, now_s - step.at_s):.0f} s" if step is not None else self.step
        far = f", {step.message}" if step is not None and step.message else ""
        why = f": {self.message}" if whole and self.message and self.message not in far else ""
        return f"{self.lead}{doing}{far}{why}"


class Awaiter(Protocol):
    """One kind of thing that a command waits for."""

    def judge(self) -> None:
        """Look at the newest reports."""

    def awaited(self) -> list[Awaited]: ...

    def ends_s(self, limits: Limits, without: Collection[str]) -> list[float]:
        """The deadlines of everything that has not settled. `without`: nodes that did not confirm the revision."""


class Reports:
    """The newest reports of the nodes, and for how long something is seen in them. `branch` None: this command changed
    nothing. `asked`: the nodes whose manifest it changed."""

    def __init__(self, branch: receipts.Branch | None, asked: frozenset[str], clock: Clock) -> None:
        self.branch = branch
        self.asked = asked
        self.unheard: frozenset[str] = frozenset()  # silent nodes for which only DNS names changed
        self.heard: Mapping[str, VerifiedReport] = {}
        self.clock = clock
        self.began_s = clock.monotonic_s()
        self.since_s: dict[tuple[object, str], float] = {}  # first seen silent, parked, in trouble
        self.arrived_s: dict[str, float | None] = {}  # services whose data moves: when it arrived; None before

    def accepts(self, word: "VerifiedReport | None") -> bool:
        return self.branch is None or (word is not None and receipts.accepted(word, self.branch))

    def lasts(self, one: object, what: str, for_s: float) -> bool:
        now_s = self.clock.monotonic_s()
        return now_s - self.since_s.setdefault((one, what), now_s) >= for_s

    def unsigned(self) -> list[str]:
        """Nodes that joined and have not confirmed the revision."""
        if self.branch is None:
            return []
        asked = {node: self.heard[node] for node in sorted(self.asked - self.unheard) if node in self.heard}
        return [node for node, word in asked.items() if word.key and not self.accepts(word)]
