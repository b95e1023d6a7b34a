"""What keeps something from settling that a command waits for, in the nodes' own findings. Pure."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.cli.edge_observed import EdgeObserved
from holdfast.cli.observed import Awaited, Observed

if TYPE_CHECKING:
    from holdfast.model.report import NodeFinding
    from holdfast.model.verified_report import VerifiedReport

# Findings about a whole node: whatever it has to do waits for them.
OF_NODE = frozenset(
    {
        *("internal_error", "state_unwritable", "content_missing", "runtime_unavailable", "no_progress"),
        *("revision_refused", "revision_waits", "not_in_revision", "not_registered", "clock_skew"),
        *("proxy_down", "proxy_port_taken", "dns_down", "certificates"),
    }
)
# Findings about one service, or a certificate for one of its names. What failed earlier (`rollout_failed`) is not among
# them: it stays until the next attempt has worked, and says nothing of that.
OF_SERVICE = frozenset(
    {
        *("internal_error", "service_waits", "certificate_failed", "handshake_failed"),
        *("edge_route_failed", "backend_unreachable", "dns_differs"),
    }
)


class Blocker(Struct, frozen=True):
    node: str
    code: str
    message: str
    remedy: str
    address: str = ""
    since_s: float = 0.0  # by the clock of the node

    @property
    def text(self) -> str:
        return f"{self.message} ({self.remedy})" if self.remedy else self.message


class Concern(Struct, frozen=True):
    """A node that something is waited for at, and the addresses that this is about."""

    node: str
    addresses: frozenset[str] = frozenset()


def concerns(
    services: Sequence[tuple[Awaited, Observed]], edges: Sequence[EdgeObserved], others: Collection[str]
) -> list[Concern]:
    """`others`: nodes that have to sign, or to learn names, and nothing else. An edge that gave up while its service
    is under way is among them too: it tries again, and what it says may be the reason."""
    found = [Concern(node) for node in others]
    for one, seen in services:
        if not seen.is_settled:
            found.append(Concern(one.node, frozenset({f"service.{one.service}", *map(_certificate, one.names)})))
    found += [
        Concern(edge.edge, frozenset({f"service.{edge.service}", _certificate(edge.hostname)}))
        for edge in edges
        if edge.edge and edge.phase in ("waiting", "failed", "skipped")
    ]
    return found


def of(
    concerned: Sequence[Concern], heard: "Mapping[str, VerifiedReport]", accepts: "Callable[[VerifiedReport], bool]"
) -> tuple[Blocker, ...]:
    """What a node that has not signed yet says of a service, it says of what was applied before."""
    found: dict[Blocker, None] = {}
    for one in concerned:
        word = heard.get(one.node)
        if word is not None and word.report is not None:  # signed; a node that fell silent meanwhile said it last
            addresses = one.addresses if accepts(word) else frozenset()
            found |= dict.fromkeys(_of(one.node, addresses, word.report.findings))
    return tuple(found)


def _of(node: str, addresses: Collection[str], findings: "Sequence[NodeFinding]") -> Iterator[Blocker]:
    for own in findings:
        is_nodes = own.code in OF_NODE and own.address in ("", f"node.{node}")
        if is_nodes or (own.code in OF_SERVICE and own.address in addresses):
            yield Blocker(node, own.code, own.message, own.remedy, own.address, own.since_s)


def _certificate(name: str) -> str:
    return f"certificate.{name}"
