"""Wait for services: running on their nodes as applied, or gone from there."""

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from holdfast.cli.waiting.awaiter import SILENT_S, Awaited, Limits, Reports
from holdfast.status.blockers import Concern, certificate
from holdfast.status.services import settled
from holdfast.status.services.settled import Observed, ServiceAwaited

PARKED_S = 1.0  # changes parked before this revision are cleared within this time


class Services:
    def __init__(self, wanted: Sequence[ServiceAwaited], reports: Reports) -> None:
        self._wanted = wanted
        self._reports = reports
        self._settled_s: dict[ServiceAwaited, float] = {}
        self.seen: tuple[Observed, ...] = ()

    def judge(self) -> None:
        self.seen = tuple(self._seen(one) for one in self._wanted)
        now_s = self._reports.clock.monotonic_s()
        for one, seen in zip(self._wanted, self.seen, strict=True):
            if seen.is_settled:
                self._settled_s.setdefault(one, now_s)

    def _seen(self, one: ServiceAwaited) -> Observed:
        word = self._reports.heard.get(one.node)
        signed = self._reports.accepts(word)
        found = settled.judge(one, word, signed)
        if found.phase == "parked" and not self._reports.lasts(one, "parked", PARKED_S):
            return replace(found, phase="settling")
        is_moving = one.service in self._reports.arrived_s  # the first service of a node may take long to arrive
        is_silent = found.phase == "settling" and signed and not is_moving and settled.says_nothing(word)
        return settled.unwatched(one) if is_silent and self._reports.lasts(one, "silent", SILENT_S) else found

    def awaited(self) -> list[Awaited]:
        return [_awaited(one, seen) for one, seen in zip(self._wanted, self.seen, strict=True)]

    def ends_s(self, limits: Limits, without: Collection[str]) -> list[float]:
        moving = {name for name, at_s in self._reports.arrived_s.items() if at_s is None}
        pairs = zip(self._wanted, self.seen, strict=True)
        late = [one for one, seen in pairs if not seen.is_settled and one.node not in without]
        return [self._end_s(one, limits) for one in late if one.service not in moving]

    def _end_s(self, one: ServiceAwaited, limits: Limits) -> float:
        """A service that moves leaves its old node only after it runs on the new one."""
        if one.deployment:
            return (self._reports.arrived_s.get(one.service) or self._reports.began_s) + limits.deploy_s
        arrives = [other for other in self._wanted if other.service == one.service and other.deployment]
        return self._since(arrives) + limits.undeploy_s

    # ---- for DNS names and edges, which follow the services

    def settled_s(self, service: str, node: str = "") -> float:
        """When this service settled: on this node, or on each of its nodes."""
        return self._since([one for one in self._wanted if one.service == service and node in ("", one.node)])

    def arrived_s(self) -> float:
        """When the last service that is deployed settled; of those that leave, if none is deployed."""
        return self._since([one for one in self._wanted if one.deployment] or self._wanted)

    def on(self, service: str, node: str) -> Observed | None:
        return next((one for one in self.seen if (one.service, one.node) == (service, node)), None)

    def under_way(self) -> set[str]:
        return {one.service for one in self.seen if not one.is_settled}

    def are_lost(self, without: Collection[str]) -> bool:
        """Every service failed, or its node did not get the revision: no DNS name can change any more."""
        known = [one for one in self.seen if one.is_settled or one.node not in without]
        return bool(self.seen) and all(one.phase in ("failed", "parked", "unknown") for one in known)

    def _since(self, those: Sequence[ServiceAwaited]) -> float:
        """When the last of those settled. While one has not, its own deadline holds, and this one moves with it."""
        began_s = self._reports.began_s
        return max((self._settled_s.get(one, began_s) for one in those), default=began_s)


def _awaited(one: ServiceAwaited, seen: Observed) -> Awaited:
    addresses = frozenset({f"service.{one.service}", *map(certificate, one.names)})
    return Awaited(
        node=one.node,
        what=one.service,
        lead=f"{one.node}  {one.service}  ",
        is_settled=seen.is_settled,
        step=seen.step or "not started",
        steps=seen.steps,
        message=seen.message,
        concerns=() if seen.is_settled else (Concern(one.node, addresses),),
    )
