"""What operators signed, accepted: chain verified from this node's own anchor, contents by digest, deltas by grade.

Keeps the highest revision it accepted, refuses older ones, forks and other fleets, and is durable before it says so.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from holdfast.agent.acceptance import manifest_grades
from holdfast.agent.acceptance.catch_up import CatchUp, Step
from holdfast.agent.acceptance.manifest_grades import Followed
from holdfast.agent.findings import Findings
from holdfast.agent.link.audit_folding import AuditFolding
from holdfast.agent.membership import Membership
from holdfast.agent.world import World
from holdfast.errors import Corrupt, Failed, HoldfastError, NeedsOperator, TryLater
from holdfast.model import canonical
from holdfast.model.audit import Event
from holdfast.model.checkin import LINKS_MAX, CheckInAnswer
from holdfast.model.fleet import Node, Settings
from holdfast.model.manifest import NodeManifest
from holdfast.model.record import Link
from holdfast.model.report import Parked
from holdfast.model.revision import NO_HEAD, Head
from holdfast.model.trust import Trust
from holdfast.planning.documents import FleetDocument
from holdfast.ports.acceptance import Accepted
from holdfast.trust import chain
from holdfast.trust.chain import Anchor

PARKED_FACT = "parked"
_AT_ONCE = 20  # links verified before the loop gets a turn: heartbeats must not wait for a long chain
NUMBER_MAX = 10_000_000  # no fleet has so many revisions; a hub that says so wants this node busy

_parked = msgspec.json.Decoder(tuple[Parked, ...])


class Accepting:
    def __init__(self, world: World, membership: Membership, findings: Findings) -> None:
        self._world = world
        self._me = membership
        self._findings = findings
        self.newest: Accepted | None = world.acceptance.newest()
        self.seen: Head = self.newest.head if self.newest else NO_HEAD
        self.in_force: NodeManifest | None = None
        self.in_force_digest = ""
        self.trust: Trust | None = None
        self.parked: tuple[Parked, ...] = ()
        self.changes = 0
        self._journey = CatchUp(world, membership)
        self.refusals = AuditFolding(world.audit, world.clock)
        self._told: set[tuple[str, str]] = set()  # refusals that are in the audit log already
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
        noted = {parked.address: parked for parked in _parked.decode(self._world.journal.fact(PARKED_FACT) or b"[]")}
        apart = manifest_grades.differing(manifest_grades.decode_manifest(said), self.in_force)
        now_s = self._world.clock.now_s()
        return tuple(noted.get(a) or manifest_grades.noted(a, "destroy", manifest_grades.UNSAID, now_s) for a in apart)

    def own(self) -> tuple[Node, Settings] | None:
        """What the manifest in force says this node is, and the settings every node may know."""
        if self.in_force is None:
            return None
        held = self._world.acceptance.blob
        node, document = held(self.in_force.own.digest), held(self.in_force.settings)
        if node is None or document is None:
            return None
        settings = msgspec.json.decode(document, type=FleetDocument).settings
        return msgspec.json.decode(node, type=Node), settings

    def document(self) -> FleetDocument | None:
        """Everything that every node of the fleet may know."""
        held = self._world.acceptance.blob(self.in_force.settings) if self.in_force is not None else None
        return msgspec.json.decode(held, type=FleetDocument) if held is not None else None

    # ---- following

    async def follow(self, answer: CheckInAnswer) -> bool:
        """True when something new was accepted; a refusal is a finding and an audit line, never an exception."""
        try:
            accepted = await self._follow(answer)
        except TryLater as trouble:
            if trouble.code == "content_missing":  # the hub is there and keeps something back: that is worth telling
                self._findings.add_trouble("revision_waits", trouble)
            raise
        except Failed as trouble:  # this machine's fault, not the revision's: it is tried again
            self._findings.add_trouble("state_unwritable", trouble)
            raise
        except NeedsOperator as trouble:
            self._refuse(answer.head, trouble)
            return False
        for code in ("revision_refused", "revision_waits", "state_unwritable"):
            self._findings.clear(code)
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
                page = await self._world.link.links(at.head.number + 1, min(last, at.head.number + LINKS_MAX))
            if not page:
                raise TryLater(
                    f"the hub did not hand out revision {at.head.number + 1}",
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
        arrived = await self._journey.travel(steps, self._standing(said), said, bool(newest and newest.unread), offered)
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
            self._world.journal.set_aside(PARKED_FACT, msgspec.json.encode(parked))
        self._world.acceptance.accept([step.link for step in steps], accepted, arrived.blobs)
        if named:
            self._findings.clear("not_in_revision")
        else:
            self._absent(reached.head)
        self.newest = accepted
        self.changes += 1
        self._remember()
        self._write_down(reached.head, parked)

    def _standing(self, said: bytes) -> Followed:
        wanted = manifest_grades.decode_manifest(said) if said else None
        stones = self.newest.stones if self.newest else {}
        return Followed(self.in_force, wanted, {one.address: one for one in self.parked}, stones)

    # ---- telling

    def _absent(self, head: Head) -> None:
        self._findings.add(
            "not_in_revision",
            f"revision {head.number} does not name this node any more; everything here stays as it is",
            f"put [[nodes]] {self._me.node} back and apply, or wipe this machine when you are done with it",
        )

    def _write_down(self, head: Head, parked: Sequence[Parked]) -> None:
        source = f"revision {head.number}"
        self._world.audit.append(Event(f"fleet:{self._me.fleet[:12]}", "accept", source, detail=head.digest))
        for one in parked:
            self._world.audit.append(
                Event(f"fleet:{self._me.fleet[:12]}", "accept", one.address, "parked", one.reason, source)
            )
        self._world.say("accepted", {"revision": head.number, "parked": [one.address for one in parked]})

    def _refuse(self, head: Head, trouble: HoldfastError) -> None:
        message = f"revision {head.number} is refused: {trouble.message}"
        self._findings.add("revision_refused", message, trouble.remedy)
        told = (head.digest, trouble.code)
        if told in self._told:
            return
        if len(self._told) < 1000:
            self._told.add(told)
        event = Event("hub", "accept", f"revision {head.number}", "refused", trouble.message, head.digest)
        if self.refusals.note(event):
            fields: dict[str, object] = {"revision": head.number, "code": trouble.code, "message": trouble.message}
            self._world.say("revision_refused", fields)


def _refused(why: str) -> Corrupt:
    return Corrupt(
        why,
        remedy="restore the hub's ledger that has the revision this node knows: holdfast import ledger",
        code="revision_refused",
    )
