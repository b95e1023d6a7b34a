"""Accept revisions: verify the chain from this node's own anchor, contents by digest, changes by grade.

The highest accepted revision is kept; older ones, forks and other fleets are refused. Durable before it is reported.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from holdfast.agent.acceptance import manifest_grades
from holdfast.agent.acceptance.catch_up import CatchUp, Step
from holdfast.agent.acceptance.log import AcceptanceLog
from holdfast.agent.acceptance.manifest_grades import Followed
from holdfast.agent.keeper import Revision
from holdfast.agent.membership import Membership
from holdfast.errors import Corrupt, Failed, NeedsOperator, TryLater
from holdfast.model import canonical
from holdfast.model.checkin import LINKS_MAX, CheckInAnswer
from holdfast.model.fleet import FleetDocument, Node, Settings
from holdfast.model.manifest import NodeManifest
from holdfast.model.record import Link
from holdfast.model.report import Parked
from holdfast.model.revision import NO_HEAD, Head
from holdfast.model.trust import Trust
from holdfast.ports.acceptance import Acceptance, Accepted
from holdfast.ports.clock import Clock
from holdfast.ports.journal import Journal
from holdfast.trust import chain
from holdfast.trust.chain import Anchor

PARKED_FACT = "parked"
_AT_ONCE = 20  # links verified before the loop gets a turn: heartbeats must not wait for a long chain
NUMBER_MAX = 10_000_000  # no fleet has so many revisions; a hub that says so wants this node busy

_parked = msgspec.json.Decoder(tuple[Parked, ...])


class Accepting:
    def __init__(
        self,
        *,
        acceptance: Acceptance,
        journal: Journal,
        catch_up: CatchUp,
        clock: Clock,
        log: AcceptanceLog,
        member: Membership,
    ) -> None:
        self._acceptance = acceptance
        self._journal = journal
        self._catch_up = catch_up
        self._clock = clock
        self._log = log
        self._me = member
        self.newest: Accepted | None = acceptance.newest()
        self.seen: Head = self.newest.head if self.newest else NO_HEAD
        self.in_force: NodeManifest | None = None
        self.in_force_digest = ""
        self.trust: Trust | None = None
        self.parked: tuple[Parked, ...] = ()
        self.changes = 0
        self._read: tuple[str, str, Node, FleetDocument] | None = None  # by digest
        self._remember()

    def _remember(self) -> None:
        newest = self.newest
        if newest is None:
            return
        self.seen = newest.head
        self.trust = chain.trust_of(newest.link)
        if not newest.in_force:
            return
        self.in_force = manifest_grades.decode_manifest(newest.in_force)
        self.in_force_digest = canonical.digest(newest.in_force)
        self.parked = self._still_parked(newest)

    def _still_parked(self, newest: Accepted) -> tuple[Parked, ...]:
        said = newest.manifest or newest.said
        if said == newest.in_force or not said:
            return ()
        assert self.in_force is not None
        noted = {parked.address: parked for parked in _parked.decode(self._journal.fact(PARKED_FACT) or b"[]")}
        apart = manifest_grades.differing(manifest_grades.decode_manifest(said), self.in_force)
        now_s = self._clock.now_s()
        return tuple(noted.get(a) or manifest_grades.noted(a, "destroy", manifest_grades.UNSAID, now_s) for a in apart)

    def own(self) -> tuple[Node, Settings] | None:
        """What the manifest in force says this node is, and the settings that every node may know."""
        found = self._documents()
        return (found[0], found[1].settings) if found is not None else None

    def revision(self) -> Revision | None:
        """What is in force, for the keepers; None before anything was accepted."""
        found = self._documents()
        if found is None or self.in_force is None:
            return None
        stones = {**(self.newest.stones if self.newest else {}), **self.in_force.retired}
        return Revision(self.seen.number, self.in_force, found[1], found[0], stones)

    def _documents(self) -> tuple[Node, FleetDocument] | None:
        """Decoded once for each pair of digests: the report of every change asks for them."""
        if self.in_force is None:
            return None
        digests = self.in_force.own.digest, self.in_force.settings
        if self._read is None or self._read[:2] != digests:
            node, document = self._acceptance.blob(digests[0]), self._acceptance.blob(digests[1])
            if node is None or document is None:
                return None
            decoded = msgspec.json.decode(document, type=FleetDocument)
            self._read = (*digests, msgspec.json.decode(node, type=Node), decoded)
        return self._read[2], self._read[3]

    # ---- following

    async def follow(self, answer: CheckInAnswer) -> bool:
        """True when something new was accepted; a refusal is a finding and an audit line, never an exception."""
        try:
            accepted = await self._follow(answer)
        except (TryLater, Failed) as trouble:
            self._log.waits(trouble)
            raise
        except NeedsOperator as trouble:
            self._log.refuse(answer.head, trouble)
            return False
        self._log.followed()
        return accepted

    async def _follow(self, answer: CheckInAnswer) -> bool:
        head = answer.head
        if head == self.seen:
            return False
        self._check_forward(head)
        anchor = self._anchor()
        steps, reached = await self._walk(anchor, answer)
        if reached.head != head:
            raise _refused(f"the links end with revision {reached.head.number}, not with the head that was announced")
        if self.newest is None:
            self._check_invite(steps)
        await self._accept(reached, steps, answer.manifest)
        return True

    def _check_forward(self, head: Head) -> None:
        if head.number > NUMBER_MAX:
            raise _refused(f"the hub shows revision {head.number}, and no fleet has so many")
        if head.number < self.seen.number:
            raise _refused(
                f"the hub shows revision {head.number}, this node has accepted {self.seen.number}: it was rolled back"
            )
        if head.number == self.seen.number:
            raise _refused(f"the hub shows another revision {head.number} than this node accepted: the chain is forked")
        if head.number < self._me.head.number:
            raise _refused(
                f"the hub shows revision {head.number}, the operator who invited this node knew {self._me.head.number}"
            )

    def _anchor(self) -> Anchor:
        """Where to start: what was accepted last; at first the fleet's beginning, which its id is the digest of."""
        if self.newest is not None:
            return Anchor(self._me.fleet, self.newest.head, self.trust)
        return Anchor(self._me.fleet, NO_HEAD, None)

    async def _walk(self, anchor: Anchor, answer: CheckInAnswer) -> tuple[list[Step], Anchor]:
        """Out of the answer as far as it goes, the rest on request; no page is asked for before the last one held."""
        at, last = anchor, answer.head.number
        steps: list[Step] = []
        page: Sequence[Link] = [link for link in answer.links if at.head.number < link.header.number <= last]
        if page and page[0].header.number != at.head.number + 1:
            page = ()
        while at.head.number < last:
            if not page:
                page = await self._catch_up.links(at.head.number + 1, min(last, at.head.number + LINKS_MAX))
            if not page:
                raise TryLater(
                    f"the hub did not send revision {at.head.number + 1}",
                    remedy="holdfast hub check",
                    code="links_missing",
                )
            for link in page[:LINKS_MAX]:
                after = chain.step(at, link)
                vouched = self.newest is None and after.head == self._me.head
                steps.append(Step(link, at.trust or chain.trust_of(link), vouched))
                at = after
                if at.head.number % _AT_ONCE == 0:
                    await asyncio.sleep(0)
            page = ()
        return steps, at

    def _check_invite(self, steps: Sequence[Step]) -> None:
        if self._me.head != NO_HEAD and not any(step.vouched for step in steps):
            raise _refused(
                f"the chain of this hub does not lead through revision {self._me.head.number} "
                f"({self._me.head.digest[:12]}…), which the operator who invited this node knew"
            )

    # ---- accepting

    async def _accept(self, reached: Anchor, steps: Sequence[Step], offered: bytes) -> None:
        last, newest = steps[-1].link, self.newest
        said = (newest.manifest or newest.said) if newest else b""
        arrived = await self._catch_up.travel(
            steps, self._standing(said), said, bool(newest and newest.unread), offered
        )
        standing = arrived.standing
        parked = tuple(standing.parked[address] for address in sorted(standing.parked))
        named = self._me.node in last.header.manifests
        in_force = canonical.encode(standing.in_force) if standing.in_force else b""
        accepted = Accepted(
            self._me.fleet,
            reached.head,
            last,
            arrived.said if named else b"",
            in_force,
            b"" if named else arrived.said,
            arrived.unread,
            dict(standing.stones),
        )
        if parked:  # before it is in force: a crash in between leaves a note too many, not one too few
            self._journal.set_aside(PARKED_FACT, msgspec.json.encode(parked))
        self._acceptance.accept([step.link for step in steps], accepted, arrived.blobs)
        self._log.named(reached.head, named)
        self.newest = accepted
        self.changes += 1
        self._remember()
        self._log.accepted(reached.head, parked)

    def _standing(self, said: bytes) -> Followed:
        wanted = manifest_grades.decode_manifest(said) if said else None
        stones = self.newest.stones if self.newest else {}
        return Followed(self.in_force, wanted, {one.address: one for one in self.parked}, stones)


def _refused(why: str) -> Corrupt:
    return Corrupt(
        why,
        remedy="restore the hub's ledger that has the revision this node knows: holdfast import ledger",
        code="revision_refused",
    )
