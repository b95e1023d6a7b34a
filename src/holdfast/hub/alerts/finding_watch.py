"""Keep watch over what nodes find wrong with their traffic: proxies, certificates, public routes, names (I-30).

Nothing is done about it here; people are told once, and once more when it is over. What lasts only for a moment, as
while a container restarts, is shown by `holdfast status` and wakes nobody.
"""

import logging

import msgspec
from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.hub.alerts import episodes
from holdfast.hub.alerts.alarms import Alarms
from holdfast.hub.alerts.episodes import Episode, TroubleSign
from holdfast.hub.nodes.member import Member
from holdfast.hub.nodes.registry import Registry
from holdfast.ledger import keys
from holdfast.model.alert import Alert
from holdfast.model.report import NodeFinding
from holdfast.ports.clock import Clock
from holdfast.ports.ledger_store import LedgerStore, Transaction
from holdfast.ports.random_source import RandomSource
from holdfast.status.traffic_codes import OVER

log = logging.getLogger("holdfast.fleet")

LASTS_S_MIN = 5.0
LOOK_S_MAX = 60.0
WORDS_MAX = 400  # of a node, in an alert
ADDRESS_MAX = 300
TOLD_MAX = 1_000  # at once, of the whole fleet: a node that makes up addresses fills no ledger

Place = tuple[str, str, str]  # node, code, address


class Told(Struct, frozen=True):
    """What people were told and has not ended. Survives a restart of the hub."""

    node: str
    code: str
    address: str


class FindingWatch:
    """Belongs to the event loop."""

    def __init__(
        self, registry: Registry, store: LedgerStore, clock: Clock, random: RandomSource, alarms: Alarms
    ) -> None:
        self._registry = registry
        self._store = store
        self._clock = clock
        self._random = random
        self._alarms = alarms
        self._episodes: dict[Place, Episode] = {}
        self._words: dict[Place, NodeFinding] = {}
        self._begun = False  # nobody is told before it is known who is to be told, and what was told before

    def begin(self, loop_s: float) -> None:
        """What the hub before this one told, and what it had heard and not told yet."""
        self._begun = True
        for record in self._store.scan(keys.TOLD_FINDINGS):
            told = msgspec.json.decode(record.value, type=Told)
            self._episodes[told.node, told.code, told.address] = Episode(bad_s=loop_s, told=True)
        for member in list(self._registry.members.values()):
            self.heard(member, loop_s)

    def heard(self, member: Member, loop_s: float) -> None:
        """Its report is another one than before: what it does not name any more may be over."""
        if not self._begun or member.report is None or not member.joined:
            return
        named = {(member.name, one.code, one.address[:ADDRESS_MAX]): one for one in member.report.findings}
        named = {place: one for place, one in named.items() if one.code in OVER}
        known = {place for place in self._episodes if place[0] == member.name}
        for place in known | named.keys():
            if place not in self._episodes and len(self._episodes) >= TOLD_MAX:
                continue
            sign = TroubleSign(named[place].message or place[1] if place in named else "", {})
            self._episodes[place] = episodes.after(self._episodes.get(place, Episode()), sign, loop_s)
            if place in named:
                self._words[place] = named[place]

    def look(self, loop_s: float) -> float:
        """What lasts, and what is over; answers when to look again. Old words of a silent node prove nothing."""
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

    def _end(self, place: Place) -> None:
        """The node left the fleet, and its troubles with it."""
        if self._episodes[place].told:
            self._tell(place, is_over=True)
        self._forget(place)

    def _forget(self, place: Place) -> None:
        self._episodes.pop(place, None)
        self._words.pop(place, None)

    def _tell(self, place: Place, is_over: bool) -> None:
        """Written down together with the alert: a restart neither forgets nor repeats one."""
        alert = self._alert(place, is_over)
        id = self._random.token(8).hex()
        key = keys.TOLD_FINDINGS + "/".join(place)
        put = self._alarms.put(alert, id)
        if not is_over:
            put |= {key: msgspec.json.encode(Told(*place))}
        try:
            self._store.submit(Transaction(expect={}, put=put, delete=(key,) if is_over else ()))
        except HoldfastError as trouble:
            log.warning("what was told of %s on %s was not written down: %s", place[1], place[0], trouble)
        self._alarms.send(alert, id)

    def _alert(self, place: Place, is_over: bool) -> Alert:
        node, code, address = place
        fleet = self._registry.applied.fleet_id if self._registry.applied is not None else ""
        where, now_s = _plain(address) or f"node.{node}", self._clock.now_s()
        if is_over:
            about = f" ({_plain(address)})" if address else ""
            text = f"{node} does not report {code}{about} any more"
            return Alert(OVER[code], "recovery", fleet, where, text, "nothing to do: holdfast edge status", now_s)
        said = self._words.get(place)
        message = f"{node}: {_plain(said.message) if said is not None else code}"
        remedy = _plain(said.remedy) if said is not None and said.remedy else f"holdfast node show {node}"
        return Alert(code, "alarm", fleet, where, message, remedy, now_s)


def _plain(words: str) -> str:
    """Of a node: one line, and nothing that a terminal or a chat would obey."""
    plain = "".join(c if c.isprintable() else " " for c in words)
    return plain if len(plain) <= WORDS_MAX else plain[: WORDS_MAX - 1] + "…"
