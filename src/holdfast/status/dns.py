"""Do the nodes serve the internal names of the applied revision? Judged by their verified reports. Pure."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, Struct

from holdfast.model.revision import Table
from holdfast.reconcile import dns_records as records

if TYPE_CHECKING:  # only a type: a command starts sooner without this module
    from holdfast.model.verified_report import VerifiedReport

# served: as applied. unknown: the node reports nothing about names, or nothing at all.
Phase = Literal["waiting", "served", "failed", "unknown"]


class NamesAwaited(Struct, frozen=True):
    """The records that these nodes must serve. Without nodes there is nothing to wait for."""

    digest: str = ""
    records: int = 0
    nodes: tuple[str, ...] = ()
    leaves: bool = False  # some name must not be served any more


class NamesObserved(Struct, frozen=True):
    node: str
    phase: Phase
    message: str = ""


class DnsObserved(Struct, frozen=True):
    nodes: tuple[NamesObserved, ...] = ()
    changes: bool = False  # some name or address changed

    @property
    def phase(self) -> str:
        """The worst of them; "unchanged" where no name changed."""
        if not self.changes:
            return "unchanged"
        worst = [phase for phase in ("failed", "waiting", "served") if any(one.phase == phase for one in self.nodes)]
        return worst[0] if worst else "unknown"

    @property
    def is_settled(self) -> bool:
        return self.phase != "waiting"

    def those(self, phase: Phase) -> list[NamesObserved]:
        return [one for one in self.nodes if one.phase == phase]


def wanted(table: Table) -> dict[str, str]:
    """Internal name → address, as in the manifest of every node that serves DNS."""
    found: dict[str, str] = {}
    for address, entry in table.entries.items():
        if not (entry.names and entry.containers and entry.node is not UNSET and address.startswith("service.")):
            continue
        home = table.entries.get(f"node.{entry.node}")
        if home is not None and home.address:
            found |= dict.fromkeys(entry.names, home.address)
    return found


def servers(table: Table) -> frozenset[str]:
    """Names of the nodes that serve DNS."""
    return frozenset(name for name, entry in table.of_kind("node").items() if entry.dns)


def awaited(before: Table, after: Table, among: Collection[str]) -> NamesAwaited:
    """`among`: the nodes whose manifest changed. Where no name changed there is nothing to wait for."""
    names, known = wanted(after), wanted(before)
    if names == known:
        return NamesAwaited()
    nodes = servers(after) & frozenset(among)
    leaves = bool(known.keys() - names.keys())
    return NamesAwaited(records.digest(names), len(names), tuple(sorted(nodes)), leaves)


def judge(of: NamesAwaited, node: str, verified: "VerifiedReport | None", has_accepted: bool) -> NamesObserved:
    """The command does not wait for a silent node: its DNS server gives no answer, neither an old nor a new one."""
    if verified is None or not verified.key:
        return NamesObserved(node, "unknown", f"no machine joined as {node} yet")
    if verified.status == "unhealthy":
        return NamesObserved(node, "unknown", f"no contact with {node} for {verified.age_s:.0f} s")
    if verified.report is None or not has_accepted:
        return NamesObserved(node, "waiting")
    if verified.report.mode == "observe":
        return NamesObserved(node, "unknown", f'{node} only observes (reconcile = "observe")')
    state = verified.report.names
    if state is None:
        return NamesObserved(node, "waiting", f"{node} reports nothing about names")
    lingering = state.records - of.records if of.leaves else 0  # records that earlier revisions removed go later
    if state.served != of.digest:
        return NamesObserved(node, "waiting", state.trouble)
    return NamesObserved(node, "waiting", f"{lingering} removed names are still served") if lingering else _served(node)


def _served(node: str) -> NamesObserved:
    return NamesObserved(node, "served")


def says_nothing(verified: "VerifiedReport | None") -> bool:
    return verified is not None and verified.report is not None and verified.report.names is None
