"""Every copy of a service that verified reports name: running, stopped or retired data. Pure."""

from collections.abc import Mapping

from msgspec import Struct

from holdfast.model.applied import Applied
from holdfast.model.report import Report
from holdfast.model.verified_report import VerifiedReport


class Copy(Struct, frozen=True):
    service: str
    node: str
    epoch: int
    state: str  # running, stopped, retired


def copies(nodes: Mapping[str, VerifiedReport], applied: Applied) -> list[Copy]:
    found = []
    for node, one in sorted(nodes.items()):
        if one.report is not None and not one.is_old:
            found += _live(node, one.report, applied)
            found += _retired(node, one.report, applied)
    return sorted(found, key=lambda copy: (copy.service, copy.node))


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


def _retired(node: str, report: Report, applied: Applied) -> list[Copy]:
    graves = applied.table.tombstones
    return [
        Copy(data.name, node, grave.epoch if (grave := graves.get(f"service.{data.name}")) else 0, "retired")
        for data in report.retired
        if not data.purge
    ]
