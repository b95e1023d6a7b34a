"""What `holdfast status` shows: lines for people and a document for programs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from holdfast.cli.backups import hub_copies, proofs
from holdfast.cli.edges.edge_list import expires
from holdfast.cli.hub_target import UNSERVED
from holdfast.cli.nodes.node_list import describe
from holdfast.cli.services.copies import Copy, copies, home, stale
from holdfast.model.applied import Applied
from holdfast.model.duration import aged
from holdfast.model.hub_status import HubStatus, StatusFinding
from holdfast.model.verified_report import VerifiedReport
from holdfast.planning.protection import Unprotected, Why, unprotected
from holdfast.status import backup_copies, moves
from holdfast.status.edges import views as edge_views
from holdfast.status.edges.views import EdgeView
from holdfast.status.moves import MoveObserved

VOLUMES_SHOWN = 10  # --json has all of them


class Shown(Struct, frozen=True):
    found: HubStatus
    applied: Applied | None
    nodes: dict[str, VerifiedReport]
    ready: bool


def document(shown: Shown, findings: list[StatusFinding]) -> dict[str, Any]:
    applied, nodes = shown.applied, shown.nodes
    found: dict[str, Any] = msgspec.to_builtins(shown.found)
    found["findings"] = [finding_of(finding) for finding in findings]
    found["nodes"] = [describe(nodes[name], applied) for name in sorted(nodes)] if applied is not None else []
    found["services"] = _services(nodes, applied) if applied is not None else []
    found["copies"] = msgspec.to_builtins(copies(nodes, applied)) if applied is not None else []
    found["moves"] = [_move(one) for one in _moves(nodes, applied)] if applied is not None else []
    found["ready"] = shown.ready
    volumes = _volumes(nodes, applied) if applied is not None else ()
    found["unprotected"] = msgspec.to_builtins(volumes)
    found["backups"] = proofs.documents(applied, nodes) if applied is not None else []
    found["hub_file"] = hub_copies.documents(applied, nodes) if applied is not None else []
    found["only_copy_at_hub"] = backup_copies.only_at_hub(nodes, applied) if applied is not None else []
    return found


def lines(shown: Shown, running: bool, now_s: float) -> Iterator[str]:
    """`running`: by a hub, which knows nodes; a ledger directory does not."""
    found, applied, nodes = shown.found, shown.applied, shown.nodes
    yield _served(found)
    if found.head != found.serving:
        yield f"The ledger holds revision {found.head.number}; the hub serves it after a restart."
    if not running:
        yield UNSERVED
    if nodes and running:
        yield _summary(nodes, shown.ready)
    if applied is not None and (public := edge_views.views(applied, nodes)):
        yield _public(public)
    if applied is not None:
        yield from proofs.lines(applied, nodes, now_s)
    if applied is not None and nodes and running:
        yield from hub_copies.lines(applied, nodes, now_s)
    if applied is not None and (volumes := _volumes(nodes, applied)):
        yield from _unprotected(volumes)
    if applied is not None:
        yield from (f"Moving: {one.words}" for one in _moves(nodes, applied))
    if applied is not None and (moved := stale(nodes, applied)):
        listed = _few([_words(one, applied) for one in moved])
        yield f"Copies of services that run elsewhere: {listed}; holdfast retired"
    if applied is not None and (only := backup_copies.only_at_hub(nodes, applied)):
        yield f"Services whose backups have their only copy at the hub: {_few(only)}; [[storage]] adds another place"


def _moves(nodes: dict[str, VerifiedReport], applied: Applied) -> list[MoveObserved]:
    return [moves.judge(one, nodes) for one in moves.under_way(applied.table, nodes)]


def _move(one: MoveObserved) -> dict[str, Any]:
    """Every key, also if empty: scripts rely on them."""
    return {
        "service": one.service,
        "from": one.source or None,
        "to": one.target,
        "node": one.node,
        "step": one.step,
        "note": one.note,
        "done_bytes": one.done_bytes,
        "total_bytes": one.total_bytes,
        "handed_over": one.handed_over,
        "message": one.message,
    }


def _services(nodes: dict[str, VerifiedReport], applied: Applied) -> list[dict[str, Any]]:
    """M-44: where each service is, and which edges carry its hostnames."""
    routes = edge_views.edge_routes(applied, nodes)
    return [
        {
            "name": name,
            "node": entry.node if entry.node is not UNSET else None,
            "edge_routes": edge_routes(routes, name),
        }
        for address, entry in sorted(applied.table.entries.items())
        if (name := address.removeprefix("service.")) != address
    ]


def edge_routes(routes: dict[str, list[EdgeView]], service: str) -> list[dict[str, Any]]:
    return [
        {"hostname": one.hostname, "edge_node": one.edge, "cert_expires": expires(one), "status": one.status}
        for one in routes.get(service, [])
    ]


def finding_of(finding: StatusFinding) -> dict[str, Any]:
    """Every key, also if empty: scripts rely on them."""
    return {
        "code": finding.code,
        "level": finding.level,
        "message": finding.message,
        "remedy": finding.remedy,
        "address": finding.address,
        "age_s": finding.age_s,
    }


def since(finding: StatusFinding) -> str:
    what = "unhealthy for" if finding.code == "node_unhealthy" else "for"
    return f" ({what} {aged(finding.age_s)})" if finding.age_s >= 1 else ""


def _served(found: HubStatus) -> str:
    counted = {kind: count for kind, count in sorted(found.resources.items()) if kind not in ("fleet", "trust")}
    kinds = (
        ", ".join(f"{count} {kind}{'s' * (count != 1)}" for kind, count in counted.items()) or "no nodes or services"
    )
    source = "" if found.source == "ledger" else f" (from {found.source})"
    return f"Revision {found.serving.number} is applied{source}: {kinds}."


_UNPROTECTED: Mapping[Why, str] = {
    "no_backup": "Volumes without a backup yet (holdfast backup list)",
    "same_machine": "Volumes whose backups are on the same machine only, and count as none",
    "outside": "Host paths outside the directory of their service, which no backup holds",
    "declared": "Volumes that no backup holds, as declared",
    "partial": "Host paths of which backups hold *.toml, *.db and *.pem only",
}


def _unprotected(found: Sequence[Unprotected]) -> Iterator[str]:
    for why, text in _UNPROTECTED.items():
        mine = [f"{one.service}/{one.volume}" for one in found if one.why == why]
        if mine:
            yield f"{text}: {_few(mine)}"


def _few(names: Sequence[str]) -> str:
    more = [f"{len(names) - VOLUMES_SHOWN} more"] if len(names) > VOLUMES_SHOWN else []
    return ", ".join([*names[:VOLUMES_SHOWN], *more])


def _words(copy: Copy, applied: Applied) -> str:
    now = home(copy.service, applied)
    return f"{copy.service} on {copy.node} ({copy.state}, epoch {copy.epoch}; runs on {now})"


def _volumes(nodes: Mapping[str, VerifiedReport], applied: Applied) -> tuple[Unprotected, ...]:
    return unprotected(applied, dict(backup_copies.of_fleet(nodes, applied)))


def _public(found: list[EdgeView]) -> str:
    counts: dict[str, int] = {}
    for one in found:
        counts[one.status] = counts.get(one.status, 0) + 1
    return f"Public hostnames: {', '.join(f'{n} {state}' for state, n in sorted(counts.items()))}; holdfast edge status"


def _summary(nodes: dict[str, VerifiedReport], ready: bool) -> str:
    counts: dict[str, int] = {}
    for one in nodes.values():
        counts[one.shown] = counts.get(one.shown, 0) + 1
    verified = sum(1 for one in nodes.values() if one.verified)
    warming = "" if ready else "; the hub has just started and waits for reports"
    return (
        f"Nodes: {', '.join(f'{n} {state}' for state, n in sorted(counts.items()))}; "
        f"{verified} report{'s' * (verified != 1)} verified{warming}"
    )
