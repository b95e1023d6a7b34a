"""Every copy of a service that verified reports name: running, stopped, or data that its service left there. Pure."""

from collections.abc import Mapping

from msgspec import UNSET, Struct

from holdfast.model.applied import Applied
from holdfast.model.report import Report, RetiredData
from holdfast.model.verified_report import VerifiedReport


class Copy(Struct, frozen=True, omit_defaults=True):
    """`target`, `digest`, `left_s`: of a superseded or fenced copy, the node that has the service instead, the manifest
    that was handed over or the backup that it began with there, and when that was here."""

    service: str
    node: str
    epoch: int
    state: str  # running, stopped, superseded, fenced, retired
    target: str = ""
    digest: str = ""
    left_s: float | None = None


def copies(nodes: Mapping[str, VerifiedReport], applied: Applied) -> list[Copy]:
    found = []
    for node, one in sorted(nodes.items()):
        if one.report is not None and not one.is_old:
            found += _live(node, one.report, applied)
            found += [left(node, data, applied) for data in one.report.retired if not data.purge]
    return sorted(found, key=lambda copy: (copy.service, copy.node))


def stale(nodes: Mapping[str, VerifiedReport], applied: Applied) -> list[Copy]:
    """Of services that run elsewhere."""
    return [copy for copy in copies(nodes, applied) if is_stale(copy) and home(copy.service, applied)]


def is_stale(copy: Copy) -> bool:
    """Another node went on with the service."""
    return copy.state in ("superseded", "fenced")


def home(service: str, applied: Applied) -> str:
    """The node that has the service now; "" if it is removed. `target` of a copy is older: it may have moved again."""
    entry = applied.table.entries.get(f"service.{service}")
    return entry.node if entry is not None and entry.node is not UNSET else ""


def _live(node: str, report: Report, applied: Applied) -> list[Copy]:
    placed = {name: entry for name, entry in applied.table.of_kind("service").items() if entry.node == node}
    here = {container.service for container in report.containers}
    here |= {state.service for state in report.services if state.service in placed}
    found = []
    for service in here:
        mine = [container for container in report.containers if container.service == service]
        runs = any(container.status in ("running", "unhealthy") for container in mine)
        declared = placed[service].epoch if service in placed else 0
        epoch = max((container.epoch for container in mine), default=declared)
        found.append(Copy(service, node, epoch, "running" if runs else "stopped"))
    return found


def left(node: str, data: RetiredData, applied: Applied) -> Copy:
    """An agent of an earlier release does not say which epoch its data is of."""
    entry = applied.table.entries.get(f"service.{data.name}")
    grave = applied.table.tombstones.get(f"service.{data.name}")
    epoch = data.epoch or (grave.epoch if grave is not None else 0)
    if data.state != "fenced" or entry is None or entry.node is UNSET:
        return Copy(data.name, node, epoch, data.state or "retired", data.target, data.digest, data.left_s or None)
    backup = entry.move.backup if entry.move is not UNSET and entry.move.source == node else ""
    return Copy(data.name, node, epoch, data.state, entry.node, backup, data.left_s or None)
