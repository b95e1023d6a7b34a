"""Raise alerts for findings of nodes: the codes of model/alert_codes.py (I-30).

One alarm per finding that lasts, one recovery when it is over. A finding that lasts only a moment, as while a container
restarts, is shown by `holdfast status` and raises no alarm. Repairs nothing.
"""

import msgspec
from msgspec import Struct

from holdfast.hub.alerts import episodes
from holdfast.hub.alerts.episodes import Episode, TroubleSign
from holdfast.hub.alerts.writer import AlertWriter, plain
from holdfast.hub.hub_time import HubTime
from holdfast.hub.nodes.member import Member
from holdfast.hub.nodes.registry import Registry
from holdfast.ledger import keys
from holdfast.model.alert import Alert
from holdfast.model.alert_codes import OVER
from holdfast.model.report import NodeFinding
from holdfast.ports.ledger_store import Reading

LASTS_S_MIN = 5.0
LOOK_S_MAX = 60.0
ADDRESS_MAX = 300
TOLD_MAX = 1_000  # at once, of the whole fleet: a node that invents addresses cannot fill the ledger

Place = tuple[str, str, str]  # node, code, address


class Told(Struct, frozen=True):
    """An alarm without its recovery. Survives a restart of the hub."""

    node: str
    code: str
    address: str


class FindingWatch:
    """Belongs to the event loop."""

    def __init__(self, registry: Registry, store: Reading, alerts: AlertWriter, time: HubTime) -> None:
        self._registry = registry
        self._store = store
        self._alerts = alerts
        self._time = time
        self._episodes: dict[Place, Episode] = {}
        self._newest: dict[Place, NodeFinding] = {}
        self._begun = False  # before that, neither the targets nor the open alarms are known

    def reported(self, member: Member) -> None:
        """A finding that the report no longer has may be over."""
        if not self._begun or member.report is None or not member.joined:
            return
        loop_s = self._time.loop_s()
        named = {(member.name, one.code, one.address[:ADDRESS_MAX]): one for one in member.report.findings}
        named = {place: one for place, one in named.items() if one.code in OVER}
        known = {place for place in self._episodes if place[0] == member.name}
        for place in known | named.keys():
            if place not in self._episodes and len(self._episodes) >= TOLD_MAX:
                continue
            sign = TroubleSign(named[place].message or place[1] if place in named else "", {})
            self._episodes[place] = episodes.after(self._episodes.get(place, Episode()), sign, loop_s)
            if place in named:
                self._newest[place] = named[place]

    def due(self, loop_s: float) -> float | None:
        """Find what lasts and what is over. The old report of a silent node proves neither."""
        if not self._begun:
            self._begin(loop_s)
        limit_s = max(LASTS_S_MIN, self._registry.cadence.window_s / 3)
        next_s = loop_s + LOOK_S_MAX
        for place, before in list(self._episodes.items()):
            member = self._registry.members.get(place[0])
            if member is None:
                self._end(place)
                continue
            if member.condition.status not in ("healthy", "suspect"):
                continue
            episode, follows, again_s = episodes.due(before, loop_s, limit_s)
            self._episodes[place] = episode
            if follows is not None:
                self._tell(place, is_over=follows == "recover")
            if episode.bad_s is None and not episode.told:
                self._forget(place)
            if again_s is not None:
                next_s = min(next_s, again_s)
        return next_s

    def _begin(self, loop_s: float) -> None:
        """Load the open alarms of an earlier hub process, and the reports it has stored."""
        self._begun = True
        for record in self._store.scan(keys.TOLD_FINDINGS):
            told = msgspec.json.decode(record.value, type=Told)
            self._episodes[told.node, told.code, told.address] = Episode(bad_s=loop_s, told=True)
        for member in list(self._registry.members.values()):
            self.reported(member)

    def _end(self, place: Place) -> None:
        """The node left the fleet."""
        if self._episodes[place].told:
            self._tell(place, is_over=True)
        self._forget(place)

    def _forget(self, place: Place) -> None:
        self._episodes.pop(place, None)
        self._newest.pop(place, None)

    def _tell(self, place: Place, is_over: bool) -> None:
        key = keys.TOLD_FINDINGS + "/".join(place)
        about = f"the alert {place[1]} of {place[0]}"
        if is_over:
            self._alerts.write(about, [_recovery(place)], {}, (key,))
        else:
            put = {key: msgspec.json.encode(Told(*place))}
            self._alerts.write(about, [_alarm(place, self._newest.get(place))], put)


def _recovery(place: Place) -> Alert:
    node, code, address = place
    about = f" ({plain(address)})" if address else ""
    text = f"{node} no longer reports {code}{about}"
    return Alert(OVER[code], "recovery", "", _where(place), text, "nothing to do", 0.0)


def _alarm(place: Place, newest: NodeFinding | None) -> Alert:
    node, code, _ = place
    message = f"{node}: {plain(newest.message) if newest is not None else code}"
    remedy = plain(newest.remedy) if newest is not None and newest.remedy else f"holdfast node show {node}"
    return Alert(code, "alarm", "", _where(place), message, remedy, 0.0)


def _where(place: Place) -> str:
    return plain(place[2]) or f"node.{place[0]}"
