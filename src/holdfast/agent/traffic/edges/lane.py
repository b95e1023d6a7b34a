"""One public hostname on its edge: looked at, decided about, done, one thing at a time, for as long as it is here.

What is next is computed from what is true now (reconcile/edges.py). What it says of itself changes only when something
changed: times in it are moments.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from msgspec.structs import replace

from holdfast.agent.traffic.edges.steps import ROUTE_FAILED, EdgeConfig, EdgeSteps, as_check
from holdfast.errors import HoldfastError
from holdfast.model.deployment import StepResult
from holdfast.model.report import EdgeState
from holdfast.model.route import EdgeRoute, Place
from holdfast.ports.clock import Clock
from holdfast.ports.proxy import ProxyRoute, Servable
from holdfast.reconcile import edges
from holdfast.reconcile.edges import PASSED, Act, Check, EdgeFacts, Phase, Step

LOOK_S = 9.0  # a live route is looked at so often: with 2 s for each that hangs, the truth is told within 15 s
INSTANT_S = 0.001  # timers are not more exact than that: what is left of a wait then is no wait any more
SKIPPED = "skipped: "  # begins the message of a step that was not tried

T = TypeVar("T")


class Interrupted(Exception):
    """Something else is wanted now: what was under way is of no use any more."""


class EdgeLane:
    def __init__(
        self,
        hostname: str,
        steps: EdgeSteps,
        clock: Clock,
        now_s: Callable[[], float],
        changed: Callable[[], None],
    ) -> None:
        self.hostname = hostname
        self.wanted: EdgeRoute | None = None
        self.servable: Servable | None = None
        self.state: EdgeState | None = None
        self.is_gone = False  # the route was here, and was taken away
        self._public_dns = ""
        self._steps = steps
        self._clock = clock
        self._now_s = now_s
        self._changed = changed
        self._charge: EdgeConfig | None = None
        self._about: object = None
        self._bell = asyncio.Event()
        self._is_new = False  # something else is wanted than when the present turn began
        self._start_over()

    def _start_over(self) -> None:
        self._checks: dict[Step, Check] = {}
        self._results: dict[Step, StepResult] = {}
        self._begun_s: dict[Step, float] = {}
        self._tries: dict[Act, int] = {}
        self._place: Place | None = None  # that was chosen, by asking who answers
        self._leads: dict[Place, ProxyRoute] = {}  # they cost more than looking
        self._forbidden: tuple[ProxyRoute | None, bool] = (None, False)  # what the proxy had, and whether it may
        self._stands_in = ""  # why it is not its own node
        self._silences = 0
        self._restless_s: float | None = self._clock.monotonic_s()  # since when it is not as it must be

    # ---- what others say

    def follow(self, charge: EdgeConfig) -> None:
        """A revision was accepted. One that says the same as before is a reason to try at once what did not work."""
        if charge is self._charge:
            return
        wanted = charge.manifest.edge.get(self.hostname)
        about = charge.about(wanted) if wanted is not None else None
        is_first, self._charge = self._charge is None, charge
        if is_first or about != self._about:
            self.wanted, self._about = wanted, about
            self._start_over()
            self._is_new = True
            self._bell.set()
        elif self.state is not None and self.state.phase in ("waiting", "failed"):
            self._checks = {step: check for step, check in self._checks.items() if not check.trouble}
            self._tries.clear()
            self._restless_s = self._clock.monotonic_s() if self.state.phase == "failed" else self._restless_s
            self._bell.set()

    def renewed(self, servable: Servable) -> None:
        """The same route, with another certificate (M-88)."""
        self.servable = servable
        self._bell.set()

    def tell_public(self, leads_to: str) -> None:
        """Where the public name leads instead; "" if all is well."""
        if leads_to != self._public_dns:
            self._public_dns = leads_to
            self._show(*self._see())

    # ---- the loop

    async def run(self) -> None:
        """Until it is over: neither applied nor in the proxy. Trouble is reported and tried again."""
        while True:
            self._is_new = False
            try:
                picture, act = self._see()
                self._show(picture, act)
                if act == "over":
                    return
                await self._turn(act)
            except Interrupted:
                continue

    async def _turn(self, act: Act) -> None:
        if act == "rest":
            if not await self._rung(self._rest_s()):
                await self._unless_new(self._steps.pace.slot(2))
                await self._unless_new(self._look())
        elif not self._tries.get(act):
            await self._do(act)
        elif not await self._rung(self._pause_s(act)):
            await self._unless_new(self._steps.pace.slot())
            await self._do(act)

    async def _do(self, act: Act) -> None:
        match act:
            case "withdraw":
                await self._withdraw()
            case "ask":
                await self._unless_new(self._ask())
            case "dns" | "backend" | "certificate":
                await self._unless_new(self._try(act))
            case "domain" | "name" | "route" | "handshake":
                await self._try(act)

    # ---- waiting

    def _rest_s(self) -> float:
        """Whoever stands in does so for as short as possible: its own node may be on its way."""
        if not self._stands_in:
            return LOOK_S
        return min(edges.pause_s("backend", PASSED, self._tries.get("rest", 1), "waiting"), LOOK_S)

    def _pause_s(self, act: Act) -> float:
        check = edges.trouble_at(self._picture(), act) or PASSED
        phase: Phase = self.state.phase if self.state is not None else "waiting"
        return edges.pause_s(act, check, self._tries.get(act, 1), phase)

    def _overdue_in_s(self) -> float | None:
        """Until this takes too long; None if it does already, or if there is nothing to wait for."""
        assert self._charge is not None
        if self._restless_s is None:
            return None
        left_s = self._charge.edge_route_s - (self._clock.monotonic_s() - self._restless_s)
        return left_s if left_s > INSTANT_S else None

    async def _rung(self, at_most_s: float) -> bool:
        """Wait; True if somebody rang. What becomes overdue meanwhile is told in time."""
        until_s = self._clock.monotonic_s() + at_most_s
        while (left_s := until_s - self._clock.monotonic_s()) > INSTANT_S:
            overdue_s = self._overdue_in_s()
            try:  # wait_for would swallow a cancellation that comes with the bell
                async with asyncio.timeout(left_s if overdue_s is None else min(left_s, overdue_s)):
                    await self._bell.wait()
            except TimeoutError:
                self._show(*self._see())
            else:
                self._bell.clear()
                return True
        return False

    async def _unless_new(self, work: Coroutine[Any, Any, T]) -> T:
        """Cut off as soon as something else is wanted: for what asks and waits, not for what changes the proxy."""
        task = asyncio.ensure_future(work)
        rung = asyncio.ensure_future(self._bell.wait())
        try:
            while not task.done():
                await asyncio.wait({task, rung}, timeout=self._overdue_in_s(), return_when=asyncio.FIRST_COMPLETED)
                if self._is_new:
                    raise Interrupted
                if rung.done():
                    self._bell.clear()
                    rung = asyncio.ensure_future(self._bell.wait())
                if not task.done():
                    self._show(*self._see())
            return task.result()
        finally:
            rung.cancel()
            task.cancel()
            await asyncio.gather(rung, task, return_exceptions=True)

    # ---- what is true

    def _see(self) -> tuple[EdgeFacts, Act]:
        """What is true, and what is next by it."""
        assert self._charge is not None, "nothing is done before a revision is accepted"
        picture = self._picture()
        return picture, edges.next_act(picture, self._charge.undeploy_s)

    def _picture(self) -> EdgeFacts:
        has = self._steps.has(self.hostname)
        forbidden = has is not None and self._is_forbidden(has)
        if self.wanted is None:
            left_s = self._clock.monotonic_s() - (self._restless_s or 0.0)
            lives = has is not None and self._charge is not None and self._charge.has_service(has.service)
            return EdgeFacts(None, has, forbidden=forbidden, left_s=left_s, silences=self._silences, lives=lives)
        leads = self._route_to(self.wanted, self._aim(self.wanted, has))
        return EdgeFacts(self.wanted, has, leads, self._would(self.wanted, leads), self._checks, forbidden)

    def _is_forbidden(self, has: ProxyRoute) -> bool:
        assert self._charge is not None
        if self._forbidden[0] is not has:
            self._forbidden = (has, self._steps.forbidden(self._charge, self.hostname, has))
        return self._forbidden[1]

    def _aim(self, wanted: EdgeRoute, has: ProxyRoute | None) -> Place:
        """Who was found to answer; before anybody was asked, whoever the running proxy leads to, if it may."""
        if self._place is not None:
            return self._place
        led = {backend.address for backend in has.backends} if has is not None else set()
        places = edges.places(wanted)
        return next((place for place in places if place.address in led), places[0])

    def _route_to(self, wanted: EdgeRoute, place: Place) -> ProxyRoute:
        assert self._charge is not None
        if place not in self._leads:
            issuer = self._charge.manifest.issuers.get(place.node, b"")
            self._leads[place] = edges.route(self.hostname, wanted, place, issuer)
        return self._leads[place]

    def _would(self, wanted: EdgeRoute, leads: ProxyRoute) -> ProxyRoute | None:
        if wanted.mode == "l4":
            return leads
        return replace(leads, certificate=self.servable.digest) if self.servable is not None else None

    # ---- the steps

    async def _try(self, step: Step) -> None:
        charge, wanted = self._charge, self.wanted
        assert charge is not None and wanted is not None
        match step:
            case "domain":
                check = self._steps.domain(charge, self.hostname)
            case "name":
                check = self._steps.name(charge, wanted)
            case "dns":
                check = await self._steps.dns(charge, wanted)
            case "backend":
                check = await self._find_place(charge, wanted)
            case "certificate":
                check = await self._get_certificate(charge)
            case "route":
                check = await self._put()
            case "handshake":
                check = await self._prove(charge, wanted)
        if self._is_new:
            raise Interrupted
        self._record(step, check)

    async def _find_place(self, charge: EdgeConfig, wanted: EdgeRoute) -> Check:
        """Its own node, if that answers; else the first of those that stand in for it that does."""
        own, *others = self._steps.allowed(charge, wanted)
        check = await self._steps.backend(charge, own, self._route_to(wanted, own))
        answering = [] if check.trouble else [own]
        if check.trouble and others:
            asked = [self._steps.backend(charge, place, self._route_to(wanted, place)) for place in others]
            found = await asyncio.gather(*asked)
            answering = [place for place, one in zip(others, found, strict=True) if not one.trouble]
        if self._is_new:
            raise Interrupted
        has = self._steps.has(self.hostname)
        self._place = edges.chosen((own, *others), answering, self._aim(wanted, has))
        stands_in = check.trouble if answering and self._place != own else ""
        self._tries["rest"] = self._tries.get("rest", 0) + 1 if stands_in else 0
        self._stands_in = stands_in
        return PASSED if answering else check

    async def _get_certificate(self, charge: EdgeConfig) -> Check:
        try:
            servable = await self._steps.certificate(charge, self.hostname)
        except HoldfastError as trouble:
            return as_check(trouble)
        if not self._is_new:
            self.servable = servable
        return PASSED

    async def _put(self) -> Check:
        would = self._picture().would
        assert would is not None, "there is no route without a certificate (I-16)"
        check = await self._steps.put(self.hostname, would, self.servable if would.mode == "l7" else None)
        self._checks.pop("handshake", None)
        if not check.trouble and self._steps.has(self.hostname) != would:
            return Check("the proxy does not have it although it said so", "holdfast status", ROUTE_FAILED)
        return check

    async def _prove(self, charge: EdgeConfig, wanted: EdgeRoute) -> Check:
        """A proxy that shows something else is told again first what it must show."""
        if self._tries.get("handshake"):
            check = await self._put()
            if check.trouble:
                return check
        return await self._steps.shows(charge, self.hostname, self.servable if wanted.mode == "l7" else None)

    async def _look(self) -> None:
        """Everything that can stop being true without anybody telling us."""
        charge, wanted = self._charge, self.wanted
        assert charge is not None and wanted is not None
        servable = self.servable if wanted.mode == "l7" else None
        dns, backend, shown = await asyncio.gather(
            self._steps.dns(charge, wanted),
            self._find_place(charge, wanted),
            self._steps.shows(charge, self.hostname, servable),
        )
        self._record("dns", dns)
        self._record("backend", backend)
        if servable is self.servable:  # else another one was put there meanwhile, and is looked at next
            self._record("handshake", shown)

    def _record(self, step: Step, check: Check) -> None:
        self._checks[step] = check
        told = self._results.get(step)
        was_done = told is not None and told.outcome == "done"
        begun_s = self._begun_s.setdefault(step, self._moment_s())
        if not check.trouble:
            self._tries.pop(step, None)
            if not was_done:
                self._results[step] = StepResult(step, "done", begun_s, round(self._moment_s() - begun_s, 3))
            return
        self._tries[step] = self._tries.get(step, 0) + 1
        if step == "handshake":
            self._checks.pop("certificate", None)  # it may have expired: it is judged again before it is put again
        if edges.blocks(step, self._picture()):
            self._results.pop(step, None)
        elif not was_done:
            self._results[step] = StepResult(step, "failed", begun_s, 0.0, check.trouble)

    # ---- leaving

    async def _ask(self) -> None:
        """Silence is what a proxy answers that has no such route any more."""
        has = self._steps.has(self.hostname)
        trouble = await self._steps.answers(has) if has is not None else "it is gone"
        self._silences = self._silences + 1 if trouble else 0
        self._tries["ask"] = self._tries.get("ask", 0) + 1

    async def _withdraw(self) -> None:
        check = await self._steps.put(self.hostname, None, None)
        if check.trouble:
            self._tries["withdraw"] = self._tries.get("withdraw", 0) + 1
        else:
            self.is_gone = True

    # ---- telling

    def _moment_s(self) -> float:
        return round(self._now_s(), 3)

    def _show(self, picture: EdgeFacts, act: Act) -> None:
        if act == "rest":
            self._restless_s = None
        elif self._restless_s is None:
            self._restless_s = self._clock.monotonic_s()
        state = self._leaving(picture) if self.wanted is None else self._serving(picture, self.wanted, act)
        if state is not None:
            is_same_phase = self.state is not None and self.state.phase == state.phase
            since_s = self.state.since_s if self.state is not None and is_same_phase else self._moment_s()
            state = replace(state, since_s=since_s)
        if state != self.state:
            self.state = state
            self._changed()

    def _leaving(self, picture: EdgeFacts) -> EdgeState | None:
        has = picture.has
        if has is None:
            return None
        known = self.state or EdgeState(
            hostname=self.hostname,
            service=has.service,
            component=has.component,
            node="",  # the revision does not say it any more
            backend=has.upstream.name if has.upstream is not None else "",
            phase="leaving",
            address=has.backends[0].address if has.backends else "",
            port=has.backends[0].port if has.backends else 0,
            mode=has.mode,
        )
        assert self._charge is not None
        message = f"it goes once its backend is gone, or {self._charge.undeploy_s:.0f} s after it ceased to be applied"
        told = {"step": "withdraw", "code": "", "message": message, "remedy": "", "steps": (), "public_dns": ""}
        return replace(known, phase="leaving", backend_trouble="", dns_trouble="", **told)

    def _serving(self, picture: EdgeFacts, wanted: EdgeRoute, act: Act) -> EdgeState:
        assert self._charge is not None
        waited_s = self._clock.monotonic_s() - self._restless_s if self._restless_s is not None else 0.0
        phase = edges.phase_of(picture, act, waited_s, self._charge.edge_route_s - INSTANT_S)
        backend, dns = self._checks.get("backend", PASSED), self._checks.get("dns", PASSED)
        noted = next((one for one in (backend, dns) if one.trouble), PASSED)  # by a live route
        check = noted if act == "rest" else edges.trouble_at(picture, act) or PASSED
        place = self._aim(wanted, picture.has)
        return EdgeState(
            hostname=self.hostname,
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
            steps=self._told_steps(wanted, act, phase, check),
            certificate=self._steps.certificates.state(self.hostname) if wanted.mode == "l7" else None,
            backend_trouble=self._stands_in or backend.trouble,
            dns_trouble=dns.trouble,
            public_dns=self._public_dns,
        )

    def _told_steps(self, wanted: EdgeRoute, act: Act, phase: Phase, check: Check) -> tuple[StepResult, ...]:
        told: list[StepResult] = []
        skipped = edges.skipped(wanted.mode, act) if phase == "failed" else ()
        for step in edges.STEPS[wanted.mode]:
            if step == act:
                at_s = self._begun_s.setdefault(step, self._moment_s())
                told.append(StepResult(step, "failed" if phase == "failed" else "running", at_s, 0.0, check.trouble))
            elif step in skipped:
                told.append(StepResult(step, "failed", told[-1].at_s, 0.0, f"{SKIPPED}the step {act} failed"))
            elif step in self._results:
                told.append(self._results[step])
        return tuple(told)
