"""Raise alerts for services: rollouts that failed, containers that are unhealthy.

One alarm per trouble, one recovery when it is over. Repairs nothing.
"""

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.hub.alerts import episodes, rollouts
from holdfast.hub.alerts.episodes import Episode
from holdfast.hub.alerts.writer import AlertWriter, plain
from holdfast.hub.hub_time import HubTime
from holdfast.hub.nodes.member import Member
from holdfast.hub.nodes.registry import Registry
from holdfast.hub.watchers.deployments import Deployments
from holdfast.ledger import keys
from holdfast.model.alert import Alert
from holdfast.model.applied import Applied
from holdfast.model.deployment import ServiceState
from holdfast.ports.ledger_store import Reading

UNWELL_S_MIN = 5.0
LOOK_S_MAX = 60.0

Place = tuple[str, str]  # node, service


class ServiceRecord(Struct, frozen=True, omit_defaults=True):
    """Alarms of a service on a node without their recovery. Survives a restart of the hub."""

    failed: str = ""  # deployment
    unwell: bool = False


NOTHING = ServiceRecord()


class ServiceWatch:
    """Belongs to the event loop."""

    def __init__(
        self, registry: Registry, store: Reading, alerts: AlertWriter, deployments: Deployments, time: HubTime
    ) -> None:
        self._registry = registry
        self._store = store
        self._alerts = alerts
        self._deployments = deployments
        self._time = time
        self._told: dict[Place, ServiceRecord] = {}
        self._episodes: dict[Place, Episode] = {}
        self._begun = False  # before that, neither the targets nor the open alarms are known

    def committed(self, before: Applied | None, after: Applied) -> None:
        self._follow()

    def _follow(self) -> None:
        """End the alarms of deployments that are no longer applied."""
        if not self._begun:
            return
        for (node, service), told in list(self._told.items()):
            if told.failed:
                standby = _is_standby(self._registry.members.get(node), service)
                self._judge(node, service, None, self._deployments.wanted(service, node, standby))
            if told.unwell and self._deployments.wanted(service, node) == "":
                self._episodes.pop((node, service), None)
                self._note(node, service, replace(self._told[node, service], unwell=False), [_gone(service, node)])

    def reported(self, member: Member) -> None:
        if not self._begun:
            return
        loop_s = self._time.loop_s()
        report = member.report
        for state in report.services if report is not None and member.joined else ():
            wanted = self._deployments.wanted(state.service, member.name, state.standby)
            self._judge(member.name, state.service, state, wanted)
            if wanted and report is not None:
                place = (member.name, state.service)
                sign = episodes.sign_of(state, report)
                self._episodes[place] = episodes.after(self._episodes.get(place, Episode()), sign, loop_s)

    def due(self, loop_s: float) -> float | None:
        """Find services that have been unhealthy for too long. The old report of a silent node proves nothing."""
        if not self._begun:
            self._begin(loop_s)
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

    def _begin(self, loop_s: float) -> None:
        """Load the open alarms of an earlier hub process, and the reports it has stored."""
        self._begun = True
        for record in self._store.scan(keys.TOLD):
            node, _, service = record.key.removeprefix(keys.TOLD).partition("/")
            told = self._told[node, service] = msgspec.json.decode(record.value, type=ServiceRecord)
            if told.unwell:
                self._episodes[node, service] = Episode(bad_s=loop_s, told=True)
        self._follow()
        for member in list(self._registry.members.values()):
            self.reported(member)

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
        key = keys.told(node, service)
        put = {} if record == NOTHING else {key: msgspec.json.encode(record)}
        self._told[node, service] = record
        if record == NOTHING:
            del self._told[node, service]
        self._alerts.write(f"the alert about {service} on {node}", alerts, put, () if put else (key,))


def _is_standby(member: Member | None, service: str) -> bool:
    states = member.report.services if member is not None and member.report is not None else ()
    return any(state.service == service and state.standby for state in states)


# ---- alerts


def _alarm(code: str, service: str, message: str, remedy: str) -> Alert:
    return Alert(code, "alarm", "", f"service.{service}", message, remedy, 0.0)


def _recovery(code: str, service: str, message: str) -> Alert:
    return Alert(code, "recovery", "", f"service.{service}", message, "nothing to do: holdfast ps", 0.0)


def _failed(service: str, node: str, state: ServiceState) -> Alert:
    serves = f"revision {state.serving_revision} still serves" if state.serving else "nothing serves"
    text = (
        f"revision {state.applied_revision} of {service} failed on {node} at step {plain(state.step)!r}: "
        f"{plain(state.message) or plain(state.code) or 'it gave no reason'}; {serves}"
    )
    then = "`holdfast rollback`" if state.serving else f"correct its file, then: holdfast deploy {service}"
    remedy = plain(state.remedy) or f"`holdfast logs {service}`; {then}"
    return _alarm("rollout_failed", service, text, remedy)


def _recovered(service: str, node: str, state: ServiceState | None) -> Alert:
    converged = state is not None and state.phase == "converged"
    text = (
        f"{service} converged on {node}" if converged else f"the deployment that failed on {node} is no longer applied"
    )
    return _recovery("rollout_recovered", service, text)


def _unwell(service: str, node: str, episode: Episode, limit_s: float) -> Alert:
    text = f"{service} on {node} has been unhealthy for more than {limit_s:.0f} s"
    if episode.why:
        text += f": {plain(episode.why)}"
    return _alarm("service_unhealthy", service, text, f"holdfast logs {service}; holdfast ps")


def _well(service: str, node: str) -> Alert:
    return _recovery("service_healthy", service, f"{service} on {node} is healthy again")


def _gone(service: str, node: str) -> Alert:
    return _recovery("service_healthy", service, f"{service} is no longer applied on {node}")
