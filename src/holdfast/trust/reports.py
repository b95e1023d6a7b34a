"""Verify what a hub shows of its nodes: keys, pulses, reports. The only maker of `VerifiedReport`. Pure.

A pulse counts if the node's own key signed it, and that key is in the applied revision or proven by an operator's
invite. A report counts if such a pulse names its digest. The hub passes both on and proves neither; the age of the
newest pulse shows what a hub holds back.
"""

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.model import canonical
from holdfast.model.applied import Applied, recorded_key
from holdfast.model.cadence import NORMAL, stretched
from holdfast.model.invite import Revocation
from holdfast.model.node_view import NodesAnswer, NodeView
from holdfast.model.report import PULSE_NAMESPACE, Pulse, Report
from holdfast.model.revision import Entry, NodeIdentity
from holdfast.model.verified_report import VerifiedReport
from holdfast.trust import enrolment, own_signature

NO_HUB = "a ledger directory hears no nodes"  # a stable value of `doubt` in JSON
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Identities(Struct, frozen=True):
    """What a plan may record of nodes. `doubts`: what the hub claims and does not prove, for people."""

    proven: dict[str, NodeIdentity] = {}  # key and certificate
    revoked: frozenset[str] = frozenset()
    doubts: tuple[str, ...] = ()
    addresses: dict[str, str] = {}  # node → the address in its verified report


class Reports(Struct, frozen=True):
    """What one answer of a hub proves."""

    nodes: dict[str, VerifiedReport]  # every applied node; one that the hub leaves out is unknown
    identities: Identities


class _Key(Struct, frozen=True):
    """The proven key of one node: "" if there is none. `identity` is None where a plan must not record the key."""

    key: str = ""
    identity: NodeIdentity | None = None
    revoked: str = ""  # key that operators revoked
    doubts: tuple[str, ...] = ()


class _Checked(Struct, frozen=True):
    report: VerifiedReport
    forged: HoldfastError | None = None  # the signature of the pulse is not the node's


def verify(answer: NodesAnswer, applied: Applied, now_s: float) -> Reports:
    """Each pulse is verified once, each report decoded once. A node exists if and only if it is applied (C-10)."""
    window_s = stretched(NORMAL, len(applied.table.entries)).window_s  # there are no more nodes than entries
    views = {view.name: view for view in answer.nodes}
    nodes = {name: _left_out(name, applied, window_s) for name in _names(applied) if name not in views}
    proven: dict[str, NodeIdentity] = {}
    addresses: dict[str, str] = {}
    revoked: set[str] = set()
    doubts: list[str] = []
    for name, view in views.items():
        entry = applied.table.entries.get(f"node.{name}")
        if entry is None:
            continue
        found = _key(view, entry, revoked, applied, now_s)
        revoked |= {found.revoked} - {""}
        checked = _checked(view, found.key, applied.fleet_id, now_s, window_s)
        nodes[name] = checked.report
        doubts += found.doubts
        if found.identity is None:
            continue
        if checked.forged is not None and view.report:
            doubts.append(_doubt(view, checked.forged))
            continue
        proven[name] = _with_issuer(found.identity, checked.report.report)
        if checked.report.report is not None and checked.report.report.address:
            addresses[name] = checked.report.report.address
    ordered = {name: nodes[name] for name in _names(applied)}
    return Reports(ordered, Identities(proven, frozenset(revoked), tuple(doubts), addresses))


def none(applied: Applied) -> dict[str, VerifiedReport]:
    """For a ledger directory, which no node checks in to."""
    return {name: VerifiedReport(_unknown(name, applied), doubt=NO_HUB) for name in _names(applied)}


def _names(applied: Applied) -> list[str]:
    return list(applied.table.of_kind("node"))


def _left_out(name: str, applied: Applied, window_s: float) -> VerifiedReport:
    """The answer of the hub has no such node."""
    return _doubted(_unknown(name, applied), recorded_key(applied, name), "it has not joined yet", window_s).report


def _unknown(name: str, applied: Applied) -> NodeView:
    try:
        roles = tuple(applied.node(name).roles)
    except HoldfastError:
        roles = ()
    return NodeView(name, roles, "unknown")


# ---- keys -----------------------------------------------------------------------------------------------------------


def _key(view: NodeView, entry: Entry, revoked: set[str], applied: Applied, now_s: float) -> _Key:
    """The recorded key, unless operators revoked it or an invite of theirs leads to a newer one."""
    known = None if entry.identity is UNSET else entry.identity
    try:
        revocation = _revocation(view, applied)
    except HoldfastError as trouble:  # an unproven revocation takes nothing away, but the plan records nothing new
        return _Key(known.key if known is not None else "", None, "", (_doubt(view, trouble),))
    shut_out = revocation.key if revocation is not None else ""
    if known is not None and known.key in revoked | {shut_out}:
        known = None
    doubts: tuple[str, ...] = ()
    try:
        if new := _joined(view, known, revocation, applied, now_s):
            known = NodeIdentity(new)
    except HoldfastError as trouble:
        doubts = (_doubt(view, trouble),)  # the recorded key stays
    return _Key(known.key if known is not None else "", known, shut_out, doubts)


def _revocation(view: NodeView, applied: Applied) -> Revocation | None:
    if view.revocation is None:
        return None
    statement = enrolment.verify_revocation(view.revocation, applied.fleet_id, applied.trust)
    return statement if statement.node == view.name else None


def _joined(
    view: NodeView, known: NodeIdentity | None, revocation: Revocation | None, applied: Applied, now_s: float
) -> str:
    """A key that an operator's invite leads to, and that may replace the recorded one; "" if there is none."""
    if view.enrolment is None:
        return ""
    found = enrolment.prove(view.enrolment, applied.fleet_id, applied.trust)
    key = found.joining.key
    if found.joining.node != view.name or (known is not None and key == known.key):
        return ""
    if revocation is not None and key == revocation.key:
        return ""  # the revoked machine itself
    enrolment.check_succeeds(
        found, known.key if known is not None else "", revocation.revoked_s if revocation is not None else None, now_s
    )
    return key


def _with_issuer(identity: NodeIdentity, report: Report | None) -> NodeIdentity:
    if report is None or not report.issuer:
        return identity
    return replace(identity, issuer=canonical.digest(report.issuer), certificate=report.issuer)


def _doubt(view: NodeView, trouble: HoldfastError) -> str:
    return f"node.{view.name}: the hub does not prove its key: {trouble.message} ({trouble.remedy})"


# ---- pulses and reports ---------------------------------------------------------------------------------------------


def _checked(view: NodeView, key: str, fleet_id: str, now_s: float, window_s: float) -> _Checked:
    if view.pulse is None:
        return _doubted(view, key, "it has not reported yet" if view.joined else "it has not joined yet", window_s)
    if not key:
        return _doubted(view, "", "nothing proves which key it has", window_s)
    try:
        own_signature.verify(view.pulse.pulse, view.pulse.signature, PULSE_NAMESPACE, key)
    except HoldfastError as trouble:
        return replace(_doubted(view, key, trouble.message, window_s), forged=trouble)
    try:
        pulse = msgspec.json.decode(view.pulse.pulse, type=Pulse)
    except _UNREADABLE:
        return _doubted(view, key, "its pulse cannot be read", window_s)
    if (pulse.fleet, pulse.node) != (fleet_id, view.name):
        return _doubted(view, key, f"its pulse is of {pulse.node!r}", window_s)
    return _Checked(
        VerifiedReport(
            view=view,
            pulse=pulse,
            report=_report(view, pulse),
            age_s=max(0.0, now_s - pulse.at_s),
            key=key,
            window_s=window_s,
        )
    )


def _doubted(view: NodeView, key: str, doubt: str, window_s: float) -> _Checked:
    return _Checked(VerifiedReport(view, key=key, doubt=doubt, window_s=window_s))


def _report(view: NodeView, pulse: Pulse) -> Report | None:
    if not view.report or canonical.digest(view.report) != pulse.report:
        return None
    try:
        report = msgspec.json.decode(view.report, type=Report)
    except _UNREADABLE:
        return None
    return report if report.node == view.name else None
