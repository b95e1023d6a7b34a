"""The state of a public hostname for the report, out of facts and results. Pure."""

from typing import Literal

from msgspec.structs import replace

from holdfast.agent.traffic.edges.hostname import Hostname
from holdfast.model.deployment import StepResult
from holdfast.model.report import CertificateState, EdgeState
from holdfast.model.route import EdgeRoute
from holdfast.ports.proxy import ProxyRoute
from holdfast.reconcile import edges
from holdfast.reconcile.edges import PASSED, Act, Check, EdgeFacts, Phase

INSTANT_S = 0.001  # timers are not more exact: what is left of a wait then is no wait any more
SKIPPED = "skipped: "  # begins the message of a step that was not tried


def leaving(host: Hostname, has: ProxyRoute | None, before: EdgeState | None) -> EdgeState | None:
    """It is not applied any more; None once the proxy does not have it either."""
    if has is None:
        return None
    known = before or EdgeState(
        hostname=host.name,
        service=has.service,
        component=has.component,
        node="",  # the revision does not have it any more
        backend=has.upstream.name if has.upstream is not None else "",
        phase="leaving",
        address=has.backends[0].address if has.backends else "",
        port=has.backends[0].port if has.backends else 0,
        mode=has.mode,
    )
    assert host.config is not None
    message = f"it goes once its backend is gone, or {host.config.undeploy_s:.0f} s after it ceased to be applied"
    told = {"step": "withdraw", "code": "", "message": message, "remedy": "", "steps": (), "public_dns": ""}
    return replace(known, phase="leaving", backend_trouble="", dns_trouble="", **told)


def serving(
    host: Hostname, wanted: EdgeRoute, facts: EdgeFacts, act: Act, certificate: CertificateState | None
) -> EdgeState:
    """It is applied. `act` is next."""
    assert host.config is not None
    phase = edges.phase_of(facts, act, host.waited_s(), host.config.edge_route_s - INSTANT_S)
    backend, dns = host.checks.get("backend", PASSED), host.checks.get("dns", PASSED)
    if facts.former:
        dns = PASSED  # names lead to the former place as well, until the new one serves
    noted = next((one for one in (backend, dns) if one.trouble), PASSED)  # of a live route
    check = noted if act == "rest" else edges.trouble_at(facts, act) or PASSED
    place = host.place(wanted, facts.has)
    return EdgeState(
        hostname=host.name,
        service=wanted.service,
        component=wanted.component,
        node=place.node,
        backend=wanted.backend,
        phase=phase,
        address=place.address,
        port=wanted.port,
        epoch=wanted.epoch,
        mode=wanted.mode,
        step="" if act == "rest" else act,
        code=check.code,
        message=check.trouble,
        remedy=check.remedy,
        steps=_steps(host, wanted, act, phase, check),
        certificate=certificate if wanted.mode == "l7" else None,
        backend_trouble=host.stands_in or backend.trouble,
        dns_trouble=dns.trouble,
        public_dns=host.public_dns,
        former=facts.former if phase == "waiting" else "",
    )


def _steps(host: Hostname, wanted: EdgeRoute, act: Act, phase: Phase, check: Check) -> tuple[StepResult, ...]:
    told: list[StepResult] = []
    skipped = edges.skipped(wanted.mode, act) if phase == "failed" else ()
    for step in edges.STEPS[wanted.mode]:
        if step == act:
            outcome: Literal["failed", "running"] = "failed" if phase == "failed" else "running"
            told.append(StepResult(step, outcome, host.begun_s(step), 0.0, check.trouble))
        elif step in skipped:
            told.append(StepResult(step, "failed", told[-1].at_s, 0.0, f"{SKIPPED}the step {act} failed"))
        elif step in host.results:
            told.append(host.results[step])
    return tuple(told)


def since(state: EdgeState, before: EdgeState | None, moment_s: float) -> EdgeState:
    """With the moment at which its phase began."""
    is_same_phase = before is not None and before.phase == state.phase
    return replace(state, since_s=before.since_s if before is not None and is_same_phase else moment_s)
