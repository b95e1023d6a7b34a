"""Call a node that accepts calls of the hub, and verify it by the key in the applied revision (C-01)."""

import logging

import msgspec
from msgspec import UNSET

from holdfast.errors import Conflict, HoldfastError
from holdfast.hub.nodes.reports import Kept
from holdfast.ledger import keys
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.report import Report
from holdfast.ports.agent_link import AgentLink, Callee, WrongNode
from holdfast.ports.hub_link import HubReader
from holdfast.ports.ledger_store import Reading
from holdfast.trust.certificates import listener_name

log = logging.getLogger("holdfast.fleet")


class Dialling:
    def __init__(self, hub: HubReader, store: Reading, link: AgentLink) -> None:
        self._hub = hub
        self._store = store
        self._link = link

    async def knock(self, node: str, address: str) -> bool:
        """True if it answered and is proven. `address` is what the node claims; one in the revision is preferred."""
        applied = self._hub.applied()
        if applied is None or f"node.{node}" not in applied.table.entries:
            return False
        try:
            called = callee(applied, node, address, self._issuer_of(node))
        except HoldfastError as trouble:
            log.warning("%s cannot be called, so it is waited for: %s; %s", node, trouble.message, trouble.remedy)
            return False
        try:
            await self._link.knock(called)
        except WrongNode as trouble:
            log.warning("%s", trouble.message)
            raise
        return True

    def _issuer_of(self, node: str) -> bytes:
        """As the node reported it; only the digest in the revision makes it worth anything."""
        record = self._store.get(keys.report(node))
        if record is None:
            return b""
        try:
            kept = msgspec.json.decode(record.value, type=Kept)
            return msgspec.json.decode(kept.report, type=Report).issuer if kept.report else b""
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return b""


def callee(applied: Applied, node: str, claimed: str, issuer: bytes) -> Callee:
    """Raises Conflict while an operator has not signed what proves this node."""
    entry = applied.table.entries[f"node.{node}"]
    if entry.identity is UNSET or not entry.identity.issuer:
        raise _unpinned(f"revision {applied.head.number} does not say yet which certificates are {node}'s")
    if canonical.digest(issuer) != entry.identity.issuer:
        raise _unpinned(f"its issuing certificate is not the one that revision {applied.head.number} pins")
    declared = applied.node(node)
    name = listener_name(node, declared.roles, applied.fleet().settings)
    return Callee(node, declared.address or claimed, entry.identity.key, issuer, name, applied.fleet_id)


def _unpinned(why: str) -> Conflict:
    return Conflict(why, remedy="the next `holdfast apply` records it", code="not_pinned")
