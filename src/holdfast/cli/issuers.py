"""Issuing certificates of nodes: which one a node reports, and whether anybody should let it issue anything."""

from collections.abc import Callable

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.cli.identities import Identities
from holdfast.errors import HoldfastError
from holdfast.model.applied import Applied
from holdfast.model.certificate import CertificateFacts
from holdfast.model.checkin import NodesAnswer, NodeView
from holdfast.model.report import Report
from holdfast.trust import certificates as rules

Read = Callable[[bytes], CertificateFacts]


def reported(view: NodeView | None) -> bytes:
    if view is None or not view.report:
        return b""
    try:
        return msgspec.json.decode(view.report, type=Report).issuer
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return b""


def unfit(der: bytes, node: str, applied: Applied, read: Read, now_s: float) -> str | None:
    """Pinned or not: one that could issue for more than its node's role is in nobody's interest."""
    allowed = rules.constraints(node, applied.node(node).roles, applied.fleet().settings)
    try:
        return rules.issuer_complaint(read(der), allowed, now_s)
    except HoldfastError as trouble:
        return trouble.message


def fit_only(known: Identities, answer: NodesAnswer, applied: Applied, read: Read, now_s: float) -> Identities:
    """A new certificate is pinned only if it is bound as its node's role demands: a node that was taken over would
    rather have one that may issue for every name. Only what would change is opened at all."""
    views = {view.name: view for view in answer.nodes}
    proven, doubts = dict(known.proven), list(known.doubts)
    for name, identity in known.proven.items():
        recorded = applied.table.entries[f"node.{name}"].identity
        pinned = ("", b"") if recorded is UNSET else (recorded.issuer, recorded.certificate)
        if not identity.issuer or (identity.issuer, identity.certificate) == pinned:
            continue
        why = unfit(reported(views.get(name)), name, applied, read, now_s)
        if why is not None:
            proven[name] = replace(identity, issuer=pinned[0], certificate=pinned[1])
            doubts.append(f"node.{name}: its issuing certificate is not recorded: {why}")
    return replace(known, proven=proven, doubts=tuple(doubts))
