"""Which key is which node: by applied revision, enrolments that operators signed, and revocations.

A node exists if and only if the applied revision has it (C-10). Its key is the one recorded there, or one that joined
since with an invite. A node's name comes from its key, never from the text of a message (I-12).
"""

import logging
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
from msgspec import UNSET, Struct

from holdfast.errors import Conflict, Corrupt, HoldfastError, NotPermitted
from holdfast.hub import settings
from holdfast.hub.nodes.member import Member
from holdfast.ledger import keys
from holdfast.model import ssh_key
from holdfast.model.applied import Applied
from holdfast.model.cadence import Cadence, stretched
from holdfast.model.fleet import Node
from holdfast.model.invite import Enrolment, SignedRevocation, decode_revocation
from holdfast.model.principal import Principal
from holdfast.model.revision import Entry
from holdfast.ports.hub_link import HubReader
from holdfast.ports.ledger_store import LedgerStore, Record, Transaction

T = TypeVar("T")

log = logging.getLogger("holdfast.fleet")

NODES_MAX = 200


class EnrolmentRecord(Struct, frozen=True):
    """An accepted enrolment. `over` is the key the revision had then: another one there since is newer than this."""

    enrolment: Enrolment
    key: str
    accepted_s: float
    over: str = ""
    address: str = ""


class Registry:
    """Plain dictionaries, built again when the revision changes, so that lookups are cheap."""

    def __init__(self, hub: HubReader, store: LedgerStore, pace: Cadence, newcomer: Callable[[str], Member]) -> None:
        self._hub = hub
        self._store = store
        self._pace = pace
        self._paced = pace
        self._newcomer = newcomer
        self.members: dict[str, Member] = {}
        self.applied: Applied | None = None
        self.cadence = pace
        self.nodes_max = NODES_MAX
        self._by_key: dict[str, Principal] = {}
        self._enrolments = dict(_stored(store))
        self._revoked = dict(_revocations(store))  # by fingerprint
        self.refresh()

    # ---- following the revision

    @property
    def is_current(self) -> bool:
        return self._hub.applied() is self.applied

    def refresh(self) -> list[Member]:
        """Follow the applied revision; return the members it no longer has."""
        applied = self._hub.applied()
        before, self.applied = self.members, applied
        if applied is None:
            return []
        self.nodes_max = settings.nodes_max(applied, self.nodes_max)
        self._paced = settings.paced(self._pace, applied)
        here = applied.table.of_kind("node")
        self.members = {name: before.get(name) or self._newcomer(name) for name in here}
        for name, entry in here.items():
            self._describe(self.members[name], entry, applied)
        # A name that leaves the fleet and returns later is another machine: its old key must not return with it.
        gone = [name for name in self._enrolments if name not in here]
        if gone:
            self._store.submit(Transaction(expect={}, put={}, delete=[keys.enrolment(name) for name in gone]))
        for name in gone:
            del self._enrolments[name]
        self._index()
        left = [member for name, member in before.items() if name not in here]
        for member in left:
            member.key = ""
        return left

    def _describe(self, member: Member, entry: Entry, applied: Applied) -> None:
        if member.entry_digest != entry.digest:
            node = self._node(member.name, applied)
            if node is not None:
                member.entry_digest, member.roles, member.link = entry.digest, tuple(node.roles), node.link
                member.address = member.address or node.address
        record = self._enrolments.get(member.name)
        in_revision = entry.identity.key if entry.identity is not UNSET else ""
        member.record = record
        key = key_in_force(in_revision, record)
        member.revocation = self._revoked.get(fingerprint(key)) if key else None
        member.key = "" if member.revocation is not None else key

    def _node(self, name: str, applied: Applied) -> Node | None:
        """None if its content is damaged: status shows that, and the member keeps what was known of it."""
        try:
            return applied.node(name)
        except HoldfastError as trouble:
            log.warning("node.%s cannot be read: %s", name, trouble)
            return None

    def _index(self) -> None:
        self._by_key = {
            member.key: Principal("node", name, member.key, member.roles)
            for name, member in self.members.items()
            if member.key
        }
        self.cadence = stretched(self._paced, len(self._by_key))

    # ---- asking

    def principal_of(self, line: str) -> Principal | None:
        return self._by_key.get(line)

    def is_revoked(self, line: str) -> bool:
        return fingerprint(line) in self._revoked

    def revoked_s(self, name: str) -> float | None:
        """When a key of this node was revoked last; invites that were signed before that are no longer valid."""
        statements = (decode_revocation(signed.revocation) for signed in self._revoked.values())
        return max((float(said.revoked_s) for said in statements if said.node == name), default=None)

    def member_called(self, asserted: str, name: str) -> Member:
        """`name` is what the key proves."""
        if asserted != name:
            raise NotPermitted(
                f"this key is of {name}, so it cannot act as {asserted[:60]!r}",
                remedy="every node uses its own key: holdfast node list",
                code="name_mismatch",
            )
        member = self.members.get(name)
        if member is None:
            raise NotPermitted(
                f"there is no node {name} in the applied revision",
                remedy=f'add [[nodes]] name = "{name}" to fleet.toml, `holdfast apply`, then invite it again',
                code="unknown_node",
            )
        return member

    @property
    def joined(self) -> int:
        return len(self._by_key)

    @property
    def has_lost_ledger(self) -> bool:
        """Nothing is applied, but this hub was set up for a fleet: its nodes still have the revisions."""
        return self.applied is None and self._store.get(keys.PIN) is not None

    def key_in_revision(self, name: str) -> str:
        entry = self.applied.table.entries[f"node.{name}"] if self.applied else None
        return entry.identity.key if entry is not None and entry.identity is not UNSET else ""

    # ---- changing, once it is durable

    def enrolled(self, name: str, record: EnrolmentRecord) -> None:
        if self.applied is not None and name in self.members:
            self._enrolments[name] = record
            self._describe(self.members[name], self.applied.table.entries[f"node.{name}"], self.applied)
            self._index()

    def shut_out(self, key: str, signed: SignedRevocation) -> Member | None:
        """Record the revocation; return the member whose key it was, if that key was in force."""
        self._revoked[fingerprint(key)] = signed
        hit = next((member for member in self.members.values() if member.key == key), None)
        if hit is not None:
            hit.key, hit.revocation = "", signed
        self._index()
        return hit


def key_in_force(in_revision: str, record: EnrolmentRecord | None) -> str:
    """The revision's key, unless a machine joined since and replaced exactly that key."""
    if record is not None and in_revision in ("", record.over, record.key):
        return record.key
    return in_revision


def fingerprint(line: str) -> str:
    return ssh_key.fingerprint(ssh_key.parse(line))


def check_roles(member: Member, asserted: tuple[str, ...]) -> None:
    """The revision says which roles a node has; a request with other roles is refused (C-36)."""
    if asserted and asserted != member.roles and set(asserted) != set(member.roles):
        said, known = ", ".join(asserted)[:200], ", ".join(member.roles)
        raise Conflict(
            f"{member.name} claims the roles {said}, the applied revision has {known}",
            remedy=f"change roles of {member.name} in fleet.toml and apply, then invite it again",
            code="failed_precondition",
        )


def _stored(store: LedgerStore) -> Iterator[tuple[str, EnrolmentRecord]]:
    for record in store.scan(keys.ENROLMENTS):
        yield record.key.removeprefix(keys.ENROLMENTS), _read(record, EnrolmentRecord)


def _revocations(store: LedgerStore) -> Iterator[tuple[str, SignedRevocation]]:
    for record in store.scan(keys.REVOCATIONS):
        yield record.key.removeprefix(keys.REVOCATIONS), _read(record, SignedRevocation)


def _read(record: Record, kind: type[T]) -> T:
    """Identities must not be guessed: with a damaged record the hub does not start."""
    try:
        return msgspec.json.decode(record.value, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as trouble:
        raise Corrupt(
            f"{record.key} in the ledger cannot be read: {trouble}",
            remedy="restore the state directory from a backup; nodes keep running meanwhile",
            code="head_damaged",
        ) from trouble
