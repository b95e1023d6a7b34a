"""The final output of an applying command: text, JSON, and the error if something failed."""

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from holdfast.cli.flags import repeated
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.waiting import receipts
from holdfast.cli.waiting.outcome import Outcome
from holdfast.errors import Failed, HoldfastError, SignatureRequired, Unreachable
from holdfast.model.deployment import StepResult
from holdfast.model.plan import Plan
from holdfast.model.revision import Head, decode_table
from holdfast.ports.hub_link import HubReader
from holdfast.status.blockers import Blocker
from holdfast.status.dns import DnsObserved
from holdfast.status.edges import settled as edge_settled
from holdfast.status.edges.settled import EdgeObserved
from holdfast.status.moves import MoveObserved
from holdfast.status.services import settled as service_settled
from holdfast.status.services.settled import Observed

NAMED_MAX = 5


# ---- for programs


def document(outcome: Outcome) -> dict[str, Any]:
    """Edges and DNS names appear once, with the service they belong to."""
    services, told = [], set()
    for one in outcome.services:
        edges = [_edge(edge) for edge in outcome.edges if edge.service == one.service and one.service not in told]
        services.append(_service(one) | {"edge": edges, "dns": _dns(outcome.dns)})
        told.add(one.service)
    return {
        "receipts": msgspec.to_builtins(outcome.receipts),
        "services": services,
        **({"moves": [_move(one) for one in outcome.moves]} if outcome.moves else {}),
        "success": trouble(outcome, None, None) is None,
    }


def _move(one: MoveObserved) -> dict[str, Any]:
    return {
        "service": one.service,
        "from": one.source or None,
        "to": one.target,
        "phase": one.phase,
        "step": one.step,
        "message": one.message,
        "remedy": one.remedy,
        "steps": [{"node": node, **_steps([step])[0]} for node, step in one.steps],
    }


def _service(one: Observed) -> dict[str, Any]:
    """Every key, also if empty: scripts rely on them."""
    return {"service": one.service, "node": one.node, **_progress(one)}


def _edge(one: EdgeObserved) -> dict[str, Any]:
    return {
        "hostname": one.hostname,
        "edge": one.edge,
        **_progress(one),
        "expires": rfc3339(one.expires_s) if one.expires_s else None,
    }


def _progress(one: Observed | EdgeObserved) -> dict[str, Any]:
    return {
        "phase": one.phase,
        "step": one.step,
        "code": one.code,
        "message": one.message,
        "remedy": one.remedy,
        "steps": _steps(one.steps),
    }


def _dns(dns: DnsObserved) -> dict[str, Any]:
    nodes = [{"node": one.node, "phase": one.phase, "message": one.message} for one in dns.nodes]
    return {"phase": dns.phase, "nodes": nodes}


def _steps(steps: Sequence[StepResult]) -> list[dict[str, Any]]:
    return [
        {"name": s.name, "outcome": s.outcome, "at": rfc3339(s.at_s), "took_s": s.took_s, "message": s.message}
        for s in steps
    ]


# ---- for people


def told(outcome: Outcome) -> list[str]:
    lines = receipts.lines(outcome.receipts)
    groups: dict[str, list[str]] = {}
    for move in outcome.moves:
        if move.phase == "arrived":
            begun = f"from {move.source} " if move.source else "with its backup "
            groups.setdefault("moved", []).append(f"{move.service} {begun}to {move.target}")
    carried = {edge.hostname for edge in outcome.edges if edge.node}  # by any service, on any edge
    for one in outcome.services:
        if one.phase in ("converged", "held", "retired"):
            groups.setdefault(one.phase, []).append(f"{one.service} on {one.node}")
        elif one.phase == "unknown" and one.node not in outcome.receipts.not_joined:
            lines.append(f"Not waiting for {one.service}: {one.message}")
    for edge in outcome.edges:
        if edge.phase == "live":
            groups.setdefault("public", []).append(f"https://{edge.hostname}/ on {edge.edge}")
        elif edge.phase == "gone" and edge.hostname not in carried:
            groups.setdefault("no longer public", []).append(f"{edge.hostname} on {edge.edge}")
        elif edge.phase == "unknown" and edge.edge not in outcome.receipts.not_joined:
            lines.append(f"Not waiting for {edge.hostname}: {edge.message}")
    lines += [f"{phase[:1].upper()}{phase[1:]}: {_named(names)}." for phase, names in groups.items()]
    return lines + [_leads_elsewhere(edge) for edge in outcome.edges if edge.public_dns]


def interrupted(head: Head, plan: Plan, args: Namespace) -> str:
    """After Ctrl-C while a command waits."""
    return (
        f"Stopped watching. Revision {head.number} is applied; its rollout continues. The same command follows it"
        + (f"; to undo it: holdfast {undoing}{repeated(args)}" if (undoing := _undoing(plan)) else "")
    )


def _undoing(plan: Plan) -> str:
    """A rollback removes what this plan creates, and needs their number for that. It moves no data: a handover is taken
    back, and nothing undoes a move that gave a copy up."""
    moved = [change.address for change in plan.changes if change.kind == "move"]
    entries = decode_table(plan.candidate.table).entries if moved and plan.candidate is not None else {}
    for name in moved:
        if (move := entries[name].move) is not UNSET:
            return f"migrate {name.removeprefix('service.')} --abort" if move.hands_over and not move.back else ""
    created = [change.address for change in plan.changes if change.kind == "create"]
    others = [change for change in plan.changes if change.kind != "create" and not change.address.startswith("node.")]
    if len(created) == 1 and not others and created[0].startswith("service."):
        return f"undeploy {created[0].removeprefix('service.')}"
    return "rollback" + (f" --allow-removals {len(created)}" if created else "")


def _leads_elsewhere(edge: EdgeObserved) -> str:
    """M-80: public DNS records are made outside Holdfast, so nothing waits for them."""
    return f"Warning: public DNS does not point {edge.hostname} to {edge.edge}: {edge.public_dns}"


# ---- as an error


def trouble(outcome: Outcome, head: Head | None, hub: HubReader | None) -> HoldfastError | None:
    """The most severe failure; None if everything worked. `hub` is asked for the way back if a service failed."""
    is_applied = f"revision {head.number} is applied, but " if head is not None else ""
    stuck = [one for one in outcome.moves if one.phase != "arrived" and one.message]
    if stuck:
        return _not_moved(stuck[0], is_applied)
    failed = service_settled.failures(outcome.services)
    if failed:
        return _failed(failed, head, hub)
    under_way = {one.service for one in outcome.services if not one.is_settled}
    closed = [one for one in edge_settled.failures(outcome.edges) if one.service not in under_way]
    if closed:
        return _not_public(closed, outcome.services, is_applied)
    if outcome.dns.phase == "failed" and not under_way:
        return _not_named(outcome.dns, outcome.services, is_applied)
    parked = [one for one in outcome.services if one.phase == "parked"]
    if parked:
        first = parked[0]
        text = f"{is_applied}{first.node} parked {first.service} until an operator acts: {first.message}"
        return SignatureRequired(text, remedy=first.remedy, code="needs_operator")
    if outcome.receipts.missing:
        return _explained(receipts.missing(outcome.receipts, is_applied), outcome.hindrances)
    late = _late(outcome, is_applied)
    return _explained(late, outcome.hindrances) if late is not None else None


def _explained(trouble: Unreachable, found: Sequence[Blocker]) -> Unreachable:
    """Add what the nodes report; their remedies come first."""
    if not found:
        return trouble
    said = _joined([f"{one.node}: {_below(one.message)}" for one in found])
    own = "; ".join(dict.fromkeys(one.remedy for one in found[:NAMED_MAX] if one.remedy))
    remedy = f"{own}; {trouble.remedy}" if own else trouble.remedy
    return Unreachable(f"{trouble.message}; {said}", remedy=remedy, code=trouble.code)


def _late(outcome: Outcome, is_applied: str) -> Unreachable | None:
    late = [f"{one.service} ({one.doing})" for one in outcome.moves if one.phase != "arrived"]
    late += [_where(one) for one in outcome.services if not one.is_settled]
    if not outcome.dns.is_settled:
        late += [_asked(one.node, one.message) for one in outcome.dns.those("waiting")]
    late += [_carried(edge) for edge in outcome.edges if not edge.is_settled or edge.has_failed]
    if not late:
        return None
    return Unreachable(
        f"{is_applied}these are not ready yet (see [timeouts]): {_named(late)}",
        remedy="nothing needs to be applied again; `holdfast status` shows the progress",
        code="not_settled",
    )


def _failed(failed: Sequence[Observed], head: Head | None, hub: HubReader | None) -> Failed:
    from holdfast.cli.waiting import way_back  # it plans

    first = failed[0]
    back = way_back.found(hub, first.service, is_down=first.serves == "nothing")
    own = first.remedy or f"`holdfast logs {first.service}` shows its output"
    recorded = f"; revision {head.number} stays recorded" if head is not None else ""
    return Failed(
        f"{_joined([_why(one) for one in failed])}{recorded}",
        remedy=own if "holdfast rollback" in own or not back.remedy else f"{own}; {back.remedy}",
        code="rollout_failed",
    )


def _not_moved(one: MoveObserved, is_applied: str) -> Failed:
    serves = f"; it runs on {one.source} until then" if one.source and not one.handed_over else ""
    back = f"; to take the move back: holdfast migrate {one.service} --abort" if "--abort" not in one.remedy else ""
    return Failed(
        f"{is_applied}{one.service} has not arrived on {one.target}: step {one.step or 'receive'!r} on {one.node}: "
        f"{_below(one.message)}{serves}",
        remedy=f"{one.remedy or 'holdfast status'}; the nodes go on trying, and the same command follows them{back}",
        code="move_failed",
    )


def _not_public(closed: Sequence[EdgeObserved], services: Sequence[Observed], is_applied: str) -> Failed:
    """M-83: the service runs, but is not reachable from outside; no finished step is repeated."""
    first = closed[0]
    own = first.remedy or f"holdfast edge status {first.hostname}"
    serve = {(one.service, one.node) for one in services if one.phase == "converged"}
    return Failed(
        f"{is_applied}{_joined([_why_closed(one, (one.service, one.node) in serve) for one in closed])}",
        remedy=f"{own}; then `holdfast deploy {first.service}` (or sync) continues",
        code="dns_failed" if first.phase == "skipped" else "edge_route_failed",
    )


def _why_closed(one: EdgeObserved, serves: bool) -> str:
    why = f": {_below(one.message)}" if one.message else ""
    so_far = f"runs on {one.node} and " if serves else ""
    return f"{one.service} {so_far}is not public: edge {one.edge} {one.hostname}: step {one.step!r} failed{why}"


def _not_named(dns: DnsObserved, services: Sequence[Observed], is_applied: str) -> Failed:
    broken = dns.those("failed")
    said = _joined([f"{one.node}: {_below(one.message)}" for one in broken])
    again = f"`holdfast deploy {services[0].service}` (or sync)" if services else "`holdfast sync`"
    return Failed(
        f"{is_applied}step 'dns' failed: {said}; the service is running, but its name does not resolve on "
        f"{', '.join(one.node for one in broken)}",
        remedy=f"`holdfast node show {broken[0].node}` shows more; then {again} continues",
        code="dns_failed",
    )


def _why(one: Observed) -> str:
    step = f"step {one.step!r} failed" if one.step else "the rollout failed"
    why = f": {_below(one.message)}" if one.message else ""
    if one.code == service_settled.ILL:
        return f"{one.service} was deployed on {one.node} and does not work{why}"
    if one.phase == "failed":
        if one.serves == "nothing":
            return f"{one.service} was not deployed on {one.node}: {step}{why}; no version serves"
        still = f"does not work: {one.ails}" if one.ails else "keeps serving"
        return f"{one.service} was not updated on {one.node}: {step}{why}; {one.serves} {still}"
    broken = next((s for s in one.steps if s.outcome == "failed"), None)
    said = f" {broken.name!r}: {_below(broken.message)}" if broken is not None else ""
    return f"{one.service} runs on {one.node}, but a step failed:{said}"


def _below(words: str) -> str:
    """Indent every line: a message may contain log lines, which must not imitate lines of this command."""
    return words.rstrip().replace("\n", "\n    ")


def _where(one: Observed) -> str:
    return f"{one.service} on {one.node}" + (f" (step {one.step!r})" if one.step else "")


def _asked(node: str, message: str) -> str:
    return f"DNS names on {node}" + (f" ({_below(message)})" if message else "")


def _carried(one: EdgeObserved) -> str:
    step = f" (step {one.step!r})" if one.step else ""
    return f"edge {one.edge} {one.hostname}{step}" + (", not public yet" if one.node else ", not removed yet")


def _joined(said: Sequence[str]) -> str:
    more = f"; and {len(said) - NAMED_MAX} more" if len(said) > NAMED_MAX else ""
    return "; ".join(said[:NAMED_MAX]) + more


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED_MAX]) + (f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else "")
