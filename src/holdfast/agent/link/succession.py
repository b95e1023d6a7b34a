"""Whether another machine took the place of this one, by an invite that operators signed for that.

Only that proof counts, never the word of a hub. This machine then runs no service of the node any more, also after a
boot without a hub, and keeps all data. A new invite for this machine ends that.
"""

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from holdfast.agent.acceptance.accept import Accepting
from holdfast.agent.keeper import Revision, Say
from holdfast.agent.membership import Membership
from holdfast.errors import HoldfastError, NotPermitted
from holdfast.model.invite import Enrolment, decode_invite, decode_joining
from holdfast.ports.journal import Facts
from holdfast.trust import enrolment

FACT = "membership/successor"

_read = msgspec.json.Decoder(Enrolment).decode


class Succession:
    """`key` is the public line of this machine; `follow` lets all keepers follow the revision again."""

    def __init__(
        self, *, facts: Facts, accepting: Accepting, member: Membership, key: str, say: Say, follow: Callable[[], None]
    ) -> None:
        self._facts = facts
        self._accepting = accepting
        self._member = member
        self._key = key
        self._say = say
        self._follow = follow
        noted = facts.fact(FACT)
        self.is_over = noted is not None and self._proves(_read(noted))

    def of(self, revision: Revision) -> Revision:
        """What is left to do here of a revision."""
        if not self.is_over:
            return revision
        left = msgspec.structs.replace(revision.manifest, services={}, standby={}, handover={})
        return msgspec.structs.replace(revision, manifest=left, awaited={})

    def heard(self, successor: Enrolment | None) -> None:
        """Raises once it is proven."""
        if successor is None or not self._proves(successor):
            return
        if not self.is_over:
            self._facts.set_aside(FACT, msgspec.json.encode(successor))  # before anything stops
            self.is_over = True
            self._say("replaced", {"node": self._member.node, "by": decode_joining(successor.joining).key})
            self._follow()
        joined = datetime.fromtimestamp(decode_joining(successor.joining).joined_s, UTC)
        raise NotPermitted(
            f"another machine took the place of {self._member.node} at {joined:%Y-%m-%dT%H:%M:%SZ}; this one runs no "
            "service of it any more, and keeps their data",
            remedy=f"if this machine is to be {self._member.node} again: holdfast node invite {self._member.node} "
            "--replace",
            code="replaced",
        )

    def _proves(self, successor: Enrolment) -> bool:
        """Signed later than the invite of this machine: an older one is how this machine was invited, or one before."""
        trust = self._accepting.trust
        if trust is None:
            return False
        try:
            found = enrolment.prove(successor, self._member.fleet, trust)
            ours = decode_invite(self._member.enrolment.invite.invite)
        except HoldfastError:
            return False
        is_other = found.joining.node == self._member.node and found.joining.key != self._key
        return is_other and found.invite.replaces and found.invite.issued_s > ours.issued_s
