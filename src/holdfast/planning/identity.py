"""Which key is which node: what a plan writes into a node's entry, and why that changed. Pure.

A key is written down only if an operator declared it or an operator's invite leads to it; what a hub merely says is
never enough. Once written it stays until it is replaced or revoked.
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
    """`revoked` has key lines that operators shut out. A declared key wins, a newly proven one replaces an older."""
    before = applied.identity if applied is not None and applied.identity is not UNSET else None
    if node.key:
        return _declared(node, before, proven, revoked)
    if proven is not None and proven.key not in revoked:
        if before is not None and before.key == proven.key and not proven.issuer:
            return before  # it did not say which certificate it issues from; the pin stays
        return proven
    return before if before is not None and before.key not in revoked else UNSET


def _declared(node: Node, before: NodeIdentity | None, proven: NodeIdentity | None, revoked: Set[str]) -> NodeIdentity:
    key = canonical_line(node.key)
    if key in revoked:
        raise Conflict(
            f"node.{node.name} declares the key {short(key)}, which was revoked",
            remedy=f"remove `key` from [[nodes]] {node.name} in fleet.toml, invite the machine anew "
            f"(holdfast node invite {node.name}), then apply",
            code="key_revoked",
        )
    if proven is not None and proven.key != key:
        raise Conflict(
            f"node.{node.name} declares the key {short(key)}, but the machine joined with {short(proven.key)}",
            remedy="remove `key` from fleet.toml to take the key it joined with; if you do not know that key: "
            f"holdfast node revoke {node.name}",
            code="key_differs",
        )
    known = next((found for found in (proven, before) if found is not None and found.key == key), NodeIdentity(key))
    if not known.issuer and before is not None and before.key == key:
        return replace(known, issuer=before.issuer, certificate=before.certificate)
    return known


def why(before: Entry | None, after: Entry) -> str:
    """In words, what happened to the identity between two entries of one node; "" if nothing did."""
    was = before.identity if before is not None else UNSET
    now = after.identity
    if was == now:
        return ""
    if now is UNSET:
        return "forgets its key, which was revoked"
    if was is UNSET:
        return "records the key it joined with"
    if was.key != now.key:
        return "re-keys the node"
    return "records the certificate it issues from" if was.issuer != now.issuer else FILLS_IN


FILLS_IN = "records the bytes of the certificate that is pinned already"


def widens(before: Entry | None, after: Entry) -> bool:
    """Whether anybody new is believed: a key or a pin that was not there. The bytes behind a pin are no news."""
    return why(before, after) not in ("", FILLS_IN)


def canonical_line(text: str) -> str:
    """Type and key without the comment: one key has one spelling."""
    return ssh_key.line(ssh_key.parse(text))


def short(line: str) -> str:
    return ssh_key.fingerprint(ssh_key.parse(line))
