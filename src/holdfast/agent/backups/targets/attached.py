"""The targets that this node stores backups on: the hub's store, and the storage targets of the revision in force."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress

import msgspec
from msgspec import UNSET, Struct

from holdfast.agent.backups.store import Store
from holdfast.agent.backups.verified import Verified
from holdfast.agent.keeper import Revision
from holdfast.agent.services.data.proofs import granted
from holdfast.agent.services.door import Vouch
from holdfast.errors import Failed, HoldfastError, Invalid
from holdfast.gate.mounts import may_mount_storage
from holdfast.model import backup_key, storage_target
from holdfast.model.fleet import Storage
from holdfast.model.revision import Entry
from holdfast.model.storage_target import HUB, counts
from holdfast.ports.backup_target import BackupTarget, OpenTarget, TargetState
from holdfast.ports.journal import Facts
from holdfast.ports.target_care import Adoptable
from holdfast.reconcile.retention import Policy

Open = Callable[[str, str, str, str], bytes]  # name, digest, fleet, address as a seal names it → value

ADOPTED = "backups/adopted/"

_storage = msgspec.json.Decoder(Storage).decode


class Holdings(Struct, frozen=True):
    """The backups of one service on one target: number → digest of the receipt, and how many it lacks."""

    held: Mapping[int, str] = {}
    lacks: int = 0


class Target:
    """One of them. `storage` is None for the hub. `seen` is what the last look found; `changing` is held by what copies
    backups to it and by what deletes there, because a copy is of use only when its receipt is there."""

    def __init__(self, inner: BackupTarget, store: Store, verified: Verified, storage: Storage | None) -> None:
        self.inner = inner
        self.store = store
        self.verified = verified
        self.storage = storage
        self.name = storage.name if storage is not None else HUB
        self.seen = TargetState("attached" if storage is None else "missing", "it was not looked at yet")
        self.since_s = 0.0
        self.looked_s = float("-inf")  # by the clock of the event loop
        self.changing = asyncio.Lock()
        self.holdings: dict[str, Holdings] = {}  # by service, as far as they are known

    def saw(self, found: TargetState) -> None:
        self.seen = found

    def looked(self, at_s: float, since_s: float) -> None:
        """`since_s`: when it came into the state that it was seen in; 0: it was in it before."""
        self.looked_s, self.since_s = at_s, since_s or self.since_s

    @property
    def is_attached(self) -> bool:
        return self.seen.state == "attached"

    @property
    def may_delete(self) -> bool:
        return self.seen.state in ("attached", "full")

    @property
    def is_readable(self) -> bool:
        return self.seen.state in ("attached", "full", "read_only")

    def newest(self, service: str) -> str:
        """The digest of its newest receipt, as far as it is known; "" if there is none."""
        held = self.holdings.get(service, Holdings()).held
        return held[max(held)] if held else ""

    def holds(self, service: str, known: Holdings) -> None:
        self.holdings[service] = known

    def pruned(self, service: str, gone: Collection[int]) -> None:
        known = self.holdings.get(service, Holdings())
        held = {sequence: digest for sequence, digest in known.held.items() if sequence not in gone}
        self.holdings[service] = Holdings(held, known.lacks)

    def policy(self, of_fleet: Policy) -> Policy:
        if self.storage is None or self.storage.policy.retain is UNSET:
            return of_fleet
        return Policy(*counts(self.storage.policy.retain))


class Targets:
    """`content` reads a document of the revision by its digest; `secret` opens a sealed value for its address;
    `vouch` gives the authority of the revision in force; `member` is the fleet id and the node."""

    def __init__(
        self,
        *,
        hub: BackupTarget,
        open: OpenTarget,
        content: Callable[[str], bytes | None],
        secret: Open,
        facts: Facts,
        vouch: Vouch,
        member: tuple[str, str],
    ) -> None:
        self._open = open
        self._content = content
        self._secret = secret
        self._facts = facts
        self._vouch = vouch
        self._fleet, self._node = member
        fleet = self._fleet
        self._hub = Target(hub, Store(hub, fleet), Verified(Store(hub, fleet), facts), None)
        self._hub_is_here = False
        self._made: dict[str, tuple[Entry, Target]] = {}
        self._dropped: list[Target] = []
        self.troubles: Mapping[str, HoldfastError] = {}  # target → why it cannot be used as it is declared
        self.followed = asyncio.Event()  # another revision is in force
        self.uneven = asyncio.Event()  # a target may lack something
        self.grown: set[str] = set()  # services of which a target got backups

    def follow(self, revision: Revision) -> None:
        """A target that did not change stays open."""
        self._hub_is_here = "hub" in revision.node.roles
        made: dict[str, tuple[Entry, Target]] = {}
        troubles: dict[str, HoldfastError] = {}
        for address, entry in sorted(revision.manifest.storage.items()):
            known = self._made.get(address)
            if known is not None and known[0] == entry:
                made[address] = known
                continue
            try:
                found = self._opened(address, entry)
            except HoldfastError as trouble:
                troubles[address.partition(".")[2]] = trouble
                continue
            if found is not None:
                made[address] = entry, found
        self._dropped += [
            one for address, (_, one) in self._made.items() if made.get(address, (None, None))[1] is not one
        ]
        self._made, self.troubles = made, troubles
        self.followed.set()
        self.uneven.set()

    def _opened(self, address: str, entry: Entry) -> Target | None:
        """None: it is not in use."""
        try:
            storage = _storage(self._content(entry.digest) or b"")
        except (msgspec.DecodeError, UnicodeDecodeError):
            remedy = "`holdfast hub check` names contents that are missing; then `holdfast apply`"
            raise Invalid(f"the declaration of {address} cannot be read", remedy=remedy) from None
        if storage.state != "attached":
            return None
        values = [self._secret(name, digest, self._fleet, address) for name, digest in entry.secrets.items()]
        proof = granted(may_mount_storage(storage.name, self._vouch(address), storage.durable_id, self._node))
        inner = self._open(storage, values[0] if values else b"", proof if storage.type == "usb" else None)
        store = Store(inner, self._fleet)
        return Target(inner, store, Verified(store, self._facts, storage.name), storage)

    @property
    def others(self) -> Sequence[Target]:
        """All but the hub."""
        return [one for _, one in self._made.values()]

    @property
    def all(self) -> Sequence[Target]:
        return [self._hub, *self.others]

    def of(self, service: str) -> Sequence[Target]:
        """Those that may have its backups: a file of the hub is not stored at the hub."""
        return self.others if backup_key.hub_of(service) else self.all

    def primary_of(self, service: str) -> Target:
        """It decides whether a backup of this service is made. Of the hub: one on another machine, if there is one."""
        if not backup_key.hub_of(service):
            return self.primary
        if not self.others:
            raise Failed(
                "no storage target of this node can be used, and the hub does not store its own file",
                remedy="`holdfast status` names targets with a problem; correct [[storage]] in fleet.toml, then: "
                "holdfast apply",
                code="no_target",
            )
        return min(self.others, key=lambda one: (self.is_same_machine(one), one is not self.primary, one.name))

    @property
    def primary(self) -> Target:
        """It decides whether a backup is made: the one that is declared to, else the hub."""
        roles = (one for one in self.others if one.storage is not None and one.storage.role == "primary")
        return next(roles, self._hub)

    def nearest(self, service: str) -> Sequence[Target]:
        """In the order in which a restore reads; those that do not answer come last."""
        return sorted(self.of(service), key=lambda one: (not one.is_readable, storage_target.reading_rank(one.storage)))

    def is_same_machine(self, one: Target) -> bool:
        return self._hub_is_here if one.storage is None else storage_target.is_same_machine(one.storage)

    def damaged(self, service: str) -> frozenset[str]:
        """Packs that the next backup must not refer to, because a target has them damaged."""
        return frozenset[str]().union(*(one.verified.damaged(service) for one in self.all))

    async def adopted(self, one: Target) -> bool:
        """Whether the marker was written now. A bucket that this node has never seen as this target gets its marker:
        an operator signed for that. One that had it once and has not is another one, or was emptied: a person has to
        look."""
        if one.storage is None or not isinstance(one.inner, Adoptable):
            return False
        known = self._facts.fact(ADOPTED + one.name) == one.storage.durable_id.encode()
        if one.is_attached and not known:
            self._facts.set_aside(ADOPTED + one.name, one.storage.durable_id.encode())
        elif one.seen.state == "missing" and not known:
            await one.inner.adopt()
            return True
        return False

    async def close_dropped(self) -> None:
        """Those that the revision does not have any more."""
        dropped, self._dropped = self._dropped, []
        await closed(dropped)

    async def close(self) -> None:
        await closed(self.all)


async def closed(targets: Iterable[Target]) -> None:
    for one in targets:
        with suppress(HoldfastError):  # what it has stays
            await one.inner.close()
