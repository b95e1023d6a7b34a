"""Follow the newest hub only: one that was replaced by a restored one gets no say, and learns of the newer one.

The statement that operators sign (trust/hub_generations.py) can only make this node refuse a hub. What a hub sends is
judged as before: by the signatures of revisions and orders.
"""

from msgspec.structs import replace

from holdfast.agent.acceptance.accept import Accepting
from holdfast.agent.findings import Findings
from holdfast.errors import HoldfastError, TryLater
from holdfast.model import hub_generation
from holdfast.model.checkin import CheckIn, CheckInAnswer, JoinAnswer, JoinRequest
from holdfast.model.hub_generation import Generation, SignedGeneration
from holdfast.model.record import Link
from holdfast.model.salvage import SalvageAnswer, SalvagePart
from holdfast.ports.fleet_link import FleetLink
from holdfast.ports.journal import Facts
from holdfast.trust import hub_generations

FACT = "hub/generation"
OLD, UNPROVEN = "old_hub", "hub_unproven"


class FollowedHub:
    """A link to the hub whose answers come from the newest hub that this node knows of."""

    def __init__(self, link: FleetLink, *, facts: Facts, findings: Findings, accepting: Accepting, fleet: str) -> None:
        self._link = link
        self._facts = facts
        self._findings = findings
        self._accepting = accepting
        self._fleet = fleet
        noted = facts.fact(FACT)
        self._own = hub_generation.restored(noted, "the journal of this node") if noted is not None else None
        self._is_older = False  # the hub that answered last

    async def check_in(self, message: CheckIn) -> CheckInAnswer:
        own = self._own
        if own is not None:
            message = replace(message, hub=own.digest, newer_hub=own if self._is_older else None)
        answer = await self._link.check_in(message)
        if answer.hub == (own.digest if own is not None else ""):
            self._agreed()
        elif answer.salvage_wanted and not answer.registered:
            return answer  # it lost its ledger and asks for it; the answer has nothing else
        else:
            self._judge(own, answer)
        return answer

    def _judge(self, own: SignedGeneration | None, answer: CheckInAnswer) -> None:
        shown = answer.restored_hub
        said = self._proven(shown) if shown is not None else None
        if shown is not None and said is not None and (own is None or said.rank > _rank(own)):
            self._facts.set_aside(FACT, hub_generation.stored(shown))  # before anything of it is followed
            self._own = shown
            self._agreed()
            return
        # A hub that is ahead may have been restored by an operator whom this node learns of with the next revision.
        is_ahead = shown is not None and answer.head.number > self._accepting.seen.number
        if own is None or (said is None and is_ahead):
            return
        self._is_older = True
        mine = hub_generation.decode(own.generation)
        self._findings.add(
            OLD,
            f"the hub that answers was replaced: generation {mine.number} of it was restored, and this one is older; "
            "services keep running as accepted",
            "stop the old hub, and start the restored one at the address of this node's hub (`holdfast hub run`)",
        )
        raise TryLater(
            f"this hub was replaced by generation {mine.number}, so this node does not follow it",
            remedy="stop it, and start the restored one: holdfast hub run",
            code=OLD,
        )

    def _proven(self, shown: SignedGeneration) -> Generation | None:
        trust = self._accepting.trust
        if trust is None:
            return None
        try:
            said = hub_generations.verify(shown, self._fleet, trust)
        except HoldfastError as trouble:
            text = f"the hub says that it was restored, but does not prove it: {trouble.message}"
            self._findings.add(UNPROVEN, text, trouble.remedy)
            return None
        self._findings.clear(UNPROVEN)
        return said

    def _agreed(self) -> None:
        self._is_older = False
        self._findings.clear(OLD)
        self._findings.clear(UNPROVEN)

    # ---- passed on

    async def salvage(self, part: SalvagePart) -> SalvageAnswer:
        return await self._link.salvage(replace(part, generation=self._own))

    async def join(self, request: JoinRequest) -> JoinAnswer:
        return await self._link.join(request)

    async def links(self, first: int, last: int) -> list[Link]:
        return await self._link.links(first, last)

    async def blob(self, digest: str) -> bytes | None:
        return await self._link.blob(digest)

    async def is_there(self) -> bool:
        return await self._link.is_there()

    async def close(self) -> None:
        await self._link.close()


def _rank(signed: SignedGeneration) -> tuple[int, int, str]:
    return hub_generation.decode(signed.generation).rank
