"""Wait for DNS names: every DNS server of the fleet answers as applied."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.cli.waiting.awaiter import SILENT_S, SLACK_S, Awaited, Limits, Reports
from holdfast.cli.waiting.services import Services
from holdfast.status import dns
from holdfast.status.blockers import Concern
from holdfast.status.dns import DnsObserved, NamesAwaited, NamesObserved

if TYPE_CHECKING:
    from holdfast.model.verified_report import VerifiedReport

TROUBLED_S = 10.0  # a DNS server in trouble for this long does not recover


class Names:
    def __init__(self, wanted: NamesAwaited, services: Services, reports: Reports) -> None:
        self._wanted = wanted
        self._services = services
        self._reports = reports
        self.seen = DnsObserved()

    def judge(self) -> None:
        nodes = tuple(self._seen(node, self._reports.heard.get(node)) for node in self._wanted.nodes)
        self.seen = DnsObserved(nodes, changes=bool(nodes))

    def _seen(self, node: str, word: "VerifiedReport | None") -> NamesObserved:
        reports = self._reports
        if node in reports.unheard:
            return NamesObserved(node, "unknown", f"{node} is silent")
        found = dns.judge(self._wanted, node, word, reports.accepts(word))
        if found.phase != "waiting" or not found.message:
            reports.since_s.pop((node, "names"), None)
            return found
        if dns.says_nothing(word):
            return replace(found, phase="unknown") if reports.lasts(node, "no names", SILENT_S) else found
        has_failed = reports.lasts(node, "names", TROUBLED_S) and not self._wanted.leaves
        return replace(found, phase="failed") if has_failed else found

    def awaited(self) -> list[Awaited]:
        phase = self.seen.phase
        those = [one for one in self.seen.nodes if one.phase == phase and phase != "unknown"]
        if not those:
            return []
        found = Awaited(
            node="dns",
            what="",
            lead=f"dns  {', '.join(one.node for one in those)}",
            is_settled=self.seen.is_settled,
            is_due=not self._services.under_way(),
            result={"served": "done", "failed": "failed"}.get(phase, ""),
            message="; ".join(f"{one.node}: {one.message}" for one in those if one.message),
            concerns=() if self.seen.is_settled else tuple(Concern(one.node) for one in those),
        )
        return [found]

    def ends_s(self, limits: Limits, without: Collection[str]) -> list[float]:
        waiting = {one.node for one in self.seen.those("waiting")}
        if self.seen.is_settled or waiting <= set(without) or self._services.are_lost(without):
            return []
        allowed_s = max(limits.undeploy_s, limits.edge_route_s) if self._wanted.leaves else limits.edge_route_s
        return [self._services.arrived_s() + allowed_s + SLACK_S]
