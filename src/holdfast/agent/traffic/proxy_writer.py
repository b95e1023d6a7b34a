"""The one writer of this node's proxy (M-115): it merges the routes of several owners into one set.

Owners are services with internal names and edges with public ones. One set is applied at a time; routes that come
meanwhile go with the next. A route that the proxy refuses is the trouble of its owner alone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from holdfast.errors import HoldfastError, TryLater
from holdfast.ports.proxy import Backend, Proxy, ProxyRoute, Servable
from holdfast.reconcile.routes import digest

GATHER_S = 2.0
REST_S_MAX = 0.3
TAKEN = "hostname_taken"  # two routes claim one name

Owner = tuple[str, str]  # ("service", name) or ("edge", hostname)
Routes = tuple[ProxyRoute, ...]
Find = Callable[[ProxyRoute], Servable | None]  # the certificate of a route that an earlier process applied


class ProxyWriter:
    """`find` looks for certificates that are kept; a route without one is never applied again (I-16). `recalled` is
    called once, when it is known which routes the proxy had before this process."""

    def __init__(self, proxy: Proxy, find: Find, recalled: Callable[[], None] = lambda: None) -> None:
        self._proxy = proxy
        self._recalled = recalled
        self._find = find
        self._has: dict[Owner, Routes] = {}  # acknowledged
        self._asked: dict[Owner, Routes] = {}  # not yet
        self._certificates: dict[str, Servable] = {}
        self._challenges: dict[str, str] = {}
        self._turn = asyncio.Lock()
        self._knows = False  # what the proxy had when this process began
        self._is_lost = False  # it has routes that cannot be read
        self._rested_s = 0.0  # when the next set may begin

    # ---- what it has

    async def look(self) -> bool:
        """True if the running proxy had other routes than those put here; then they were applied again."""
        async with self._turn:
            return await self._look()

    async def _look(self) -> bool:
        if not self._knows and not await self._proxy.version():
            raise TryLater(
                "the proxy of this node does not run yet, so its routes are not known",
                remedy="it is started automatically; if it stays away: `holdfast node show NAME`, and its agent's log",
                code="proxy_down",
            )
        if not self._knows:
            await self._recall()
        if self._is_lost or _digest(_grouped(await self._proxy.routes())) == _digest(self._has):
            return False
        await self._apply({})
        return True

    async def _recall(self) -> None:
        """The routes that an earlier process put. If the proxy has routes that cannot be read, all owners are waited
        for (GATHER_S): applying one owner's routes alone would drop the others."""
        known = await self._proxy.known()
        self._has, self._knows, self._is_lost = _grouped(known or ()), True, known is None
        self._recalled()

    def of(self, service: str) -> Routes:
        return self._has.get(("service", service), ())

    def services(self) -> dict[str, Routes]:
        return {name: routes for (kind, name), routes in self._has.items() if kind == "service"}

    def edge_of(self, hostname: str) -> ProxyRoute | None:
        return next(iter(self._has.get(("edge", hostname), ())), None)

    def edge(self) -> dict[str, ProxyRoute]:
        return {name: routes[0] for (kind, name), routes in self._has.items() if kind == "edge" and routes}

    # ---- what it shall have

    async def put(self, service: str, routes: Sequence[ProxyRoute], certificates: Iterable[Servable] = ()) -> None:
        """All internal routes of a service; none takes it off. Acknowledged when this returns."""
        await self._put(("service", service), _sorted(routes), certificates)

    async def put_edge(
        self,
        hostname: str,
        route: ProxyRoute | None,
        certificate: Servable | None,
        after: Awaitable[None] | None = None,
    ) -> None:
        """None takes it off. `after` is awaited first; a set that another owner causes meanwhile takes this along."""
        routes = () if route is None else (route,)
        await self._put(("edge", hostname), routes, () if certificate is None else (certificate,), after)

    async def answer(self, challenges: Mapping[str, str]) -> None:
        """Exactly these tokens on port 80 of an edge, acknowledged."""
        before, self._challenges = self._challenges, dict(challenges)
        async with self._turn:
            try:
                await self._begin()
                await self._apply({})
            except HoldfastError:
                self._challenges = before
                raise

    async def drained(self, gone: Sequence[Backend], at_most_s: float) -> None:
        await self._proxy.drained(gone, at_most_s)

    async def _put(
        self, owner: Owner, routes: Routes, certificates: Iterable[Servable], after: Awaitable[None] | None = None
    ) -> None:
        self._certificates |= {one.digest: one for one in certificates}
        self._asked[owner] = routes
        if after is not None:
            await self._others(owner, after)
        async with self._turn:
            if self._asked.get(owner) is not routes:
                return  # it went with another owner's routes, or a newer set waits for its own turn
            try:
                await self._begin()
                await self._together(owner)
            except HoldfastError as trouble:
                if trouble.code == TAKEN:
                    raise _waits(
                        trouble
                    ) from trouble  # it stays asked for, and goes with the owner that leaves the name
                self._asked.pop(owner, None)
                raise
            except BaseException:
                self._asked.pop(owner, None)
                raise

    async def _others(self, owner: Owner, after: Awaitable[None]) -> None:
        try:
            await after
        except BaseException:
            self._asked.pop(owner, None)
            raise

    async def _begin(self) -> None:
        """Nothing is written before the present routes are known, because the others must stay."""
        if not self._knows:
            await self._look()

    async def _together(self, owner: Owner) -> None:
        """Everything that waits, at once; if that is refused, only what was asked for here. Between two sets the proxy
        rests for as long as the first took, so that many changes make few sets."""
        if self._is_lost:
            await asyncio.sleep(GATHER_S)
            self._is_lost = False
        now_s = asyncio.get_running_loop().time
        if (left_s := self._rested_s - now_s()) > 0:
            await asyncio.sleep(left_s)
        began_s = now_s()
        try:
            await self._at_once(owner)
        finally:
            self._rested_s = now_s() + min(now_s() - began_s, REST_S_MAX)

    async def _at_once(self, owner: Owner) -> None:
        waiting = dict(self._asked)
        try:
            await self._apply(waiting)
        except TryLater:
            raise
        except HoldfastError:
            if len(waiting) == 1:
                raise
            waiting = {owner: waiting[owner]}
            await self._apply(waiting)
        for one, routes in waiting.items():
            if self._asked.get(one) is routes:
                del self._asked[one]

    async def _apply(self, changed: Mapping[Owner, Routes]) -> None:
        kept = {owner: self._shown(routes) for owner, routes in self._has.items() if owner not in changed}
        after = {owner: routes for owner, routes in {**kept, **changed}.items() if routes}
        wanted = [route for routes in after.values() for route in routes]
        for route in wanted:
            self._has_certificate(route)
        used = {route.certificate for route in wanted if route.certificate}
        shown = {digest: one for digest, one in self._certificates.items() if digest in used}
        await self._proxy.apply(wanted, shown, dict(self._challenges))
        self._has = after
        if not self._asked.keys() - changed.keys():  # else a certificate is among them whose route was not applied yet
            self._certificates = shown

    def _shown(self, routes: Routes) -> Routes:
        """Those whose certificate is at hand. One that an earlier process had, and that is not kept any more, is made
        again by the keeper of its route."""
        return tuple(route for route in routes if route.mode == "l4" or self._has_certificate(route))

    def _has_certificate(self, route: ProxyRoute) -> bool:
        if route.certificate not in self._certificates:
            found = self._find(route)
            if found is None or found.digest != route.certificate:
                return False
            self._certificates[found.digest] = found
        return True


def _waits(trouble: HoldfastError) -> TryLater:
    return TryLater(
        f"{trouble.message}; it waits until the other route is gone",
        remedy="wait if this revision changes both routes; otherwise rename one",
        code=TAKEN,
    )


def _grouped(routes: Iterable[ProxyRoute]) -> dict[Owner, Routes]:
    found: dict[Owner, Routes] = {}
    for route in routes:
        owner = _owner(route)
        found[owner] = _sorted((*found.get(owner, ()), route))
    return found


def _digest(found: Mapping[Owner, Routes]) -> str:
    """Over sorted routes (T-12)."""
    return digest(route for routes in found.values() for route in routes)


def _sorted(routes: Iterable[ProxyRoute]) -> Routes:
    return tuple(sorted(routes, key=lambda route: (route.component, route.route)))


def _owner(route: ProxyRoute) -> Owner:
    return ("edge", route.hostnames[0]) if route.public else ("service", route.service)
