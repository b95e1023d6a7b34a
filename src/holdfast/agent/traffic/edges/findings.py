"""Findings about public routes, out of the states of their hostnames: one for each service and code."""

from collections.abc import Iterable, Iterator

from holdfast.agent.findings import Findings
from holdfast.agent.traffic.edges.steps import DNS_DIFFERS, DOWN, HANDSHAKE_FAILED, ROUTE_FAILED, UNREACHABLE
from holdfast.model.report import EdgeState

PUBLIC_DNS_DIFFERS = "public_dns_differs"
TOLD_MAX = 20  # findings of one code: the rest is in the states; other parts of the agent have findings, too

# Most urgent first.
CODES = (ROUTE_FAILED, UNREACHABLE, HANDSHAKE_FAILED, DNS_DIFFERS, PUBLIC_DNS_DIFFERS)
REMEDIES = {
    ROUTE_FAILED: "fix the step that it names; this edge tries again automatically, and at once with: holdfast sync",
    HANDSHAKE_FAILED: "the route is applied again automatically; if it stays, see the proxy's log on this edge",
    DNS_DIFFERS: "`holdfast edge status` shows what DNS answers",
    PUBLIC_DNS_DIFFERS: "point its record at your DNS provider to this edge, or change public_address in fleet.toml",
}


class EdgeFindings:
    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._told: set[tuple[str, str]] = set()

    def show(self, states: Iterable[EdgeState]) -> int:
        """Answers how often findings of this node changed so far."""
        wrong: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for state in states:
            for code, message in _troubles(state):
                wrong.setdefault((code, f"service.{state.service}"), []).append((message, _remedy(code, state.node)))
        told = {key for code in CODES for key in sorted(key for key in wrong if key[0] == code)[:TOLD_MAX]}
        for code, address in sorted(self._told - told):
            self._findings.clear(code, address)
        for code, address in sorted(told):
            (first, remedy), *more = wrong[code, address]
            message = f"{first} (and {len(more)} more of its hostnames)" if more else first
            self._find(code, message, remedy, address)
        self._told = told
        return self._findings.changes

    def _find(self, code: str, message: str, remedy: str, address: str) -> None:
        """Each code by its name: the reference lists the findings of an agent, and a test looks for them here."""
        match code:
            case "edge_route_failed":
                self._findings.add("edge_route_failed", message, remedy, address)
            case "backend_unreachable":
                self._findings.add("backend_unreachable", message, remedy, address)
            case "handshake_failed":
                self._findings.add("handshake_failed", message, remedy, address)
            case "dns_differs":
                self._findings.add("dns_differs", message, remedy, address)
            case "public_dns_differs":
                self._findings.add("public_dns_differs", message, remedy, address)


def _remedy(code: str, node: str) -> str:
    """`node`: where the route leads."""
    if code == UNREACHABLE:
        remedy = f"look at {node} and at the network in between: holdfast node show {node}"
    else:
        remedy = REMEDIES[code]
    return remedy


def _troubles(state: EdgeState) -> Iterator[tuple[str, str]]:
    if state.phase == "leaving":
        return
    if state.phase == "failed":
        yield ROUTE_FAILED, f"{state.hostname} is not public: the step {state.step} failed: {state.message}"
    if state.phase == "live" and state.backend_trouble and state.code != DOWN:
        yield UNREACHABLE, f"{state.hostname}: {state.backend_trouble}"
    if state.dns_trouble:
        yield DNS_DIFFERS, f"{state.hostname}: {state.dns_trouble}"
    if state.code == HANDSHAKE_FAILED and state.mode == "l4":  # of l7 routes their certificates report it
        yield HANDSHAKE_FAILED, f"{state.hostname}: {state.message}"
    if state.public_dns:
        yield PUBLIC_DNS_DIFFERS, f"{state.hostname} leads to {state.public_dns} in the public DNS, not to this edge"
