"""The needs of the applied revision, each with what the node of its service reports about it."""

from typing import Any

from msgspec import UNSET, Struct

from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.nodes.show_report import origin
from holdfast.cli.timestamps import rfc3339
from holdfast.model.fleet import Service
from holdfast.model.need import Need, NeedState, NeedStates, Want
from holdfast.model.verified_report import VerifiedReport


class NeedView(Struct, frozen=True):
    """`said` is None if its node does not report it; then `why` says what is missing."""

    service: str
    need: Need
    want: Want
    node: str
    said: NeedState | None
    why: str
    one: VerifiedReport | None

    @property
    def state(self) -> str:
        return self.said.state if self.said is not None else "waiting"

    @property
    def verified(self) -> bool:
        return self.said is not None and self.one is not None and self.one.verified


def views(view: FleetView) -> list[NeedView]:
    found = []
    for name, entry in sorted(view.applied.table.of_kind("service").items()):
        if not entry.wants:
            continue
        service, node = view.applied.service(name), entry.node if entry.node is not UNSET else ""
        one = view.nodes.get(node)
        for need in service.needs:
            if need.name in entry.wants:
                want = entry.wants[need.name]
                said = _said(one, name, need.name, want)
                why = said.why if said is not None else _unsaid(service, node, one)
                found.append(NeedView(name, need, want, node, said, why, one))
    return found


def _said(one: VerifiedReport | None, service: str, name: str, want: Want) -> NeedState | None:
    """About the need as it is applied: a report from before a change says nothing about it."""
    section = one.section(NeedStates) if one is not None else None
    meant = (service, name, want.type, want.provider)
    states = section.needs if section is not None else ()
    return next((one for one in states if (one.service, one.name, one.type, one.provider) == meant), None)


def _unsaid(service: Service, node: str, one: VerifiedReport | None) -> str:
    if not node or one is None:
        return "the service is not placed on a node"
    if not service.active:
        return "the service is not active"
    if not one.view.joined:
        return f"{node} has not joined yet"
    return f"{node} has not said anything about it yet"


# ---- for programs


def document(one: NeedView) -> dict[str, Any]:
    said = one.said
    return {
        "service": one.service,
        "name": one.need.name,
        "type": one.want.type,
        "provider": one.want.provider,
        "state": one.state,
        "node": one.node or None,
        "why": one.why,
        "required": one.need.required,
        "generation": said.generation if said is not None else 0,
        "since": _time(said.since_s if said is not None else 0.0),
        "until": _time(said.until_s if said is not None else 0.0),
        "tries": said.tries if said is not None else 0,
        "next": _time(said.next_s if said is not None else 0.0),
        "verified": one.verified,
        "age_s": round(one.one.age_s, 3) if one.said is not None and one.one is not None else None,
    }


def _time(seconds: float) -> str | None:
    return rfc3339(seconds) if seconds else None


def reported_by(one: NeedView) -> str:
    return origin(one.one) if one.one is not None else "not placed"
