"""One try of each step of a public hostname, with its result. The lane decides when."""

import asyncio
from collections.abc import Callable

from holdfast.agent.traffic.edges.hostname import Hostname
from holdfast.agent.traffic.edges.steps import ROUTE_FAILED, EdgeConfig, EdgeSteps, as_check
from holdfast.errors import HoldfastError
from holdfast.model.report import CertificateState
from holdfast.model.route import EdgeRoute
from holdfast.ports.handshake import Shown
from holdfast.ports.proxy import ProxyRoute
from holdfast.reconcile import edges
from holdfast.reconcile.edges import PASSED, Check, EdgeFacts, Step


class Interrupted(Exception):
    """Something else is wanted now: the work under way is of no use any more."""


class Tries:
    """`is_new` answers whether something else is wanted than when the present turn began."""

    def __init__(self, host: Hostname, steps: EdgeSteps, is_new: Callable[[], bool]) -> None:
        self._host = host
        self._steps = steps
        self._is_new = is_new
        self._forbidden: tuple[ProxyRoute | None, bool] = (None, False)  # what the proxy had, and the judgement

    def facts(self) -> EdgeFacts:
        has = self._steps.has(self._host.name)
        return self._host.facts(has, has is not None and self._is_forbidden(has))

    def _is_forbidden(self, has: ProxyRoute) -> bool:
        config = self._host.config
        assert config is not None
        if self._forbidden[0] is not has:
            self._forbidden = (has, self._steps.forbidden(config, self._host.name, has))
        return self._forbidden[1]

    def start_over(self) -> None:
        self._forbidden = (None, False)

    def certificate(self) -> CertificateState | None:
        return self._steps.certificates.state(self._host.name)

    def expect(self, is_coming: bool) -> None:
        self._steps.expect(self._host.name, is_coming)

    async def slot(self) -> None:
        """Wait for a place among the steps of all hostnames that are tried again."""
        await self._steps.tries.slot()

    async def slot_to_look(self) -> None:
        await self._steps.looks.slot(2)

    # ---- steps

    async def step(self, step: Step) -> None:
        host = self._host
        config, wanted = self._what()
        match step:
            case "domain":
                check = self._steps.domain(config, host.name)
            case "name":
                check = self._steps.name(config, wanted)
            case "dns":
                check = await self._steps.dns(config, wanted)
            case "backend":
                check = await self._find_place(config, wanted)
            case "certificate":
                check = await self._get_certificate(config)
            case "route":
                check = await self._put()
            case "handshake":
                check = await self._prove(config, wanted)
        if step in ("dns", "backend"):
            await self._ask_former(check)
        if self._is_new():
            raise Interrupted
        self._record(step, check)
        if wanted.mode == "l7" and step == "backend" and host.tries.get(step) == 1:
            self._steps.certificates.prepare(host.name, config.acme)  # while another node is waited for

    async def _ask_former(self, check: Check) -> None:
        """While the new place does not serve yet: does the place where the service was?"""
        facts = self.facts()
        if not check.trouble or facts.has is None or not edges.leads_elsewhere(facts):
            self._host.served_by_former("")
            return
        await self._steps.tries.slot()
        shown = await self._steps.asked(facts.has)
        self._host.served_by_former("" if shown.trouble else facts.has.backends[0].address)

    async def look(self) -> None:
        """Everything that can stop being true without an event."""
        config, wanted = self._what()
        servable = self._host.servable if wanted.mode == "l7" else None
        dns, backend, shown = await asyncio.gather(
            self._steps.dns(config, wanted),
            self._find_place(config, wanted),
            self._steps.shows(config, self._host.name, servable),
        )
        self._record("dns", dns)
        self._record("backend", backend)
        if servable is self._host.servable:  # else another certificate was put meanwhile, and is looked at next
            self._record("handshake", shown)

    def _what(self) -> tuple[EdgeConfig, EdgeRoute]:
        config, wanted = self._host.config, self._host.wanted
        assert config is not None and wanted is not None
        return config, wanted

    def _record(self, step: Step, check: Check) -> None:
        self._host.record(step, check, lambda: edges.blocks(step, self.facts()))

    async def _find_place(self, config: EdgeConfig, wanted: EdgeRoute) -> Check:
        """Its own node, if that answers; else the first node that stands in for it and answers."""
        host = self._host
        own, *others = self._steps.allowed(config, wanted)
        check = await self._steps.backend(config, own, host.route_to(wanted, own))
        answering = [] if check.trouble else [own]
        if check.trouble and others:
            asked = [self._steps.backend(config, place, host.route_to(wanted, place)) for place in others]
            found = await asyncio.gather(*asked)
            answering = [place for place, one in zip(others, found, strict=True) if not one.trouble]
        if self._is_new():
            raise Interrupted
        place = edges.chosen((own, *others), answering, host.place(wanted, self._steps.has(host.name)))
        host.led_to(place, check.trouble if answering and place != own else "")
        return PASSED if answering else check

    async def _get_certificate(self, config: EdgeConfig) -> Check:
        try:
            servable = await self._steps.certificate(config, self._host.name)
        except HoldfastError as trouble:
            return as_check(trouble)
        if not self._is_new():
            self._host.got(servable)
        return PASSED

    async def _put(self) -> Check:
        would = self.facts().would
        assert would is not None, "there is no route without a certificate (I-16)"
        host = self._host
        check = await self._steps.put(host.name, would, host.servable if would.mode == "l7" else None)
        host.put()
        if not check.trouble and self._steps.has(host.name) != would:
            return Check("the proxy acknowledged the route and does not have it", "holdfast status", ROUTE_FAILED)
        return check

    async def _prove(self, config: EdgeConfig, wanted: EdgeRoute) -> Check:
        """Before a second look the route is put again: the proxy showed something else."""
        host = self._host
        if host.tries.get("handshake"):
            check = await self._put()
            if check.trouble:
                return check
        return await self._steps.shows(config, host.name, host.servable if wanted.mode == "l7" else None)

    # ---- leaving

    async def ask(self) -> None:
        """A proxy that has the route without a container that answers is not silent: the container may still run, and
        an edge lets go after it ended (I-19)."""
        has = self._steps.has(self._host.name)
        shown = await self._steps.asked(has) if has is not None else Shown(trouble="it is gone")
        self._host.asked(bool(shown.trouble) and not shown.is_idle)

    async def withdraw(self) -> None:
        self._host.withdrawn(await self._steps.withdraw(self._host.name, self.facts().forbidden))
