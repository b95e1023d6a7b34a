"""Wait for public hostnames: live on their edges, or removed there."""

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from holdfast.cli.waiting.awaiter import SILENT_S, SLACK_S, Awaited, Limits, Reports
from holdfast.cli.waiting.dns import Names
from holdfast.cli.waiting.services import Services
from holdfast.status.blockers import Concern, certificate
from holdfast.status.edges import settled
from holdfast.status.edges.settled import EdgeAwaited, EdgeObserved

AGAIN_S = 15.0  # an edge tries a step that failed again after 10 s, and its answers may take 2 s each


class Edges:
    def __init__(self, wanted: Sequence[EdgeAwaited], services: Services, names: Names, reports: Reports) -> None:
        self._wanted = wanted
        self._services = services
        self._names = names
        self._reports = reports
        self.seen: tuple[EdgeObserved, ...] = ()

    def judge(self) -> None:
        self.seen = tuple(self._seen(one) for one in self._wanted)

    def _seen(self, one: EdgeAwaited) -> EdgeObserved:
        reports = self._reports
        word = reports.heard.get(one.edge)
        is_asked = one.edge in reports.asked - reports.unheard
        is_silent = word is not None and word.key and (word.status == "unhealthy" or one.edge in reports.unheard)
        if word is not None and is_silent and not is_asked:
            return settled.unheard(one, word.age_s)
        signed = not is_asked or reports.accepts(word)
        found = settled.judge(one, word, signed, self._services.on(one.service, one.node))
        if found.has_failed and self._is_early(one, found):
            found = replace(found, phase="waiting", steps=tuple(s for s in found.steps if s.outcome != "failed"))
        if found.phase != "waiting":
            return found
        broken = self._names.seen.those("failed")
        if broken and one.node:
            return settled.gated(found, f"{broken[0].node}: {broken[0].message}")
        has_none = signed and settled.says_nothing(word) and reports.lasts(one, "silent", SILENT_S)
        return settled.unwatched(one) if has_none and one.node else found

    def _is_early(self, one: EdgeAwaited, found: EdgeObserved) -> bool:
        """It gave up while the service was on its way, as during a long pull, and has not tried again since."""
        worker = self._services.on(one.service, one.node)
        is_tried = found.step not in ("dns", "backend") and found.message
        has_begun = worker is not None and worker.phase == "converged" and not is_tried
        tried_s = self._services.settled_s(one.service, one.node) + AGAIN_S
        return has_begun and self._reports.clock.monotonic_s() < tried_s

    def awaited(self) -> list[Awaited]:
        under_way = self._services.under_way()
        return [_awaited(one, self._names.seen.is_settled and one.service not in under_way) for one in self.seen]

    def ends_s(self, limits: Limits, without: Collection[str]) -> list[float]:
        pairs = zip(self._wanted, self.seen, strict=True)
        return [self._end_s(one, limits) for one, seen in pairs if not seen.is_settled and one.edge not in without]

    def _end_s(self, one: EdgeAwaited, limits: Limits) -> float:
        """The time of an edge starts when the service runs on its node."""
        route_s = max(limits.edge_route_s, AGAIN_S)
        allowed_s = route_s if one.node else max(limits.undeploy_s, route_s)
        return self._services.settled_s(one.service, one.node) + allowed_s + SLACK_S


def _awaited(seen: EdgeObserved, is_due: bool) -> Awaited:
    """An edge that failed while its service is under way tries again, so that its findings count too."""
    concerned = bool(seen.edge) and seen.phase in ("waiting", "failed", "skipped")
    addresses = frozenset({f"service.{seen.service}", certificate(seen.hostname)})
    return Awaited(
        node=seen.edge,
        what=seen.hostname,
        lead=f"edge {seen.edge} {seen.hostname}: ",
        is_settled=seen.is_settled,
        is_due=is_due,
        step=seen.step or "not started",
        steps=seen.steps,
        result="skipped" if seen.phase == "skipped" else "",
        message=seen.message,
        concerns=(Concern(seen.edge, addresses),) if concerned else (),
    )
