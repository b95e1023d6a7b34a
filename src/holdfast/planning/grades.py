"""The grade that must sign a change (design.md §2). Pure; the CLI, the hub and every agent use the same rules.

A rule compares the applied state with the next one and returns demands, each a grade and a reason. The resource kinds
have the rules. Nothing here is configurable.
"""

from holdfast.model.plan import Demand
from holdfast.planning.kinds.every import kind_at
from holdfast.planning.kinds.kind import Step


def demands(step: Step) -> tuple[Demand, ...]:
    """Everything a changed address demands of its signers beyond grade `apply`."""
    return tuple(kind_at(step.address).demands(step))
