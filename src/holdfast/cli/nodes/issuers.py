"""Issuing certificates of nodes: which one a node reports, and whether it is limited to the node's role."""

from collections.abc import Callable

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.model.applied import Applied
from holdfast.model.certificate import CertificateFacts
from holdfast.model.node_view import NodeView
from holdfast.model.report import Report
from holdfast.model.verified_report import VerifiedReport
from holdfast.trust import certificates as rules
from holdfast.trust.reports import Identities

Read = Callable[[bytes], CertificateFacts]


def reported(view: NodeView | None) -> bytes:
    """Not verified: a caller compares it with a pinned digest."""
    if view is None or not view.report:
        return b""
    try:
        return msgspec.json.decode(view.report, type=Report).issuer
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return b""


def issuer_of(one: VerifiedReport) -> bytes:
    """As `reported`, without decoding a verified report a second time."""
    return one.report.issuer if one.report is not None else reported(one.view)


def unfit(der: bytes, node: str, applied: Applied, read: Read, now_s: float) -> str | None:
    """Why this certificate must not be used: it could issue for names beyond its node's role. None: it is fit."""
    allowed = rules.constraints(node, applied.node(node).roles, applied.fleet().settings)
    try:
        return rules.issuer_complaint(read(der), allowed, now_s)
    except HoldfastError as trouble:
        return trouble.message


def fit_only(known: Identities, applied: Applied, read: Read, now_s: float) -> Identities:
    """Pin a new certificate only if it is limited to its node's role: an attacker on a node could report one that may
    issue for every name. Only certificates that would change are read."""
    proven, doubts = dict(known.proven), list(known.doubts)
    for name, identity in known.proven.items():
        recorded = applied.table.entries[f"node.{name}"].identity
        pinned = ("", b"") if recorded is UNSET else (recorded.issuer, recorded.certificate)
        if not identity.issuer or (identity.issuer, identity.certificate) == pinned:
            continue
        why = unfit(identity.certificate, name, applied, read, now_s)
        if why is not None:
            proven[name] = replace(identity, issuer=pinned[0], certificate=pinned[1])
            doubts.append(f"node.{name}: its issuing certificate is not pinned: {why}")
    return replace(known, proven=proven, doubts=tuple(doubts))
