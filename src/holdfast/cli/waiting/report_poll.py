"""Wait for new reports of some nodes: by long poll if the hub supports it, else by polling."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.cli.tools import Toolbox
from holdfast.errors import TryLater
from holdfast.model.applied import Applied
from holdfast.ports.hub_link import FleetLookout, FleetReader

if TYPE_CHECKING:
    from holdfast.model.verified_report import VerifiedReport

HOLD_S = 15.0
HOLD_S_LIVE = 1.0  # on a terminal the shown seconds must advance
PAUSE_S_FIRST = 0.03
PAUSE_S_MAX = 0.25
ASK_S_MIN = 0.02  # limits the request rate to a hub that always answers at once
AWAY_S = 0.5


class ReportPoll:
    """While the hub is unreachable, as during a restart, the last reports stay valid."""

    def __init__(self, hub: FleetReader, applied: Applied, names: Sequence[str], box: Toolbox) -> None:
        self._hub = hub
        self._applied = applied
        self._names = tuple(sorted(names))
        self._box = box
        self._seen: dict[str, VerifiedReport] | None = None
        self._at = 0
        self._tells = isinstance(hub, FleetLookout)
        self._pause_s = PAUSE_S_FIRST

    def look(self) -> "dict[str, VerifiedReport]":
        from holdfast.trust import reports  # it verifies signatures: an offline apply need not load it

        try:
            few = isinstance(self._hub, FleetLookout) and self._names
            answer = (
                self._hub.nodes_named(self._names) if isinstance(self._hub, FleetLookout) and few else self._hub.nodes()
            )
        except TryLater:
            if self._seen is None:
                raise
            return self._seen
        self._seen = reports.verify(answer, self._applied, self._box.clock.now_s()).nodes
        return self._seen

    def rest(self, at_most_s: float) -> None:
        """Sleep until one of the nodes reports something new, or it is time to look again."""
        hold_s = min(at_most_s, HOLD_S_LIVE if self._box.terminal.is_live() else HOLD_S)
        if hold_s <= 0:
            return
        try:
            if not (self._tells and self._told(hold_s)):
                self._pause(min(self._pause_s, hold_s))
                self._pause_s = min(self._pause_s * 1.5, PAUSE_S_MAX)
        except TryLater:
            self._pause(min(AWAY_S, hold_s))

    def _told(self, hold_s: float) -> bool:
        """False: this hub has no long poll for reports."""
        hub, clock = self._hub, self._box.clock
        assert isinstance(hub, FleetLookout)
        until_s = clock.monotonic_s() + hold_s
        while True:
            asked_s = clock.monotonic_s()
            news = hub.news(self._at, max(0.0, until_s - asked_s))
            if news is None:
                self._tells = False
                return False
            is_first, self._at = self._at == 0, news.at
            if is_first or news.missed or set(news.nodes) & set(self._names) or clock.monotonic_s() >= until_s:
                return True
            if clock.monotonic_s() - asked_s < ASK_S_MIN:
                self._pause(ASK_S_MIN)

    def _pause(self, seconds: float) -> None:
        self._box.clock.sleep(seconds)
