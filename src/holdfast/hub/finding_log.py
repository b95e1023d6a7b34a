"""Write into the hub's log, one event each, which findings began and which ended (M-76). Sends nothing to people.

Events are fields, never text: what a node says in a finding cannot look like another line. A node whose findings come
and go all the time cannot fill a disk: after EVENTS_MAX events there are EACH_S a second, and the others come later.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from holdfast.hub.alerts.writer import plain
from holdfast.hub.hub_time import HubTime
from holdfast.model.hub_status import StatusFinding

GAP_S, LOOK_S = 1.0, 5.0  # between two looks: at least, where something happened, and at most
EVENTS_MAX, EACH_S = 500, 5.0
OPEN_MAX = 10_000

Say = Callable[[str, dict[str, object]], None]  # one event: its name and its fields
Key = tuple[str, str, int]  # code, address, which one of those with both


class FindingLog:
    """Belongs to the event loop."""

    def __init__(self, findings: Callable[[], Sequence[StatusFinding]], say: Say, time: HubTime) -> None:
        self._findings = findings
        self._say = say
        self._time = time
        self._open: dict[Key, StatusFinding] = {}  # as the log says
        self._looked_s: float | None = None
        self._room = float(EVENTS_MAX)  # for events, now

    def due(self, loop_s: float) -> float:
        """Something happened, or it is time: look, unless it is too early. When to look again."""
        if self._looked_s is not None and loop_s - self._looked_s < GAP_S:
            return self._looked_s + GAP_S
        passed_s = loop_s - self._looked_s if self._looked_s is not None else 0.0
        self._room, self._looked_s = min(self._room + EACH_S * passed_s, EVENTS_MAX), loop_s
        self._compare(_by_key(self._findings()))
        return self._looked_s + LOOK_S

    def _compare(self, found: dict[Key, StatusFinding]) -> None:
        for key in [key for key in self._open if key not in found][: int(self._room)]:
            self._write("finding_gone", self._open.pop(key))
        room = max(0, min(int(self._room), OPEN_MAX - len(self._open)))
        for key in [key for key in found if key not in self._open][:room]:
            self._open[key] = found[key]
            self._write("finding", found[key])

    def _write(self, event: str, found: StatusFinding) -> None:
        fields: dict[str, object] = {
            "at_s": round(self._time.now_s(), 3),
            "code": found.code,
            "level": found.level,
            "address": plain(found.address),
            "message": plain(found.message),
        }
        if event == "finding":
            fields["remedy"] = plain(found.remedy)
        self._room -= 1
        self._say(event, fields)


def _by_key(findings: Sequence[StatusFinding]) -> dict[Key, StatusFinding]:
    """Two nodes may report the same code about one service."""
    seen: Counter[tuple[str, str]] = Counter()
    found: dict[Key, StatusFinding] = {}
    for one in findings:
        found[one.code, one.address, seen[one.code, one.address]] = one
        seen[one.code, one.address] += 1
    return found
