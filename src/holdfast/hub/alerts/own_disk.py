"""Raise alerts when the disk of the hub itself is filling up. Deletes nothing."""

from collections.abc import Callable, Iterator, Sequence

from holdfast.hub.alerts.writer import AlertWriter
from holdfast.hub.nodes.member import Member
from holdfast.ledger import keys
from holdfast.model.alert import Alert
from holdfast.model.disk_room import DiskRoom
from holdfast.model.hub_status import StatusFinding
from holdfast.ports.ledger_store import Reading
from holdfast.status import disks
from holdfast.status.disks import CODE, OVER, Filling

LOOK_S = 10.0
WHERE = "hub"
MACHINE = "the machine of the hub"


class OwnDisk:
    """Belongs to the event loop, except `findings`. The ledger has what people were told of."""

    def __init__(self, look: Callable[[], Sequence[DiskRoom]], store: Reading, alerts: AlertWriter) -> None:
        self._look = look
        self._store = store
        self._alerts = alerts
        self._told: frozenset[str] | None = None
        self._filling: tuple[Filling, ...] = ()
        self._looked_s = -LOOK_S

    def reported(self, member: Member) -> None:
        pass

    def due(self, loop_s: float) -> float | None:
        if loop_s - self._looked_s >= LOOK_S:
            self._looked_s = loop_s
            self._judge()
        return self._looked_s + LOOK_S

    def _judge(self) -> None:
        if self._told is None:
            records = self._store.scan(keys.TOLD_DISKS)
            self._told = frozenset(record.key.removeprefix(keys.TOLD_DISKS) for record in records)
        rooms, told = self._look(), self._told
        unseen = told - {room.name for room in rooms}
        self._filling = tuple(disks.filling(rooms, told))
        for one in self._filling:
            if one.name not in told:
                alert = Alert(CODE, "alarm", "", WHERE, f"hub: {one.message}", disks.remedy(one.path, MACHINE), 0.0)
                self._alerts.write("the alert about the hub's disk", [alert], {keys.TOLD_DISKS + one.name: b"{}"})
        now = unseen | {one.name for one in self._filling}
        for name in told - now:
            alert = Alert(OVER, "recovery", "", WHERE, "the disk of the hub has room again", "nothing to do", 0.0)
            self._alerts.write("the alert about the hub's disk", [alert], {}, (keys.TOLD_DISKS + name,))
        self._told = now

    def findings(self, now_s: float) -> Iterator[StatusFinding]:
        for one in self._filling:
            yield StatusFinding(CODE, "warning", f"hub: {one.message}", disks.remedy(one.path, MACHINE), WHERE)
