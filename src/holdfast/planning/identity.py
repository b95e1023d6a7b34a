"""The key of a node: what a plan writes into the node's entry, and why it changed. Pure.

A key is recorded only if an operator declared it or an operator's invite proves it; a hub's claim is not enough. Once
recorded it stays until it is replaced or revoked.
"""

from collections.abc import Set

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.errors import Conflict
from holdfast.model import ssh_key
from holdfast.model.fleet import Node
from holdfast.model.revision import Entry, NodeIdentity


def drafted(
    node: Node, applied: Entry | None, proven: NodeIdentity | None, revoked: Set[str] = frozenset()
) -> NodeIdentity | UnsetType:
    """`revoked` has the revoked key lines. A declared key wins, a newly proven one replaces an older."""
    before = applied.identity if applied is not None and applied.identity is not UNSET else None
    if node.key:
        return _declared(node, before, proven, revoked)
    if proven is not None and proven.key not in revoked:
        if before is not None and before.key == proven.key and not proven.issuer:
            return before  # it did not report the certificate it issues from; the pin stays
        return proven
    return before if before is not None and before.key not in revoked else UNSET


def _declared(node: Node, before: NodeIdentity | None, proven: NodeIdentity | None, revoked: Set[str]) -> NodeIdentity:
    key = canonical_line(node.key)
    if key in revoked:
        raise Conflict(
            f"node.{node.name} declares the key {short(key)}, which was revoked",
            remedy=f"remove `key` from [[nodes]] {node.name} in fleet.toml, invite the machine again "
            f"(`holdfast node invite {node.name}`), then apply",
            code="key_revoked",
        )
    if proven is not None and proven.key != key:
        raise Conflict(
            f"node.{node.name} declares the key {short(key)}, but the machine joined with {short(proven.key)}",
            remedy="remove `key` from fleet.toml to use the key it joined with; if you do not know that key: "
            f"holdfast node revoke {node.name}",
            code="key_differs",
        )
    known = next((found for found in (proven, before) if found is not None and found.key == key), NodeIdentity(key))
    if not known.issuer and before is not None and before.key == key:
        return replace(known, issuer=before.issuer, certificate=before.certificate)
    return known


def why(before: Entry | None, after: Entry) -> str:
    """What happened to the identity between two entries of one node, as text; "" if nothing did."""
    was = before.identity if before is not None else UNSET
    now = after.identity
    if was == now:
        return ""
    if now is UNSET:
        return "removes its key, which was revoked"
    if was is UNSET:
        return "records the key it joined with"
    if was.key != now.key:
        return "replaces the node's key"
    return "records the certificate it issues from" if was.issuer != now.issuer else FILLS_IN


FILLS_IN = "records the bytes of the pinned certificate"


def widens(before: Entry | None, after: Entry) -> bool:
    """Whether a new key or a new pin becomes trusted. The bytes of a pinned certificate are not new."""
    return why(before, after) not in ("", FILLS_IN)


def canonical_line(text: str) -> str:
    """Type and key without the comment: one key has one spelling."""
    return ssh_key.line(ssh_key.parse(text))


def short(line: str) -> str:
    return ssh_key.fingerprint(ssh_key.parse(line))
