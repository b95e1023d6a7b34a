"""What the keys of nodes are, as far as it is proven to this command line: a hub's word alone changes no table."""

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.checkin import NodesAnswer, NodeView
from holdfast.model.invite import Revocation
from holdfast.model.report import PULSE_NAMESPACE, Pulse, Report
from holdfast.model.revision import NodeIdentity
from holdfast.trust import enrolment, own_signature


class Identities(Struct, frozen=True):
    """`doubts` are for people: what the hub said and did not prove."""

    proven: dict[str, NodeIdentity] = {}  # key and certificate
    keys: dict[str, str] = {}  # key alone: a forged word beside it takes nothing away from that proof
    revoked: frozenset[str] = frozenset()
    doubts: tuple[str, ...] = ()
    addresses: dict[str, str] = {}  # where a node says it is, in a report that its key signed


def identities(answer: NodesAnswer, applied: Applied, now_s: float) -> Identities:
    proven: dict[str, NodeIdentity] = {}
    keys = _recorded(applied)
    revoked: set[str] = set()
    doubts: list[str] = []
    addresses: dict[str, str] = {}
    for view in answer.nodes:
        entry = applied.table.entries.get(f"node.{view.name}")
        if entry is None:
            continue  # a node exists if and only if it is applied (C-10)
        known = None if entry.identity is UNSET else entry.identity
        try:
            revocation = _revocation(view, applied)
            if revocation is not None:
                revoked.add(revocation.key)
            if known is not None and known.key in revoked:
                known = None
                del keys[view.name]
            try:
                if new := _joined(view, known, revocation, applied, now_s):
                    known, keys[view.name] = NodeIdentity(new), new
            except HoldfastError as trouble:
                doubts.append(_doubt(view, trouble))  # and what is recorded stands
            if known is not None:
                report = _reported(view, known.key, applied)
                if report is not None and report.issuer:
                    known = replace(known, issuer=canonical.digest(report.issuer), certificate=report.issuer)
                if report is not None and report.address:
                    addresses[view.name] = report.address
                proven[view.name] = known
        except HoldfastError as trouble:
            doubts.append(_doubt(view, trouble))
    return Identities(proven, keys, frozenset(revoked), tuple(doubts), addresses)


def _doubt(view: NodeView, trouble: HoldfastError) -> str:
    return f"node.{view.name}: what the hub says of its key is not proven: {trouble.message} ({trouble.remedy})"


def _recorded(applied: Applied) -> dict[str, str]:
    return {
        address[5:]: entry.identity.key
        for address, entry in applied.table.entries.items()
        if address.startswith("node.") and entry.identity is not UNSET
    }


def _revocation(view: NodeView, applied: Applied) -> Revocation | None:
    if view.revocation is None:
        return None
    statement = enrolment.verify_revocation(view.revocation, applied.fleet_id, applied.trust)
    return statement if statement.node == view.name else None


def _joined(
    view: NodeView, known: NodeIdentity | None, revocation: Revocation | None, applied: Applied, now_s: float
) -> str:
    """A key that an operator's invite leads to, and that may take the place of what is recorded; "" if none does."""
    if view.enrolment is None:
        return ""
    found = enrolment.prove(view.enrolment, applied.fleet_id, applied.trust)
    key = found.joining.key
    if found.joining.node != view.name or (known is not None and key == known.key):
        return ""
    if revocation is not None and key == revocation.key:
        return ""  # the very machine that was shut out
    enrolment.check_succeeds(
        found, known.key if known is not None else "", revocation.revoked_s if revocation is not None else None, now_s
    )
    return key


def _reported(view: NodeView, key: str, applied: Applied) -> Report | None:
    """What the node says of itself, in a report that its key signed for; None if it said none."""
    if view.pulse is None or not view.report:
        return None
    own_signature.verify(view.pulse.pulse, view.pulse.signature, PULSE_NAMESPACE, key)
    try:
        pulse = msgspec.json.decode(view.pulse.pulse, type=Pulse)
        report = msgspec.json.decode(view.report, type=Report)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if pulse.report != canonical.digest(view.report) or (pulse.fleet, pulse.node) != (applied.fleet_id, view.name):
        return None
    return report if report.node == view.name else None
