"""Views of members: one for clients, one for the planner. Pure."""

from typing import Literal

from holdfast.hub.nodes import health
from holdfast.hub.nodes.member import Member
from holdfast.model.node_view import NodeView
from holdfast.model.observation import NodeObservation


def silent_s(member: Member, last_s: float | None, loop_s: float, now_s: float) -> float | None:
    """Seconds since its last check-in with this process, else since the last pulse in the ledger; None: never."""
    if last_s is not None:
        return max(0.0, loop_s - last_s)
    return max(0.0, now_s - member.newest.at_s) if member.pulse is not None else None


def view(member: Member, loop_s: float, now_s: float) -> NodeView:
    heard = member.heard_s is not None
    last_s = member.heartbeat_s if member.heartbeat_s is not None else member.heard_s
    age_s = silent_s(member, last_s, loop_s, now_s)
    status = health.shown(member.condition, heard) if member.joined else "unknown"
    return NodeView(
        member.name,
        member.roles,
        status,
        member.address,
        None if age_s is None else round(age_s, 3),
        member.joined,
        member.revocation is not None,
        member.key,
        member.pulse,
        member.report_bytes,
        member.record.enrolment if member.record is not None and member.record.key == member.key else None,
        member.revocation,
        round(member.skew_s, 3),
        member.condition.since_s,
    )


def observation(member: Member, loop_s: float, now_s: float) -> NodeObservation:
    """What placement may know (M-56). A node that never joined counts like a node without observations."""
    if not member.joined or member.condition.status == "unknown":
        return NodeObservation(member.name)
    shown = health.shown(member.condition, member.heard_s is not None)
    seen_at_s = now_s - (loop_s - member.heard_s) if member.heard_s is not None else 0.0
    status: Literal["healthy", "unhealthy"] = "unhealthy" if shown == "unhealthy" else "healthy"
    return NodeObservation(member.name, status, member.facts.containers, round(seen_at_s, 3))
