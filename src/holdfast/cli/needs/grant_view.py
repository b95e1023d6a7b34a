"""The credentials that nodes gave, as they report it."""

from typing import Any

from msgspec import UNSET, Struct

from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.timestamps import rfc3339
from holdfast.model.duration import aged
from holdfast.model.need import GrantState, GrantStates
from holdfast.model.verified_report import VerifiedReport

DAY_S = 86_400.0


class GrantView(Struct, frozen=True):
    """`declared`: the applied revision still has the need for that node."""

    provider: str
    said: GrantState
    one: VerifiedReport
    declared: bool


def views(view: FleetView) -> list[GrantView]:
    found = []
    for provider, one in sorted(view.nodes.items()):
        section = one.section(GrantStates)
        for said in section.grants if section is not None else ():
            found.append(GrantView(provider, said, one, is_declared(view, provider, said)))
    return sorted(found, key=lambda one: (one.said.service, one.said.need, one.said.node, one.said.generation))


def is_told(one: VerifiedReport) -> bool:
    """It says now, in a form that can be read, what it gave."""
    return one.verified and one.section(GrantStates) is not None


def is_declared(view: FleetView, provider: str, said: GrantState) -> bool:
    entry = view.applied.table.entries.get(f"service.{said.service}")
    want = entry.wants.get(said.need) if entry is not None else None
    return entry is not None and want is not None and (entry.node, want.provider) == (said.node, provider)


def note(one: GrantView) -> str:
    """When it goes, or why it stays although nothing declares it."""
    said = one.said
    if said.why:
        return f"goes now: {said.why}"
    if said.goes_s is not UNSET:
        return f"unused: goes in {_lasting(said.goes_s)}"
    if said.state == "disabled":
        return f"refused by the server: {said.service} has moved"
    if not one.declared:
        return f"not declared any more: goes when {said.node} has said for the whole grace that it does not use it"
    return ""


def _lasting(seconds: float) -> str:
    return f"{seconds / DAY_S:.0f} days" if seconds >= 2 * DAY_S else aged(seconds)


# ---- for programs


def document(one: GrantView) -> dict[str, Any]:
    said = one.said
    return {
        "service": said.service,
        "need": said.need,
        "node": said.node,
        "provider": one.provider,
        "type": said.type,
        "handle": said.handle,
        "state": said.state,
        "generation": said.generation,
        "epoch": said.epoch,
        "issued": rfc3339(said.issued_s) if said.issued_s else None,
        "goes_s": said.goes_s if said.goes_s is not UNSET else None,
        "why": said.why,
        "declared": one.declared,
        "verified": one.one.verified,
        "age_s": round(one.one.age_s, 3),
    }
