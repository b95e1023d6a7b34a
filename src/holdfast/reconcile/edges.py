"""The next step of an edge for one public hostname, from the current state. Pure; the agent performs it.

Between two steps only the results of checks are kept, so a crash anywhere is only a longer pause. Guaranteed: no route
before its name, its backend and its certificate are proven (I-16); the serving route stays until the new place is
proven; a route that is no longer applied goes after its backend, and never gets another backend meanwhile (I-19).
"""

from collections.abc import Collection, Mapping
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model.certificate import armoured
from holdfast.model.route import EdgeRoute, Mode, Place
from holdfast.ports.proxy import Backend, ProxyRoute, Upstream

Step = Literal["domain", "name", "dns", "backend", "certificate", "route", "handshake"]
Phase = Literal["waiting", "live", "failed", "leaving"]

# withdraw: remove the route. ask: does the backend of a leaving route still answer? rest: nothing to do.
Act = Step | Literal["withdraw", "ask", "rest", "over"]

_ALL: tuple[Step, ...] = get_args(Step)
STEPS: Mapping[Mode, tuple[Step, ...]] = {
    "l7": _ALL,
    "l4": tuple(step for step in _ALL if step != "certificate"),  # passed through: the service has its own
}

# A restarted proxy may miss one probe; a proxy without the route misses them again.
SILENCES = 2

FIRST_S, GROWTH, LONGEST_S = 0.01, 1.5, 0.5  # between two tries while waiting is expected to help
FAILED_S = 10.0  # ... once it was reported as failed
REFUSED_S, REFUSED_S_MAX = 60.0, 3600.0  # an authority that refused is asked rarely: it counts failures
LEAVING_S = 0.5  # at most, between two probes of a leaving backend


class Check(Struct, frozen=True):
    """The result of one step: `trouble` is "" if it passed; `hopeless` if waiting alone does not help."""

    trouble: str = ""
    remedy: str = ""
    code: str = ""
    hopeless: bool = False


PASSED = Check()


class EdgeFacts(Struct, frozen=True):
    """One hostname: what is applied, what the running proxy has, and what was checked on the way from one to the
    other."""

    wanted: EdgeRoute | None  # None: no longer applied
    has: ProxyRoute | None = None
    leads: ProxyRoute | None = None  # the wanted route, whatever its certificate; None while its node has no issuer
    would: ProxyRoute | None = None  # ... with its certificate; None until that is there
    checks: Mapping[Step, Check] = {}
    forbidden: bool = False  # the proxy's route has a name or an address that this edge may not serve
    left_s: float = 0.0  # when it was no longer applied
    silences: int = 0  # of the backend of a leaving route, in a row
    lives: bool = False  # the service stays: only this name of it is no longer public
    former: str = ""  # address of the place where the service was, while the running proxy leads there and it answers


# ---- the next step --------------------------------------------------------------------------------------------------


def next_act(picture: EdgeFacts, undeploy_s: float) -> Act:
    if picture.has is not None and picture.forbidden:
        return "withdraw"
    return _leave(picture, undeploy_s) if picture.wanted is None else _serve(picture, picture.wanted)


def _leave(picture: EdgeFacts, undeploy_s: float) -> Act:
    """The worker stops first (M-85). A worker that is silent, or does not stop, is waited for only for a limited time;
    a service that stays is not waited for at all."""
    if picture.has is None:
        return "over"
    is_due = picture.lives or picture.silences >= SILENCES or picture.left_s >= undeploy_s
    return "withdraw" if is_due else "ask"


def _serve(picture: EdgeFacts, wanted: EdgeRoute) -> Act:
    """The first step that was not tried or has to be tried again."""
    for step in STEPS[wanted.mode]:
        if step == "route" and picture.has == picture.would:
            continue
        check = picture.checks.get(step)
        if step == "route" or check is None or (check.trouble and blocks(step, picture)):
            return step
    return "rest"


def blocks(step: Step, picture: EdgeFacts) -> bool:
    """A live route stays, and counts as live, while its backend or its name does not answer for a while."""
    return step not in ("dns", "backend") or not leads_there(picture)


def leads_elsewhere(picture: EdgeFacts) -> bool:
    """The running proxy still leads to where the service was."""
    has, leads = picture.has, picture.leads
    return has is not None and leads is not None and not picture.forbidden and has.backends != leads.backends


def leads_there(picture: EdgeFacts) -> bool:
    """The running proxy has the wanted route already, whatever its certificate."""
    return picture.has is not None and replace(picture.has, certificate="") == picture.leads


def phase_of(picture: EdgeFacts, act: Act, waited_s: float, at_most_s: float) -> Phase:
    """failed: waiting does not help, or it took too long; it is still tried again, only more rarely."""
    if picture.wanted is None:
        return "leaving"
    if act == "rest":
        return "live"
    check = trouble_at(picture, act)
    hopeless = check is not None and check.hopeless
    return "failed" if hopeless or waited_s >= at_most_s else "waiting"


def trouble_at(picture: EdgeFacts, act: Act) -> Check | None:
    """Why this step did not succeed the last time."""
    check = next((found for step, found in picture.checks.items() if step == act), None)
    return check if check is not None and check.trouble else None


def skipped(mode: Mode, act: Act) -> tuple[Step, ...]:
    """The steps that a failed step prevents (D-27)."""
    steps = STEPS[mode]
    after = [place for place, step in enumerate(steps, 1) if step == act]
    return steps[after[0] :] if after else ()


def pause_s(step: Act, check: Check, tries: int, phase: Phase) -> float:
    """The pause until the next try, after so many failed ones."""
    if check.hopeless and step in ("domain", "name"):
        return REFUSED_S_MAX  # only another revision changes that, and it wakes the agent at once
    if check.hopeless and step == "certificate":
        return min(REFUSED_S * 2.0 ** min(tries - 1, 10), REFUSED_S_MAX)
    longest_s = {"failed": FAILED_S, "leaving": LEAVING_S}.get(phase, LONGEST_S)
    return min(FIRST_S * GROWTH ** min(tries - 1, 30), longest_s)


# ---- the backend ----------------------------------------------------------------------------------------------------


def places(wanted: EdgeRoute) -> tuple[Place, ...]:
    """Its own node first; then the standby nodes."""
    return (Place(wanted.node, wanted.address), *wanted.others)


def chosen(candidates: tuple[Place, ...], answering: Collection[Place], present: Place | None) -> Place:
    """The first that answers. If none does, nothing changes: the last one may come back."""
    fallback = present if present is not None and present in candidates else candidates[0]
    return next((place for place in candidates if place in answering), fallback)


def route(hostname: str, wanted: EdgeRoute, place: Place, issuer: bytes, certificate: str = "") -> ProxyRoute:
    """The address is the literal one of the signed revision: connecting resolves no name (S09).

    A backend without TLS is not possible (M-48): traffic that ends here is encrypted again, for one name and one
    authority; traffic that is passed through was never decrypted.
    """
    return ProxyRoute(
        service=wanted.service,
        component=wanted.component,
        route=wanted.route,
        mode=wanted.mode,
        hostnames=(hostname,),
        public=True,
        backends=(Backend(place.address, wanted.port),),
        certificate=certificate,
        upstream=Upstream(wanted.backend, armoured(issuer)) if wanted.mode == "l7" else None,
        pass_headers=wanted.pass_headers,
    )


def dns_complaint(wanted: EdgeRoute, found: Collection[str]) -> str | None:
    """The internal name must resolve to the node that the revision names, and to no other (M-25, D-27)."""
    if set(found) == {wanted.address}:
        return None
    if not found:
        return f"DNS does not resolve {wanted.backend} yet (usual during a first deploy)"
    return f"{wanted.backend} resolves to {', '.join(sorted(found))}; the revision has {wanted.address}"
