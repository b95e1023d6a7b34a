"""Accept revisions: the chain is verified from this node's own anchor, contents by digest, changes by grade.

The highest accepted revision is kept; older ones, forks and other fleets are refused. Durable before it is reported.
"""

from collections.abc import Callable, Sequence

from holdfast.agent.acceptance import manifest
from holdfast.agent.acceptance.catch_up import CatchUp, Step
from holdfast.agent.acceptance.chain_walk import ChainWalk, trust_of
from holdfast.agent.acceptance.documents import Documents, Own
from holdfast.agent.acceptance.log import AcceptanceLog
from holdfast.agent.acceptance.parked import ParkedNotes
from holdfast.agent.keeper import Revision
from holdfast.errors import Failed, NeedsOperator, TryLater
from holdfast.model import canonical
from holdfast.model.checkin import CheckInAnswer
from holdfast.model.manifest import NodeManifest
from holdfast.model.report import Parked
from holdfast.model.revision import NO_HEAD, Head
from holdfast.model.trust import Trust
from holdfast.ports.acceptance import Acceptance, Accepted


class Accepting:
    def __init__(
        self,
        *,
        acceptance: Acceptance,
        walk: ChainWalk,
        catch_up: CatchUp,
        documents: Documents,
        parked: ParkedNotes,
        log: AcceptanceLog,
        leaving: Callable[[NodeManifest | None, NodeManifest | None], None],
        fleet: str,
        node: str,
    ) -> None:
        """`leaving` notes what of the manifest in force is needed further on, before another one is accepted."""
        self._acceptance = acceptance
        self._walk = walk
        self._catch_up = catch_up
        self._documents = documents
        self._notes = parked
        self._log = log
        self._leaving = leaving
        self._fleet = fleet
        self._node = node
        self.newest: Accepted | None = acceptance.newest()
        self.seen: Head = self.newest.head if self.newest else NO_HEAD
        self.in_force: NodeManifest | None = None
        self.in_force_digest = ""
        self.trust: Trust | None = None
        self.parked: tuple[Parked, ...] = ()
        self.changes = 0
        self.is_level = False  # whether the hub, when last asked, showed what this node has accepted
        self.was_level = False  # at any time since this start
        self._remember()

    def _remember(self) -> None:
        newest = self.newest
        if newest is None:
            return
        self.seen = newest.head
        self._walk.anchors.move(newest)
        self.trust = trust_of(newest)
        if not newest.in_force:
            return
        self.in_force = manifest.decode_manifest(newest.in_force)
        self.in_force_digest = canonical.digest(newest.in_force)
        self.parked = self._notes.still(newest, self.in_force)

    def own(self) -> Own | None:
        """What the manifest in force says this node is, and the settings that every node may know."""
        return self._documents.own(self.in_force) if self.in_force is not None else None

    def revision(self) -> Revision | None:
        """What is in force, for the keepers; None before anything was accepted."""
        if self.in_force is None or self.newest is None:
            return None
        return self._documents.revision(self.seen.number, self.in_force, self.newest.stones)

    # ---- following

    def hub_is_at(self, head: Head) -> None:
        """A hub that shows what this node has accepted shows nothing that is refused or waited for any more (X23)."""
        if head != self.seen:
            return
        lost = self._walk.lost(head)
        self.is_level = lost is None
        self.was_level = self.was_level or self.is_level
        if lost is None:
            self._log.agreed()
            self._catch_up.is_level_with(head.number)
        else:
            self._log.refuse(head, lost)

    async def follow(self, answer: CheckInAnswer) -> bool:
        """True when something new was accepted; a refusal is a finding and an audit line, never an exception."""
        self.is_level = False
        try:
            accepted = await self._follow(answer)
        except (TryLater, Failed) as trouble:
            self._log.waits(trouble)
            raise
        except NeedsOperator as trouble:
            self._log.refuse(answer.head, trouble)
            return False
        self._log.followed()
        self.is_level = self.was_level = True
        return accepted

    async def _follow(self, answer: CheckInAnswer) -> bool:
        if answer.head == self.seen:
            return False
        steps, head = await self._walk.steps(self.newest, answer)
        await self._accept(head, steps, answer.manifest)
        return True

    async def _accept(self, head: Head, steps: Sequence[Step], offered: bytes) -> None:
        last, newest = steps[-1].link, self.newest
        said = (newest.manifest or newest.said) if newest else b""
        unread = bool(newest and newest.unread)
        arrived = await self._catch_up.travel(steps, self._standing(said), said, unread, offered)
        standing = arrived.standing
        parked = tuple(standing.parked[address] for address in sorted(standing.parked))
        named = self._node in last.header.manifests
        accepted = Accepted(
            self._fleet,
            head,
            last,
            arrived.said if named else b"",
            canonical.encode(standing.in_force) if standing.in_force else b"",
            b"" if named else arrived.said,
            arrived.unread,
            dict(standing.stones),
            dict(standing.approved) if standing.approved is not None else None,
        )
        self._notes.keep(parked)
        self._leaving(self.in_force, standing.in_force)
        self._acceptance.accept([step.link for step in steps], accepted, arrived.blobs)
        self._log.named(head, named)
        self.newest = accepted
        self.changes += 1
        self._remember()
        self._log.accepted(head, parked)

    def _standing(self, said: bytes) -> manifest.Followed:
        wanted = manifest.decode_manifest(said) if said else None
        stones = self.newest.stones if self.newest else {}
        approved = self.newest.approved if self.newest else None
        return manifest.Followed(self.in_force, wanted, {one.address: one for one in self.parked}, stones, approved)
