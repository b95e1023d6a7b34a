"""Keep watch over services by what nodes report of them: rollouts that fail, containers that are not well.

Nothing is done about it here; people are told once, and once more when it is over.
"""

import logging

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.hub.alerts import episodes, rollouts
from holdfast.hub.alerts.alarms import Alarms
from holdfast.hub.alerts.episodes import Episode
from holdfast.hub.nodes.member import Member
from holdfast.hub.nodes.registry import Registry
from holdfast.hub.watchers.deployments import Deployments
from holdfast.ledger import keys
from holdfast.model.alert import Alert
from holdfast.model.deployment import ServiceState
from holdfast.ports.clock import Clock
from holdfast.ports.ledger_store import LedgerStore, Transaction
from holdfast.ports.random_source import RandomSource

log = logging.getLogger("holdfast.fleet")

UNWELL_S_MIN = 5.0
LOOK_S_MAX = 60.0
WORDS_MAX = 400  # of a node, in an alert

Place = tuple[str, str]  # node, service


class ServiceRecord(Struct, frozen=True, omit_defaults=True):
    """What people were told of a service on a node and has not ended. Survives a restart of the hub."""

    failed: str = ""  # deployment
    unwell: bool = False


NOTHING = ServiceRecord()


class ServiceWatch:
    """Belongs to the event loop."""

    def __init__(
        self,
        registry: Registry,
        store: LedgerStore,
        clock: Clock,
        random: RandomSource,
        alarms: Alarms,
        deployments: Deployments,
    ) -> None:
        self._registry = registry
        self._store = store
        self._clock = clock
        self._random = random
        self._alarms = alarms
        self._deployments = deployments
        self._told: dict[Place, ServiceRecord] = {}
        self._episodes: dict[Place, Episode] = {}
        self._begun = False  # nobody is told before it is known who is to be told, and what was told before

    def begin(self, loop_s: float) -> None:
        """What the hub before this one told, and what it or this one had heard and not told yet."""
        self._begun = True
        self._told.clear()
        for record in self._store.scan(keys.TOLD):
            node, _, service = record.key.removeprefix(keys.TOLD).partition("/")
            told = self._told[node, service] = msgspec.json.decode(record.value, type=ServiceRecord)
            if told.unwell:
                self._episodes[node, service] = Episode(bad_s=loop_s, told=True)
        self.follow()
        for member in list(self._registry.members.values()):
            self.heard(member, loop_s)

    def follow(self) -> None:
        """After a commit: what is not applied any more needs nobody."""
        if not self._begun:
            return
        for (node, service), told in list(self._told.items()):
            if told.failed:
                standby = _is_standby(self._registry.members.get(node), service)
                self._judge(node, service, None, self._deployments.wanted(service, node, standby))
            if told.unwell and self._deployments.wanted(service, node) == "":
                self._episodes.pop((node, service), None)
                self._note(node, service, replace(self._told[node, service], unwell=False), [_gone(service, node)])

    def heard(self, member: Member, loop_s: float) -> None:
        """Its report is another one than before."""
        if not self._begun:
            return
        report = member.report
        for state in report.services if report is not None and member.joined else ():
            wanted = self._deployments.wanted(state.service, member.name, state.standby)
            self._judge(member.name, state.service, state, wanted)
            if wanted and report is not None:
                place = (member.name, state.service)
                sign = episodes.sign_of(state, report)
                self._episodes[place] = episodes.after(self._episodes.get(place, Episode()), sign, loop_s)

    def look(self, loop_s: float) -> float:
        """Who has been unwell for too long; answers when to look again. Old words of a silent node prove nothing."""
        limit_s = max(UNWELL_S_MIN, self._registry.cadence.window_s / 3)
        next_s = loop_s + LOOK_S_MAX
        for (node, service), before in list(self._episodes.items()):
            member = self._registry.members.get(node)
            if member is None or member.condition.status not in ("healthy", "suspect"):
                continue
            episode, follows, again_s = episodes.due(before, loop_s, limit_s)
            self._episodes[node, service] = episode
            if follows is not None:
                told = replace(self._told.get((node, service), NOTHING), unwell=follows == "alarm")
                alert = _unwell(service, node, before, limit_s) if follows == "alarm" else _well(service, node)
                self._note(node, service, told, [alert])
            if again_s is not None:
                next_s = min(next_s, again_s)
        return next_s

    def _judge(self, node: str, service: str, state: ServiceState | None, wanted: str) -> None:
        before = self._told.get((node, service), NOTHING)
        step = rollouts.after(before.failed, wanted, state)
        if step.follows:
            alerts = [
                _failed(service, node, state)
                if one == "alarm" and state is not None
                else _recovered(service, node, state)
                for one in step.follows
            ]
            self._note(node, service, replace(before, failed=step.told), alerts)

    def _note(self, node: str, service: str, record: ServiceRecord, alerts: list[Alert]) -> None:
        """Written down together with the alerts it raises: a restart neither forgets nor repeats one."""
        key = keys.told(node, service)
        put = {} if record == NOTHING else {key: msgspec.json.encode(record)}
        self._told[node, service] = record
        if record == NOTHING:
            del self._told[node, service]
        fleet = self._registry.applied.fleet_id if self._registry.applied is not None else ""
        now_s = self._clock.now_s()
        raised = [(self._random.token(8).hex(), msgspec.structs.replace(a, fleet=fleet, at_s=now_s)) for a in alerts]
        for id, alert in raised:
            put |= self._alarms.put(alert, id)
        try:
            self._store.submit(Transaction(expect={}, put=put, delete=() if key in put else (key,)))
        except HoldfastError as trouble:
            log.warning("what was told of %s on %s was not written down: %s", service, node, trouble)
        for id, alert in raised:
            self._alarms.send(alert, id)


def _is_standby(member: Member | None, service: str) -> bool:
    states = member.report.services if member is not None and member.report is not None else ()
    return any(state.service == service and state.standby for state in states)


# ---- words


def _alarm(code: str, service: str, message: str, remedy: str) -> Alert:
    return Alert(code, "alarm", "", f"service.{service}", message, remedy, 0.0)


def _recovery(code: str, service: str, message: str) -> Alert:
    return Alert(code, "recovery", "", f"service.{service}", message, "nothing to do: holdfast ps", 0.0)


def _failed(service: str, node: str, state: ServiceState) -> Alert:
    serves = f"revision {state.serving_revision} still serves" if state.serving else "nothing serves"
    text = (
        f"revision {state.applied_revision} of {service} failed on {node} at step {_cut(state.step)!r}: "
        f"{_cut(state.message) or _cut(state.code) or 'it did not say why'}; {serves}"
    )
    remedy = _cut(state.remedy) or f"holdfast logs {service}; holdfast rollback"
    return _alarm("rollout_failed", service, text, remedy)


def _recovered(service: str, node: str, state: ServiceState | None) -> Alert:
    converged = state is not None and state.phase == "converged"
    text = f"{service} converged on {node}" if converged else f"what failed on {node} is not what is applied any more"
    return _recovery("rollout_recovered", service, text)


def _unwell(service: str, node: str, episode: Episode, limit_s: float) -> Alert:
    text = (
        f"{service} on {node} has not been well for more than {limit_s:.0f} s: {_cut(episode.why) or 'it is not well'}"
    )
    return _alarm("service_unhealthy", service, text, f"holdfast logs {service}; holdfast ps")


def _well(service: str, node: str) -> Alert:
    return _recovery("service_healthy", service, f"{service} on {node} is well again")


def _gone(service: str, node: str) -> Alert:
    return _recovery("service_healthy", service, f"{service} is not applied on {node} any more")


def _cut(words: str) -> str:
    """Of a node, and so of whatever it runs: one line, and nothing that a terminal or a chat would obey."""
    plain = "".join(c if c.isprintable() else " " for c in words)
    return plain if len(plain) <= WORDS_MAX else plain[: WORDS_MAX - 1] + "…"
