"""By which rules the grades and scopes of a revision are judged. Values only.

A stricter rule holds from a revision on: it must not make the past of a fleet invalid. Each judge (hub, agent, command
line) keeps in its own state the head at which it met the rules first. No field that a signer or a hub sends chooses
them.
"""

from typing import Literal

from msgspec import Struct

Rules = Literal["first", "bounded"]  # "bounded": scopes bound names and places, fleet-wide keys need grade destroy
NEWEST: Rules = "bounded"


class RulesSince(Struct, frozen=True):
    """The last revision that a judge does not judge by these rules, one field for each set of rules but the first."""

    bounded: int

    def of(self, number: int) -> Rules:
        return "bounded" if number > self.bounded else "first"


def met_at(number: int) -> RulesSince:
    """A judge without a memory: what is in the history already was judged by the rules of its time."""
    return RulesSince(bounded=number)
