"""What operators signed, accepted: chain verified from this node's own anchor, contents by digest, deltas by grade.

Keeps the highest revision it accepted, refuses older ones, forks and other fleets, and is durable before it says so.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.agent import judgement
from holdfast.agent.findings import Findings
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
from holdfast.trust.approval import verified_keys
from holdfast.trust.chain import Anchor

PARKED_FACT = "parked"
_AT_ONCE = 20  # links verified before the loop gets a turn: heartbeats must not wait for a long chain
_BEFORE_MAX = 100  # earlier manifests asked for, to judge each delta by the revision that brought it

_parked = msgspec.json.Decoder(tuple[Parked, ...])


class Step(msgspec.Struct, frozen=True):
    """One verified link, and the trust that judges what it brings."""

    link: Link
    trust: Trust
    vouched: bool = False  # the one revision the inviting operator named: what it holds is where judging starts


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
        self.in_force = judgement.decode_manifest(newest.in_force)
        self.in_force_digest = canonical.digest(newest.in_force)
        self.parked = self._still_parked(newest)

    def _still_parked(self, newest: Accepted) -> tuple[Parked, ...]:
        if newest.manifest == newest.in_force or not newest.manifest:
            return ()
        assert self.in_force is not None
        noted = {parked.address: parked for parked in _parked.decode(self._world.journal.fact(PARKED_FACT) or b"[]")}
        apart = judgement.differing(judgement.decode_manifest(newest.manifest), self.in_force)
        unsaid = "it is not signed well enough"
        remedy = judgement.REMEDY.format(grade="destroy")
        return tuple(noted.get(a) or Parked(a, unsaid, remedy, self._world.clock.now_s()) for a in apart)

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

    # ---- following

    async def follow(self, answer: CheckInAnswer) -> bool:
        """True when something new was accepted; a refusal is a finding and an audit line, never an exception."""
        try:
            accepted = await self._follow(answer)
        except TryLater:
            raise
        except Failed as trouble:  # this machine's fault, not the revision's: it is tried again
            self._findings.add_trouble("state_unwritable", trouble)
            raise
        except NeedsOperator as trouble:
            self._refuse(answer.head, trouble)
            return False
        self._findings.clear("revision_refused")
        self._findings.clear("state_unwritable")
        return accepted

    async def _follow(self, answer: CheckInAnswer) -> bool:
        head = answer.head
        if head == self.seen:
            return False
        self._check_forward(head)
        anchor = self._anchor()
        links = await self._links(answer, anchor.head.number + 1, head.number)
        steps, reached = await self._walk(anchor, links)
        if reached.head != head:
            raise _refused(f"the links end with revision {reached.head.number}, not with the head that was announced")
        if self.newest is None:
            self._check_invite(steps)
        await self._accept(reached, steps, answer.manifest)
        return True

    def _check_forward(self, head: Head) -> None:
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

    async def _links(self, answer: CheckInAnswer, first: int, last: int) -> list[Link]:
        """Out of the answer as far as they follow, the rest on request; each is checked, so their order is theirs."""
        links = [link for link in answer.links if first <= link.header.number <= last]
        if not links or links[0].header.number != first:
            links = []
        while first + len(links) <= last:
            at = first + len(links)
            more = await self._world.link.links(at, min(last, at + LINKS_MAX - 1))
            if not more:
                raise TryLater(
                    f"the hub did not hand out revision {at}", remedy="holdfast hub check", code="links_missing"
                )
            links += more
        return links

    async def _walk(self, anchor: Anchor, links: Sequence[Link]) -> tuple[list[Step], Anchor]:
        at = anchor
        steps: list[Step] = []
        for number, link in enumerate(links, 1):
            after = chain.step(at, link)
            vouched = self.newest is None and after.head == self._me.head
            steps.append(Step(link, at.trust or chain.trust_of(link), vouched))
            at = after
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return steps, at

    def _check_invite(self, steps: Sequence[Step]) -> None:
        if self._me.head != NO_HEAD and not any(step.vouched for step in steps):
            raise _refused(
                f"the chain of this hub does not lead through revision {self._me.head.number} "
                f"({self._me.head.digest[:12]}…), which the operator who invited this node knew"
            )

    # ---- accepting

    async def _accept(self, reached: Anchor, steps: Sequence[Step], manifest: bytes) -> None:
        last = steps[-1].link
        digest = last.header.manifests.get(self._me.node)
        blobs: dict[str, bytes] = {}
        if digest is None:
            wanted, in_force, parked = b"", self.newest.in_force if self.newest else b"", self.parked
            self._absent(reached.head)
        else:
            wanted = await self._manifest(digest, manifest)
            judged = await self._judge(steps, digest, wanted, blobs)
            in_force, parked = canonical.encode(judged.in_force), judged.parked
            self._findings.clear("not_in_revision")
        accepted = Accepted(self._me.fleet, reached.head, last, wanted, in_force)
        if parked:  # before it is in force: a crash in between leaves a note too many, not one too few
            self._world.journal.set_aside(PARKED_FACT, msgspec.json.encode(parked))
        self._world.acceptance.accept([step.link for step in steps], accepted, blobs)
        self.newest = accepted
        self.changes += 1
        self._remember()
        self._write_down(reached.head, parked)

    async def _manifest(self, digest: str, offered: bytes) -> bytes:
        found = offered if canonical.digest(offered) == digest else await self._fetch(digest)
        if found is None:
            raise TryLater(
                "the hub did not hand out the manifest that was signed for this node", remedy="holdfast hub check"
            )
        return found

    async def _judge(
        self, steps: Sequence[Step], digest: str, wanted: bytes, blobs: dict[str, bytes]
    ) -> judgement.Judged:
        """Every manifest on the way by the signatures of its own revision; what no hub remembers, by the next one's."""
        in_force = self.in_force
        parked: dict[str, Parked] = {}
        before = canonical.digest(self.newest.manifest) if self.newest and self.newest.manifest else ""
        now_s = float(int(self._world.clock.now_s()))
        for step in steps[-_BEFORE_MAX:]:
            named = step.link.header.manifests.get(self._me.node)
            is_last = step is steps[-1]
            if named is None or (named == before and not is_last):
                continue
            content = wanted if named == digest else await self._fetch(named)
            if content is None:
                continue
            manifest = judgement.decode_manifest(content)
            if not await self._contents(manifest, blobs, must=is_last):
                continue
            before = named
            contents = _Held(self._world, blobs)
            if in_force is None and step.vouched:
                in_force = manifest
                continue
            keys = verified_keys(step.link.header_bytes, step.link.signatures)
            judged = _understood(in_force, manifest, keys, step.trust, contents, now_s)
            in_force = judged.in_force
            parked |= {one.address: one for one in judged.parked}
        assert in_force is not None
        apart = judgement.differing(judgement.decode_manifest(wanted), in_force)
        return judgement.Judged(in_force, tuple(parked[a] for a in apart if a in parked))

    async def _contents(self, manifest: NodeManifest, blobs: dict[str, bytes], must: bool) -> bool:
        wanted = [digest for digest in judgement.needed(manifest) if digest not in blobs]
        for digest in self._world.acceptance.missing(wanted):
            content = await self._fetch(digest)
            if content is None and must:
                raise TryLater(
                    f"the hub did not hand out the content {digest[:12]}…, which this node needs",
                    remedy="holdfast hub check names contents that are missing",
                    code="content_missing",
                )
            if content is None:
                return False
            blobs[digest] = content
        return True

    async def _fetch(self, digest: str) -> bytes | None:
        found = await self._world.link.blob(digest)
        if found is not None and canonical.digest(found) != digest:
            raise _refused(f"the hub handed out something else than the content {digest[:12]}…")
        return found

    # ---- telling

    def _absent(self, head: Head) -> None:
        self._findings.add(
            "not_in_revision",
            f"revision {head.number} does not name this node any more; everything here stays as it is",
            f"put [[nodes]] {self._me.node} back and apply, or wipe this machine when you are done with it",
        )

    def _write_down(self, head: Head, parked: Sequence[Parked]) -> None:
        self._world.say("accepted", {"revision": head.number, "parked": [one.address for one in parked]})
        source = f"revision {head.number}"
        self._world.audit.append(Event(f"fleet:{self._me.fleet[:12]}", "accept", source, detail=head.digest))
        for one in parked:
            self._world.audit.append(
                Event(f"fleet:{self._me.fleet[:12]}", "accept", one.address, "parked", one.reason, source)
            )

    def _refuse(self, head: Head, trouble: HoldfastError) -> None:
        message = f"revision {head.number} is refused: {trouble.message}"
        self._findings.add("revision_refused", message, trouble.remedy)
        told = (head.digest, trouble.code)
        if told in self._told:
            return
        if len(self._told) < 1000:
            self._told.add(told)
        self._world.say("revision_refused", {"revision": head.number, "code": trouble.code, "message": trouble.message})
        self._world.audit.append(
            Event("hub", "accept", f"revision {head.number}", "refused", trouble.message, head.digest)
        )


def _understood(*asked: Any) -> judgement.Judged:
    try:
        return judgement.judge(*asked)
    except msgspec.DecodeError as trouble:
        raise Corrupt(
            f"a content of this revision is not understood: {trouble}",
            remedy="upgrade the agent on this node to the release that the fleet is applied with",
            code="content_newer",
        ) from trouble


class _Held(dict[str, bytes]):
    """Contents just fetched, and those held since earlier, which are read only when a rule wants to see them."""

    def __init__(self, world: World, fetched: dict[str, bytes]) -> None:
        super().__init__(fetched)
        self._world = world

    def __missing__(self, digest: str) -> bytes:
        found = self._world.acceptance.blob(digest)
        if found is None:
            raise KeyError(digest)
        self[digest] = found
        return found

    def __contains__(self, digest: object) -> bool:
        return super().__contains__(digest) or self._world.acceptance.blob(str(digest)) is not None


def _refused(why: str) -> Corrupt:
    return Corrupt(
        why,
        remedy="restore the hub's ledger that has the revision this node knows: holdfast import ledger",
        code="revision_refused",
    )
