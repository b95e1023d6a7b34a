"""The public routes of an edge: a lane for each hostname of the signed manifest, and for each that the proxy still has.

Everything an edge does comes from its own manifest; nobody orders it about (M-45: SetupEdgeRoute and RemoveEdgeRoute
are revisions, ListEdgeRoutes is its report). What all lanes share is here: findings, renewals, a look at public DNS.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any

from msgspec import UnsetType

from holdfast.agent.findings import Findings
from holdfast.agent.traffic.edges.lane import EdgeLane
from holdfast.agent.traffic.edges.steps import (
    DNS_DIFFERS,
    HANDSHAKE_FAILED,
    ROUTE_FAILED,
    UNREACHABLE,
    Board,
    EdgeConfig,
    EdgeSteps,
    PublicCertificates,
)
from holdfast.agent.world import Say
from holdfast.errors import HoldfastError
from holdfast.model.fleet import Acme, Settings, Timeouts
from holdfast.model.manifest import NodeManifest
from holdfast.model.report import EdgeState
from holdfast.ports.clock import Clock
from holdfast.ports.handshake import Handshake
from holdfast.ports.name_server import Resolver

GATHER_S = 0.01  # what changes in many lanes within this time is told at once
TEND_S = 10.0  # between two looks at what no lane looks at
PUBLIC_S = 60.0  # between two questions about one public name
RENEW_S, RENEW_S_MAX = 60.0, 3600.0  # between two tries to renew one certificate
GONE_MAX = 256
PUBLIC_DNS_DIFFERS = "public_dns_differs"
TOLD_MAX = 20  # findings of one code: what else is wrong is in the states; others have something to tell, too

# Least urgent last; of each, so many services at most.
CODES = (ROUTE_FAILED, UNREACHABLE, HANDSHAKE_FAILED, DNS_DIFFERS, PUBLIC_DNS_DIFFERS)


class Edges:
    def __init__(
        self,
        board: Board,
        certificates: PublicCertificates,
        handshake: Handshake,
        resolver: Resolver,
        clock: Clock,
        now_s: Callable[[], float],
        findings: Findings,
        say: Say,
        changed: Callable[[], None],
    ) -> None:
        self._steps = EdgeSteps(board, certificates, handshake, resolver, clock)
        self._clock = clock
        self._now_s = now_s
        self._findings = findings
        self._say = say
        self._tell = changed
        self._charge: EdgeConfig | None = None
        self._lanes: dict[str, EdgeLane] = {}
        self._gone: deque[str] = deque(maxlen=GONE_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        self._bell = asyncio.Event()
        self._is_due = False  # to look which hostnames there are
        self._tended_s = 0.0
        self._told: set[tuple[str, str]] = set()
        self._shown: tuple[object, ...] = ()
        self._renewing: set[str] = set()
        self._renewals: dict[str, tuple[int, float]] = {}  # that did not work: how often, and when again
        self._asks_public = False

    # ---- what others say, and ask

    def follow(
        self,
        manifest: NodeManifest,
        settings: Settings,
        timeouts: Timeouts,
        acme: Acme | UnsetType,
        dns_servers: tuple[str, ...],
        own_public: str,
    ) -> None:
        """A revision was accepted, or the agent started with one."""
        self._charge = EdgeConfig(manifest, settings, timeouts, acme, dns_servers, own_public)
        self._is_due = True
        self._bell.set()

    def states(self) -> tuple[EdgeState, ...]:
        return tuple(lane.state for _, lane in sorted(self._lanes.items()) if lane.state is not None)

    def gone(self) -> tuple[str, ...]:
        """Hostnames that this edge let go since it started."""
        return tuple(sorted(set(self._gone) - self._lanes.keys()))

    # ---- the loop

    async def run(self) -> None:
        """Until cancelled; the routes stay in the proxy."""
        try:
            while True:
                await self._rung()
                if not self._is_due:
                    await asyncio.sleep(GATHER_S)
                self._bell.clear()
                try:
                    self._turn()
                except Exception as mistake:  # of ours, or of a disk: the lanes go on, and so must this
                    self._tended_s = self._clock.monotonic_s()
                    self._mistaken("", mistake)
        finally:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._lanes.clear()

    async def _rung(self) -> None:
        left_s = TEND_S if self._charge is None else max(self._tended_in_s(), 0.0)
        with suppress(TimeoutError):
            async with asyncio.timeout(left_s):  # wait_for would swallow a cancellation that comes with the bell
                await self._bell.wait()

    def _turn(self) -> None:
        if self._charge is not None and (self._is_due or self._tended_in_s() <= 0):
            self._tend(self._charge)
        self._show()

    def _tended_in_s(self) -> float:
        return self._tended_s + TEND_S - self._clock.monotonic_s()

    def _tend(self, charge: EdgeConfig) -> None:
        self._tended_s = self._clock.monotonic_s()
        is_new, self._is_due = self._is_due, False
        for hostname in sorted({*charge.manifest.edge, *self._steps.board.edge(), *self._lanes}):
            lane = self._lanes.get(hostname)
            if lane is None:
                self._begin(hostname, charge)
            elif is_new:
                lane.follow(charge)
        self._renew_due(charge)
        if not self._asks_public:
            self._asks_public = True
            self._spawn(self._ask_public(charge))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        mistake = None if task.cancelled() else task.exception()
        if isinstance(mistake, Exception):
            self._mistaken("", mistake)

    # ---- lanes

    def _begin(self, hostname: str, charge: EdgeConfig) -> None:
        lane = EdgeLane(hostname, self._steps, self._clock, self._now_s, self._bell.set, self._mistaken)
        self._lanes[hostname] = lane
        lane.follow(charge)
        self._spawn(self._keep(lane))

    async def _keep(self, lane: EdgeLane) -> None:
        await lane.run()
        if lane.is_gone:
            self._gone.append(lane.hostname)
            self._say("edge_route_gone", {"hostname": lane.hostname})
        del self._lanes[lane.hostname]
        self._is_due = True  # it may have been applied again in this very moment
        self._bell.set()

    def _mistaken(self, hostname: str, mistake: Exception) -> None:
        self._findings.add("internal_error", f"{type(mistake).__name__}: {mistake}", "report this, with the log")
        self._say("internal_error", {"hostname": hostname, "message": repr(mistake)})

    # ---- renewals

    def _renew_due(self, charge: EdgeConfig) -> None:
        """Beside the lanes: a public authority may take a minute, and a lane looks every few seconds."""
        now_s = self._clock.monotonic_s()
        due = set(self._steps.certificates.due())
        self._renewals = {name: found for name, found in self._renewals.items() if name in due}
        for hostname in sorted(due & self._lanes.keys() - self._renewing):
            lane = self._lanes[hostname]
            ready_s = self._renewals.get(hostname, (0, 0.0))[1]
            if lane.servable is not None and lane.wanted is not None and ready_s <= now_s:
                self._renewing.add(hostname)
                self._spawn(self._renew(lane, charge))

    async def _renew(self, lane: EdgeLane, charge: EdgeConfig) -> None:
        tries = self._renewals.get(lane.hostname, (0, 0.0))[0]
        again_s = self._clock.monotonic_s() + min(RENEW_S * 2.0 ** min(tries, 10), RENEW_S_MAX)
        self._renewals[lane.hostname] = (tries + 1, again_s)
        try:
            servable = await self._steps.certificate(charge, lane.hostname)
        except HoldfastError as trouble:  # told by whoever keeps certificates
            self._say("certificate_not_renewed", {"hostname": lane.hostname, "message": trouble.message})
        else:
            if lane.servable is None or servable.digest != lane.servable.digest:
                self._renewals.pop(lane.hostname, None)
                self._say("certificate_renewed", {"hostname": lane.hostname, "digest": servable.digest})
                lane.renewed(servable)
        finally:
            self._renewing.discard(lane.hostname)

    # ---- the public DNS

    async def _ask_public(self, charge: EdgeConfig) -> None:
        """A warning only (M-80): public records are made by hand, elsewhere."""
        try:
            now_s = self._clock.monotonic_s()
            due = [lane for lane in self._lanes.values() if self._is_public_due(lane, charge, now_s)]
            for first in range(0, len(due), 8):
                await asyncio.gather(*(self._ask_public_of(lane, charge) for lane in due[first : first + 8]))
        finally:
            self._asks_public = False

    def _is_public_due(self, lane: EdgeLane, charge: EdgeConfig, now_s: float) -> bool:
        is_old = lane.public_asked_s is None or now_s - lane.public_asked_s >= PUBLIC_S
        return bool(charge.own_public) and lane.wanted is not None and is_old

    async def _ask_public_of(self, lane: EdgeLane, charge: EdgeConfig) -> None:
        lane.public_asked_s = self._clock.monotonic_s()
        found = await self._steps.public_addresses(lane.hostname)
        if found is not None:
            lane.tell_public("" if charge.own_public in found else ", ".join(found) or "nowhere")

    # ---- telling

    def _show(self) -> None:
        """One report for whatever changed in many lanes at once."""
        wrong: dict[tuple[str, str], list[str]] = {}
        states = self.states()
        for state in states:
            for code, message in _troubles(state):
                wrong.setdefault((code, f"service.{state.service}"), []).append(message)
        told = {key for code in CODES for key in sorted(key for key in wrong if key[0] == code)[:TOLD_MAX]}
        for code, address in sorted(self._told - told):
            self._findings.clear(code, address)
        for code, address in sorted(told):
            first, *more = wrong[code, address]
            self._find(code, f"{first} (and {len(more)} more of its hostnames)" if more else first, address)
        self._told = told
        shown = (states, self.gone(), self._findings.changes)
        if shown != self._shown:
            self._shown = shown
            self._tell()

    def _find(self, code: str, message: str, address: str) -> None:
        match code:
            case "edge_route_failed":
                remedy = "mend the step that it names; this edge tries again by itself, and at once with: holdfast sync"
                self._findings.add("edge_route_failed", message, remedy, address)
            case "backend_unreachable":
                remedy = "look at the node that it names and at the network in between: holdfast node show NODE"
                self._findings.add("backend_unreachable", message, remedy, address)
            case "handshake_failed":
                remedy = "it is put again by itself; if it stays, the proxy's log on this edge says why"
                self._findings.add("handshake_failed", message, remedy, address)
            case "dns_differs":
                self._findings.add("dns_differs", message, "holdfast status shows what DNS serves", address)
            case "public_dns_differs":
                remedy = "let its record at your DNS provider lead to this edge, or change public_address in fleet.toml"
                self._findings.add("public_dns_differs", message, remedy, address)


def _troubles(state: EdgeState) -> Iterator[tuple[str, str]]:
    if state.phase == "leaving":
        return
    if state.phase == "failed":
        yield ROUTE_FAILED, f"{state.hostname} is not public: the step {state.step} failed: {state.message}"
    if state.phase == "live" and state.backend_trouble:
        yield UNREACHABLE, f"{state.hostname}: {state.backend_trouble}"
    if state.dns_trouble:
        yield DNS_DIFFERS, f"{state.hostname}: {state.dns_trouble}"
    if state.code == HANDSHAKE_FAILED and state.mode == "l4":  # others are told by whoever keeps their certificates
        yield HANDSHAKE_FAILED, f"{state.hostname}: {state.message}"
    if state.public_dns:
        yield PUBLIC_DNS_DIFFERS, f"{state.hostname} leads to {state.public_dns} in the public DNS, not to this edge"
