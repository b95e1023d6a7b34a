"""Where the logs of a service are: on which nodes, and how each of them is recognised."""

from argparse import Namespace
from difflib import get_close_matches

from msgspec import UNSET

from holdfast.cli import fleet_view, issuers
from holdfast.cli.flags import repeated
from holdfast.cli.fleet_view import FleetView
from holdfast.errors import Conflict, Failed, HoldfastError, Invalid
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.fleet import Node
from holdfast.model.verified_report import VerifiedReport
from holdfast.ports.stream_link import Pinned
from holdfast.trust.certificates import listener_name


def nodes(view: FleetView, service: str, component: str, only: str, args: Namespace) -> list[str]:
    """Where it is placed, and wherever a node says it has a container of it: an old copy has logs, too."""
    entry = view.applied.table.entries.get(f"service.{service}")
    here = {name for name, one in view.nodes.items() if component in _components(one, service)}
    if entry is None and not any(_components(one, service) for one in view.nodes.values()):
        raise _unknown(view, service)
    if component and not here and entry is not None:
        _check_component(view, service, component)
    if only:
        fleet_view.node(view, only, args)
        return [only]
    if entry is not None and entry.node is not UNSET:
        here.add(entry.node)
    if not here:
        raise Failed(
            f"{service} runs nowhere: it is applied, but no node has it",
            remedy=f"holdfast ps{repeated(args)} shows why; holdfast plan explains where it would go",
            code="not_running",
        )
    return sorted(here)


def _components(one: VerifiedReport, service: str) -> set[str]:
    """Of which this node says it has containers; "" stands for any."""
    told = one.report.containers if one.report is not None else ()
    found = {container.component for container in told if container.service == service}
    return found | {""} if found else found


def _unknown(view: FleetView, service: str) -> Invalid:
    known = sorted(address[8:] for address in view.applied.table.entries if address.startswith("service."))
    close = get_close_matches(service, known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return Invalid(
        f"there is no service {service!r} in the applied revision, and no node has a container of it",
        remedy=f"{hint}there are: {', '.join(known) or 'none'}",
        code="unknown_service",
    )


def _check_component(view: FleetView, service: str, component: str) -> None:
    known = [part.name for part in view.applied.service(service).components]
    if component not in known:
        raise Invalid(
            f"{service} has no component {component!r}",
            remedy=f"there are: {', '.join(known)}",
            code="unknown_component",
        )


def pinned(view: FleetView, node: str, args: Namespace) -> Pinned:
    """Its issuing certificate comes from its report; only the digest in the signed revision makes it worth anything."""
    entry = view.applied.table.entries[f"node.{node}"]
    issuer = issuers.issuer_of(view.nodes[node])
    declared = _declared(view.applied, node)
    if not issuer or declared is None:
        raise Conflict(
            f"{node} has not told which certificates are its own, so nothing could prove that it is the one who speaks",
            remedy=f"holdfast node show {node}{repeated(args)}; it tells with its next report",
            code="not_pinned",
        )
    if entry.identity is UNSET or canonical.digest(issuer) != entry.identity.issuer:
        raise Conflict(
            f"revision {view.applied.head.number} does not pin the issuing certificate that {node} has now",
            remedy=f"holdfast apply{repeated(args)} records it; then repeat the command",
            code="not_pinned",
        )
    return Pinned(node, issuer, listener_name(node, declared.roles, view.applied.fleet().settings))


def _declared(applied: Applied, node: str) -> Node | None:
    try:
        return applied.node(node)
    except HoldfastError:
        return None
