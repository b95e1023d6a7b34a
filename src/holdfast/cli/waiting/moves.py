"""Wait for moves of data: as long as they go on, until the data is at its new node."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.cli.waiting.awaiter import Awaited, Limits, Reports
from holdfast.status import moves
from holdfast.status.blockers import Concern
from holdfast.status.moves import MoveAwaited, MoveObserved

if TYPE_CHECKING:
    from holdfast.cli.waiting.report_poll import ReportPoll
    from holdfast.model.verified_report import VerifiedReport
    from holdfast.ports.clock import Clock

STALLED_S = 120.0  # without any progress in a report
TROUBLED_S = 15.0  # the same trouble for so long: the command ends, the nodes go on trying
AGAIN_S = 60.0  # an attempt of a node shows no trouble while it lasts: without any for so long it is over
REPORT_S = 10.0  # for a report of a healthy node


def told(
    one: MoveAwaited, heard: "Mapping[str, VerifiedReport]", poll: "ReportPoll", clock: "Clock"
) -> tuple[MoveObserved, "Mapping[str, VerifiedReport]"]:
    """How far this move is, and by which reports. A pulse can be ahead of its report: that is waited for."""
    until_s = clock.monotonic_s() + REPORT_S
    while True:
        seen, target = moves.judge(one, heard), heard.get(one.target)
        left_s = until_s - clock.monotonic_s()
        if not seen.is_untold or target is None or target.status != "healthy" or left_s <= 0:
            return seen, heard
        poll.rest(left_s)
        heard = poll.look()


class Moves:
    def __init__(self, wanted: Sequence[MoveAwaited], reports: Reports) -> None:
        self._wanted = wanted
        self._reports = reports
        self._changed_s = dict.fromkeys(wanted, reports.began_s)
        self._troubled_s: dict[MoveAwaited, float] = {}
        self.seen: tuple[MoveObserved, ...] = ()

    def judge(self) -> None:
        before = self.seen or (None,) * len(self._wanted)
        self.seen = tuple(moves.judge(one, self._reports.heard) for one in self._wanted)
        now_s = self._reports.clock.monotonic_s()
        for one, was, seen in zip(self._wanted, before, self.seen, strict=True):
            if was is not None and was != seen:
                self._changed_s[one] = now_s
            if seen.phase != "arrived":
                self._reports.arrived_s[one.service] = None
            elif self._reports.arrived_s.get(one.service) is None:
                self._reports.arrived_s[one.service] = now_s
            if seen.message:
                self._troubled_s[one] = now_s
                self._reports.since_s.setdefault((one, "trouble"), now_s)
            elif now_s - self._troubled_s.get(one, now_s) > AGAIN_S:
                self._reports.since_s.pop((one, "trouble"), None)

    def awaited(self) -> list[Awaited]:
        return [row for one, seen in zip(self._wanted, self.seen, strict=True) for row in self._rows(one, seen)]

    def _rows(self, one: MoveAwaited, seen: MoveObserved) -> list[Awaited]:
        """One for each node, because each has its own steps; what is under way is in the row of its node."""
        rows = []
        for node in sorted(one.nodes):
            steps = tuple(step for of, step in seen.steps if of == node)
            is_active = node == (seen.node or one.target)
            concern = Concern(node, frozenset({f"service.{one.service}"}))
            rows.append(
                Awaited(
                    node=node,
                    what=f"move {one.service}",
                    lead=f"{node}  move {one.service}  ",
                    is_settled=seen.phase == "arrived" or not is_active,
                    step=seen.doing if is_active else "",
                    steps=steps,
                    message=seen.message if is_active else "",
                    concerns=() if seen.phase == "arrived" else (concern,),
                )
            )
        return rows

    def ends_s(self, limits: Limits, without: Collection[str]) -> list[float]:
        """One that waits for its turn stalls with the one before it."""
        pairs = [pair for pair in zip(self._wanted, self.seen, strict=True) if pair[1].phase != "arrived"]
        begun = [pair for pair in pairs if not pair[1].is_untold]
        return [self._end_s(one, seen, limits) for one, seen in begun or pairs]

    def _end_s(self, one: MoveAwaited, seen: MoveObserved, limits: Limits) -> float:
        if seen.message and self._reports.lasts(one, "trouble", TROUBLED_S):
            return 0.0
        return self._changed_s[one] + max(STALLED_S, limits.deploy_s if seen.phase == "unknown" else 0.0)
