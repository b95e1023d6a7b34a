"""What this node says of itself: a report when something changed, a signed pulse that binds it and is the receipt."""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from holdfast import __version__
from holdfast.agent.acceptance.accept import Accepting
from holdfast.agent.findings import Findings
from holdfast.agent.link import report_limits
from holdfast.agent.membership import Membership
from holdfast.agent.services.keeper import Services
from holdfast.agent.time import NodeTime
from holdfast.agent.traffic.keeper import Traffic
from holdfast.agent.world import World
from holdfast.model import canonical
from holdfast.model.report import PULSE_NAMESPACE, Pulse, Report, SignedPulse
from holdfast.model.revision import FORMAT
from holdfast.trust import own_signature

SEQUENCE_FACT = "pulse-sequence"
_RESERVED = 1000  # sequence numbers set aside at a time, so that a restart never goes back and few pulses cost a write

_encode = msgspec.json.Encoder().encode


class Reporter:
    def __init__(
        self,
        world: World,
        membership: Membership,
        accepting: Accepting,
        time: NodeTime,
        findings: Findings,
        services: Services,
        traffic: Traffic,
        results: Callable[[], dict[str, str]],
    ) -> None:
        self._world = world
        self._me = membership
        self._accepting = accepting
        self._time = time
        self._findings = findings
        self._services = services
        self._traffic = traffic
        self._results = results
        self._arch = world.machine.arch()
        self._built_from: tuple[object, ...] = ()
        self._sequence = self._ceiling = int(world.journal.fact(SEQUENCE_FACT) or b"0")
        self.content = b""
        self.digest = ""

    def look(self, operations: tuple[str, ...]) -> bool:
        """Build the report anew if anything in it changed; True if so. Cheap when nothing did."""
        accepting = self._accepting
        shown = self._world.certificates.shown()
        audit = self._world.audit.head()
        services, traffic = self._services, self._traffic
        changes = (self._findings.changes, accepting.changes, services.changes, traffic.changes)
        seen = (*changes, services.resting(), operations, audit.number, shown)
        if seen == self._built_from:
            return False
        self._built_from = seen
        findings = self._findings.all()
        own = accepting.own()
        report = Report(
            self._me.fleet,
            self._me.node,
            __version__,
            self._arch,
            self._me.address,
            "processing" if operations or services.busy else "idle",
            "degraded" if findings or accepting.parked else "healthy",
            own[0].reconcile if own is not None else "converge",
            issuer=shown[0],
            serving=shown[1],
            containers=services.containers(),
            services=services.states(),
            left=services.left(),
            retired=services.retired,
            runtime=services.runtime,
            proxy=traffic.proxy,
            edge=traffic.edges.states(),
            gone=traffic.edges.gone(),
            certificates=traffic.certificate_states(),
            names=traffic.names.state(),
            parked=accepting.parked,
            findings=findings,
            operations=operations,
            audit_entries=audit.number,
            audit_head=audit.digest if audit.number else "",
        )
        self.content = report_limits.fitted(report)
        self.digest = canonical.digest(self.content)
        return True

    def pulse(self) -> SignedPulse:
        accepting = self._accepting
        pulse = _encode(
            Pulse(
                self._me.fleet,
                self._me.node,
                self._next(),
                self._time.now_s(),
                accepting.seen,
                accepting.in_force_digest,
                self.digest,
                self._world.journal.highest_counter(),
                replace(self._world.machine.facts(), containers=self._services.running),
                self._results(),
                __version__,
                FORMAT,
            )
        )
        return SignedPulse(pulse, own_signature.armoured(self._world.key, pulse, PULSE_NAMESPACE))

    def _next(self) -> int:
        self._sequence += 1
        if self._sequence > self._ceiling:
            self._ceiling = self._sequence + _RESERVED
            self._world.journal.set_aside(SEQUENCE_FACT, b"%d" % self._ceiling)
        return self._sequence
