"""What the keys of nodes are, as far as it is proven to this command line: a hub's word alone changes no table."""

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.checkin import NodesAnswer, NodeView
from holdfast.model.report import PULSE_NAMESPACE, Pulse, Report
from holdfast.model.revision import NodeIdentity
from holdfast.trust import enrolment, own_signature


class Identities(Struct, frozen=True):
    """`doubts` are for people: what the hub said and did not prove."""

    proven: dict[str, NodeIdentity] = {}
    revoked: frozenset[str] = frozenset()
    doubts: tuple[str, ...] = ()


def identities(answer: NodesAnswer, applied: Applied) -> Identities:
    proven: dict[str, NodeIdentity] = {}
    revoked: set[str] = set()
    doubts: list[str] = []
    for view in answer.nodes:
        entry = applied.table.entries.get(f"node.{view.name}")
        if entry is None:
            continue  # a node exists if and only if it is applied (C-10)
        known = None if entry.identity is UNSET else entry.identity
        try:
            if key := _revoked(view, applied):
                revoked.add(key)
            if known is not None and known.key in revoked:
                known = None
            if (found := _proven(view, known, applied)) is not None:
                proven[view.name] = replace(found, issuer=_issuer(view, found.key, applied) or found.issuer)
        except HoldfastError as trouble:
            doubts.append(f"node.{view.name}: what the hub says of its key is not proven: {trouble.message}")
    return Identities(proven, frozenset(revoked), tuple(doubts))


def _revoked(view: NodeView, applied: Applied) -> str:
    if view.revocation is None:
        return ""
    statement = enrolment.verify_revocation(view.revocation, applied.fleet_id, applied.trust)
    return statement.key if statement.node == view.name else ""


def _proven(view: NodeView, known: NodeIdentity | None, applied: Applied) -> NodeIdentity | None:
    """The recorded key itself, or one that an operator's invite leads to; it replaces a recorded one only if the
    invite says so, or an enrolment of long ago could bring a key back."""
    if view.enrolment is None:
        return known
    found = enrolment.prove(view.enrolment, applied.fleet_id, applied.trust)
    if found.joining.node != view.name:
        return known
    if known is not None and (found.joining.key == known.key or not found.invite.replaces):
        return known
    return NodeIdentity(found.joining.key)


def _issuer(view: NodeView, key: str, applied: Applied) -> str:
    """Digest of the issuing certificate, from a report that the node's key signed for; "" if it said none."""
    if view.pulse is None or not view.report:
        return ""
    own_signature.verify(view.pulse.pulse, view.pulse.signature, PULSE_NAMESPACE, key)
    try:
        pulse = msgspec.json.decode(view.pulse.pulse, type=Pulse)
        report = msgspec.json.decode(view.report, type=Report)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    if pulse.report != canonical.digest(view.report) or (pulse.fleet, pulse.node) != (applied.fleet_id, view.name):
        return ""
    return canonical.digest(report.issuer) if report.issuer and report.node == view.name else ""
