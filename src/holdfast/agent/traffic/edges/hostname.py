"""One public hostname on this edge: what is wanted of it, and the results of its steps so far. It asks nothing."""

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.agent.traffic.edges.steps import EdgeConfig
from holdfast.model.deployment import StepResult
from holdfast.model.route import EdgeRoute, Place
from holdfast.ports.clock import Clock
from holdfast.ports.proxy import ProxyRoute, Servable
from holdfast.reconcile import edges
from holdfast.reconcile.edges import Act, Check, EdgeFacts, Step


class Hostname:
    """`now_s` is the time of the node; it goes into reports."""

    def __init__(self, name: str, clock: Clock, now_s: Callable[[], float]) -> None:
        self.name = name
        self.config: EdgeConfig | None = None
        self.wanted: EdgeRoute | None = None
        self.servable: Servable | None = None
        self.is_gone = False  # the route was here, and was taken away
        self.public_dns = ""  # where the public name leads instead of to this edge
        self._clock = clock
        self._now_s = now_s
        self._about: object = None
        self._start_over()

    def _start_over(self) -> None:
        self.checks: dict[Step, Check] = {}
        self.results: dict[Step, StepResult] = {}
        self.tries: dict[Act, int] = {}
        self.stands_in = ""  # why the route does not lead to its own node
        self.former = ""  # the address where the service was, and still answers
        self.restless_s: float | None = self._clock.monotonic_s()  # since when it is not as it must be
        self._begun_s: dict[Step, float] = {}
        self._place: Place | None = None  # the backend that last answered
        self._leads: dict[Place, ProxyRoute] = {}  # building a route costs more than looking it up
        self._silences = 0

    # ---- what is wanted

    def follow(self, config: EdgeConfig) -> bool:
        """True if something else is wanted than before."""
        wanted = config.manifest.edge.get(self.name)
        about = config.about(wanted) if wanted is not None else None
        is_first, self.config = self.config is None, config
        if not is_first and about == self._about:
            return False
        self.wanted, self._about = wanted, about
        self._start_over()
        return True

    def try_at_once(self, is_failed: bool) -> None:
        """The same is wanted again: steps that failed are tried without a pause."""
        self.checks = {step: check for step, check in self.checks.items() if not check.trouble}
        self.tries.clear()
        self.restless_s = self._clock.monotonic_s() if is_failed else self.restless_s

    # ---- what is true

    def facts(self, has: ProxyRoute | None, forbidden: bool) -> EdgeFacts:
        """`has` is the route of the running proxy; `forbidden`: this edge may not serve it."""
        if self.wanted is None:
            left_s = self._clock.monotonic_s() - (self.restless_s or 0.0)
            lives = has is not None and self.config is not None and self.config.has_service(has.service)
            return EdgeFacts(None, has, forbidden=forbidden, left_s=left_s, silences=self._silences, lives=lives)
        leads = self.route_to(self.wanted, self.place(self.wanted, has))
        would = self._would(self.wanted, leads)
        return EdgeFacts(self.wanted, has, leads, would, self.checks, forbidden, former=self.former)

    def place(self, wanted: EdgeRoute, has: ProxyRoute | None) -> Place:
        """The backend that last answered; before the first probe, the one the proxy already has, if still allowed."""
        if self._place is not None:
            return self._place
        led = {backend.address for backend in has.backends} if has is not None else set()
        places = edges.places(wanted)
        return next((place for place in places if place.address in led), places[0])

    def route_to(self, wanted: EdgeRoute, place: Place) -> ProxyRoute:
        assert self.config is not None
        if place not in self._leads:
            issuer = self.config.manifest.issuers.get(place.node, b"")
            self._leads[place] = edges.route(self.name, wanted, place, issuer)
        return self._leads[place]

    def _would(self, wanted: EdgeRoute, leads: ProxyRoute) -> ProxyRoute | None:
        if wanted.mode == "l4":
            return leads
        return replace(leads, certificate=self.servable.digest) if self.servable is not None else None

    # ---- what was done

    def got(self, servable: Servable) -> None:
        self.servable = servable

    def led_to(self, place: Place, stands_in: str) -> None:
        self._place, self.stands_in = place, stands_in
        self.tries["rest"] = self.tries.get("rest", 0) + 1 if stands_in else 0

    def served_by_former(self, address: str) -> None:
        """The place where the service was; "" if it does not answer. While it does, the hostname is public, however
        long the new place takes: a move copies its data first. The time that a change may take begins afterwards."""
        self.former = address
        if address:
            self.restless_s = self._clock.monotonic_s()

    def put(self) -> None:
        """The route was put again: its handshake is to be seen again."""
        self.checks.pop("handshake", None)

    def asked(self, is_silent: bool) -> None:
        """The backend of a leaving route was asked: silence is what a proxy answers that has no such route."""
        self._silences = self._silences + 1 if is_silent else 0
        self.tries["ask"] = self.tries.get("ask", 0) + 1

    def withdrawn(self, check: Check) -> None:
        if check.trouble:
            self.tries["withdraw"] = self.tries.get("withdraw", 0) + 1
        else:
            self.is_gone = True

    def record(self, step: Step, check: Check, blocks: Callable[[], bool]) -> None:
        """`blocks` answers whether the route waits for this step now."""
        self.checks[step] = check
        told = self.results.get(step)
        was_done = told is not None and told.outcome == "done"
        begun_s = self.begun_s(step)
        if not check.trouble:
            self.tries.pop(step, None)
            if not was_done:
                self.results[step] = StepResult(step, "done", begun_s, round(self.moment_s() - begun_s, 3))
            return
        self.tries[step] = self.tries.get(step, 0) + 1
        if step == "handshake":
            self.checks.pop("certificate", None)  # it may have expired: it is judged again before it is put again
        if blocks():
            self.results.pop(step, None)
        elif not was_done:
            self.results[step] = StepResult(step, "failed", begun_s, 0.0, check.trouble)

    def lead_publicly(self, leads_to: str) -> bool:
        """True if it is news."""
        is_news = leads_to != self.public_dns
        self.public_dns = leads_to
        return is_news

    # ---- times

    def moment_s(self) -> float:
        return round(self._now_s(), 3)

    def begun_s(self, step: Step) -> float:
        return self._begun_s.setdefault(step, self.moment_s())

    def rest(self, is_at_rest: bool) -> None:
        if is_at_rest:
            self.restless_s = None
        elif self.restless_s is None:
            self.restless_s = self._clock.monotonic_s()

    def waited_s(self) -> float:
        return self._clock.monotonic_s() - self.restless_s if self.restless_s is not None else 0.0
