"""Join the fleet at a hub, and send accepted revisions to a hub that lost its ledger."""

from collections.abc import Callable

from holdfast.agent.keeper import Say
from holdfast.agent.link import salvage
from holdfast.agent.link.succession import Succession
from holdfast.agent.membership import Membership
from holdfast.errors import Conflict
from holdfast.model.checkin import JoinAnswer, JoinRequest
from holdfast.ports.acceptance import Acceptance
from holdfast.ports.fleet_link import FleetLink


class Joining:
    """`confirmed` is called when a hub took this node in."""

    def __init__(
        self,
        *,
        link: FleetLink,
        acceptance: Acceptance,
        member: Membership,
        arch: str,
        say: Say,
        confirmed: Callable[[], None],
        succession: Succession,
    ) -> None:
        self._link = link
        self._acceptance = acceptance
        self._arch = arch
        self._say = say
        self._confirmed = confirmed
        self._succession = succession
        self.member = member

    async def join(self) -> JoinAnswer:
        me = self.member
        try:
            answer = await self._link.join(JoinRequest(me.enrolment, me.node, me.roles, me.address, self._arch))
        except Conflict as trouble:
            if trouble.code == "nothing_applied" and self._acceptance.newest() is not None:  # it had a ledger once
                await self.hand_over()
            raise
        if not answer.accepted:
            self._succession.heard(answer.successor)
            raise Conflict(
                f"the hub did not admit {me.node} to the fleet",
                remedy=f"`holdfast node invite {me.node}`, then `holdfast agent join TOKEN`",
                code="not_registered",
            )
        self._confirmed()
        self._say("joined", {"node": me.node, "head": answer.head.number})
        return answer

    async def hand_over(self) -> None:
        await salvage.hand_over(self.member.node, self._acceptance, self._link.salvage)
