"""Which nodes have logs of a service, and the certificate that identifies each node."""

from argparse import Namespace

from msgspec import UNSET

from holdfast.cli.flags import repeated
from holdfast.cli.nodes import fleet_view, issuers
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.errors import Conflict, Failed, HoldfastError, Invalid
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.fleet import Node
from holdfast.model.nearest import hint
from holdfast.model.verified_report import VerifiedReport
from holdfast.ports.stream_link import Pinned
from holdfast.trust.certificates import listener_name


def nodes(view: FleetView, service: str, component: str, only: str, args: Namespace) -> list[str]:
    """The node where it is placed, and every node that reports a container of it: an old copy has logs too."""
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
            f"{service} is applied, but no node runs it",
            remedy=f"`holdfast ps{repeated(args)}` shows why; holdfast plan --explain service.{service}",
            code="not_running",
        )
    return sorted(here)


def _components(one: VerifiedReport, service: str) -> set[str]:
    """The components of which this node reports containers; "" stands for any."""
    told = one.report.containers if one.report is not None else ()
    found = {container.component for container in told if container.service == service}
    return found | {""} if found else found


def _unknown(view: FleetView, service: str) -> Invalid:
    known = sorted(view.applied.table.of_kind("service"))
    return Invalid(
        f"there is no service {service!r} in the applied revision, and no node has a container of it",
        remedy=hint(service, known) + f"services are: {', '.join(known) or 'none'}",
        code="unknown_service",
    )


def _check_component(view: FleetView, service: str, component: str) -> None:
    known = [part.name for part in view.applied.service(service).components]
    if component not in known:
        raise Invalid(
            f"{service} has no component {component!r}",
            remedy=hint(component, known) + f"components are: {', '.join(known)}",
            code="unknown_component",
        )


def pinned(view: FleetView, node: str, args: Namespace) -> Pinned:
    """The issuing certificate comes from the node's report; the digest in the signed revision proves it."""
    entry = view.applied.table.entries[f"node.{node}"]
    issuer = issuers.issuer_of(view.nodes[node])
    declared = _declared(view.applied, node)
    if not issuer or declared is None:
        raise Conflict(
            f"{node} has not reported its certificate yet, so its identity cannot be verified",
            remedy=f"repeat it after its next report; `holdfast node show {node}{repeated(args)}` shows its age",
            code="not_pinned",
        )
    if entry.identity is UNSET or canonical.digest(issuer) != entry.identity.issuer:
        raise Conflict(
            f"revision {view.applied.head.number} does not pin the issuing certificate that {node} has now",
            remedy=f"`holdfast apply{repeated(args)}` pins it; then repeat the command",
            code="not_pinned",
        )
    return Pinned(node, issuer, listener_name(node, declared.roles, view.applied.fleet().settings))


def _declared(applied: Applied, node: str) -> Node | None:
    try:
        return applied.node(node)
    except HoldfastError:
        return None
