"""Findings of nodes that keep a change from settling. Pure."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.model.duration import aged

if TYPE_CHECKING:  # only types: a command starts sooner without these modules
    from holdfast.model.report import NodeFinding
    from holdfast.model.verified_report import VerifiedReport

# Findings about a whole node: they block everything on it.
OF_NODE = frozenset(
    {
        *("internal_error", "state_unwritable", "content_missing", "runtime_unavailable", "no_progress"),
        *("revision_refused", "revision_waits", "not_in_revision", "not_registered", "clock_skew"),
        *("proxy_down", "proxy_port_taken", "dns_down", "certificates"),
    }
)
# Findings about one service, or a certificate for one of its names. `rollout_failed` is not among them: it stays until
# the next attempt has worked, and says nothing about that attempt.
OF_SERVICE = frozenset(
    {
        *("internal_error", "service_waits", "certificate_failed", "handshake_failed"),
        *("edge_route_failed", "backend_unreachable", "dns_differs"),
    }
)


# Findings about one service that keep nothing from settling, and that an operator has to answer.
TO_ANSWER = frozenset({"undeclared_volume"})


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
    """A node that a command waits for, and the addresses of what it waits for."""

    node: str
    addresses: frozenset[str] = frozenset()


def of(
    concerned: Sequence[Concern], heard: "Mapping[str, VerifiedReport]", accepts: "Callable[[VerifiedReport], bool]"
) -> tuple[Blocker, ...]:
    """Findings about a service count only from a node that has signed: before, they are about an earlier revision."""
    found: dict[Blocker, None] = {}
    for one in concerned:
        verified = heard.get(one.node)
        if verified is not None and verified.key and verified.status == "unhealthy":
            found[_silent(one.node, verified)] = None
        elif verified is not None and verified.report is not None:
            addresses = one.addresses if accepts(verified) else frozenset()
            found |= dict.fromkeys(_of(one.node, addresses, verified.report.findings))
    return tuple(found)


def _silent(node: str, verified: "VerifiedReport") -> Blocker:
    """What it reported last says nothing about now. `since_s`: it holds now, whenever it began (N32)."""
    since = f" for {aged(verified.age_s)}" if verified.pulse is not None else ""
    text = f"no contact with {node}{since}: it does nothing of this before it is back"
    remedy = f"look at the machine and its network; holdfast node show {node}"
    return Blocker(node, "node_unhealthy", text, remedy, f"node.{node}", since_s=inf)


def unanswered(
    services: Sequence[tuple[str, str]],
    heard: "Mapping[str, VerifiedReport]",
    accepts: "Callable[[VerifiedReport], bool]",
) -> tuple[Blocker, ...]:
    """`services`: each with its node. Only from a node that has signed: before, it is about an earlier revision."""
    found: dict[Blocker, None] = {}
    for service, node in services:
        verified = heard.get(node)
        if verified is not None and verified.report is not None and accepts(verified):
            for own in verified.report.findings:
                if own.code in TO_ANSWER and own.address == f"service.{service}":
                    found[Blocker(node, own.code, own.message, own.remedy, own.address, own.since_s)] = None
    return tuple(found)


def _of(node: str, addresses: Collection[str], findings: "Sequence[NodeFinding]") -> Iterator[Blocker]:
    for own in findings:
        is_nodes = own.code in OF_NODE and own.address in ("", f"node.{node}")
        if is_nodes or (own.code in OF_SERVICE and own.address in addresses):
            yield Blocker(node, own.code, own.message, own.remedy, own.address, own.since_s)


def certificate(name: str) -> str:
    """The address that findings about its certificate have."""
    return f"certificate.{name}"
