"""Verify the chain of revisions from what this node accepted last to the head that a hub announces."""

import asyncio
from collections.abc import Sequence

from holdfast.agent.acceptance.anchors import Anchors
from holdfast.agent.acceptance.catch_up import Step
from holdfast.errors import Corrupt, TryLater
from holdfast.model.checkin import LINKS_MAX, CheckInAnswer
from holdfast.model.record import Link
from holdfast.model.revision import NO_HEAD, Head, digest_of
from holdfast.model.trust import Trust
from holdfast.ports.acceptance import Accepted
from holdfast.ports.fleet_link import FleetLink
from holdfast.trust import chain
from holdfast.trust.chain import Anchor

NUMBER_MAX = 10_000_000  # no fleet has so many revisions; a hub that announces more wants this node busy
_AT_ONCE = 20  # links verified before the event loop gets a turn: heartbeats must not wait for a long chain


def trust_of(accepted: Accepted) -> Trust:
    return chain.trust_of(accepted.link)


class ChainWalk:
    def __init__(self, link: FleetLink, fleet: str, anchors: Anchors) -> None:
        self._link = link
        self._fleet = fleet
        self.anchors = anchors

    async def steps(self, newest: Accepted | None, answer: CheckInAnswer) -> tuple[list[Step], Head]:
        """Each verified link up to the announced head. Raises Corrupt for a chain that this node must not follow."""
        head, seen = answer.head, newest.head if newest is not None else NO_HEAD
        self._check_forward(head, seen)
        anchor = Anchor(self._fleet, seen, trust_of(newest) if newest is not None else None)
        steps, reached = await self._walk(anchor, answer, is_first=newest is None)
        if reached.head != head:
            raise _refused(f"the links end with revision {reached.head.number}, not with the head that was announced")
        self._check_anchors(steps, newest is None)
        return steps, reached.head

    def lost(self, head: Head) -> Corrupt | None:
        """Why a head must not be followed although it is what the store of this node has: both were put back."""
        if head.number >= self.anchors.accepted.number:
            return None
        return _refused(
            f"the hub shows revision {head.number}, and this node has accepted {self.anchors.accepted.number} once: "
            "hub and node were put back"
        )

    def _check_forward(self, head: Head, seen: Head) -> None:
        if head.number > NUMBER_MAX:
            raise _refused(f"the hub shows revision {head.number}, and no fleet has so many")
        if head.number < seen.number:
            raise _refused(
                f"the hub shows revision {head.number}, this node has accepted {seen.number}: it was rolled back"
            )
        if head.number == seen.number:
            raise _refused(f"the hub shows another revision {head.number} than this node accepted: the chain is forked")
        if head.number < self.anchors.accepted.number:
            raise _refused(
                f"the hub shows revision {head.number}, this node accepted {self.anchors.accepted.number} once: it was "
                "rolled back"
            )
        if head.number < self.anchors.vouched.number:
            raise _refused(
                f"the hub shows revision {head.number}, the operator who invited this node knew "
                f"{self.anchors.vouched.number}"
            )

    async def _walk(self, anchor: Anchor, answer: CheckInAnswer, is_first: bool) -> tuple[list[Step], Anchor]:
        """Links of the answer first, the rest on request. No page is asked for before the last one was verified."""
        at, last = anchor, answer.head.number
        steps: list[Step] = []
        page: Sequence[Link] = [link for link in answer.links if at.head.number < link.header.number <= last]
        if page and page[0].header.number != at.head.number + 1:
            page = ()
        while at.head.number < last:
            page = page or await self._page(at.head.number + 1, last)
            for link in page[:LINKS_MAX]:
                after = chain.step(at, link)
                vouched = is_first and after.head == self.anchors.vouched
                steps.append(Step(link, at.trust or chain.trust_of(link), vouched))
                at = after
                if at.head.number % _AT_ONCE == 0:
                    await asyncio.sleep(0)
            page = ()
        return steps, at

    async def _page(self, first: int, last: int) -> Sequence[Link]:
        page = await self._link.links(first, min(last, first + LINKS_MAX - 1))
        if not page:
            raise TryLater(
                f"the hub did not hand out revision {first}", remedy="holdfast hub check", code="links_missing"
            )
        return page

    def _check_anchors(self, steps: Sequence[Step], is_first: bool) -> None:
        vouched, accepted = self.anchors.vouched, self.anchors.accepted
        if is_first and vouched != NO_HEAD and not any(step.vouched for step in steps):
            raise _refused(
                f"the chain of this hub does not lead through revision {vouched.number} "
                f"({vouched.digest[:12]}…), which the operator who invited this node knew"
            )
        if steps[0].header.number > accepted.number:
            return
        if not any(digest_of(step.link.header_bytes) == accepted.digest for step in steps):
            raise _refused(
                f"the chain of this hub does not lead through revision {accepted.number} "
                f"({accepted.digest[:12]}…), which this node accepted once: it was forked"
            )


def _refused(why: str) -> Corrupt:
    return Corrupt(
        why,
        remedy="restore the hub's ledger that has the revision this node knows: holdfast import ledger",
        code="revision_refused",
    )
