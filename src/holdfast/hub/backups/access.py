"""Who may read and write the objects of a service's backups, by the applied revision. Pure."""

from collections.abc import Callable, Sequence

from msgspec import UNSET

from holdfast.errors import HoldfastError, Invalid, NotPermitted
from holdfast.model import backup_key
from holdfast.model.applied import Applied
from holdfast.model.backup_key import FLEET_DIGITS
from holdfast.model.principal import Principal
from holdfast.model.trust import outside_scope
from holdfast.ports.backup_target import StoredObject

Ordered = Callable[[str, str], bool]  # has this node a signed order to restore this service?


def keeps(applied: Applied, node: str, service: str) -> bool:
    """The node runs the service, or is its standby, or hands its data over: its own manifest has the service. Or it is
    the node itself."""
    if named := backup_key.node_of(service):
        return named == node and service in applied.table.entries
    entry = applied.table.entries.get(f"service.{service}")
    if entry is None:
        return False
    is_source = entry.move is not UNSET and entry.move.hands_over and entry.move.source == node
    return node == entry.node or node in entry.failover or is_source


def nodes_with_services(applied: Applied) -> set[str]:
    entries = applied.table.of_kind("service").values()
    return {entry.node for entry in entries if entry.node is not UNSET}


def check_fleet(applied: Applied | None, fleet: str) -> Applied:
    if applied is None or applied.fleet_id[:FLEET_DIGITS] != fleet:
        raise not_found()
    return applied


def check_write(applied: Applied, principal: Principal, service: str) -> None:
    if not keeps(applied, principal.name, service):
        raise NotPermitted(
            f"{principal} may not store backups of {service}: it does not run there",
            remedy="docs/reference/permissions.md shows who may do what; a move is complete when it is applied",
            code="not_your_service",
        )


def check_read(applied: Applied, principal: Principal, service: str, ordered: Ordered) -> None:
    """For a node, what is another's does not exist (D8), unless it has an order to restore that. `service` is "" for
    the whole fleet."""
    if principal.kind == "node":
        if not keeps(applied, principal.name, service) and not ordered(principal.name, service):
            raise not_found()
        return
    trouble = _outside(applied, principal, service)
    if trouble is not None:
        raise trouble


def readable(applied: Applied, principal: Principal, found: Sequence[StoredObject]) -> list[StoredObject]:
    """Those of a whole fleet that the caller may read: a scope of all services has no node in it."""
    nodes = {service for one in found if backup_key.node_of(service := backup_key.service_of(one.key))}
    hidden = {service for service in nodes if _outside(applied, principal, service) is not None}
    return [one for one in found if backup_key.service_of(one.key) not in hidden]


def _outside(applied: Applied, principal: Principal, service: str) -> HoldfastError | None:
    operator = next((one for one in applied.trust.operators if one.name == principal.name), None)
    if operator is None:
        return not_found()
    address = backup_key.address(service) if service else "service.*"
    if outside_scope(operator, (address,)) is None:
        return None
    return NotPermitted(
        f"{principal} may not read backups of {service or 'all services'}: that is outside of the operator's scope",
        remedy="ask an operator whose scope covers the service",
        code="out_of_scope",
    )


def not_found() -> Invalid:
    return Invalid(
        "there is no such backup object for this caller",
        remedy="list the objects of a service first: GET /v1/backup-objects/list",
        code="not_found",
    )
