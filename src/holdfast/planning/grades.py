"""Which grade must sign which change (design.md §2). Pure; the CLI, the hub and every agent ask the same rules.

A rule compares what is applied with what would be applied and answers with demands, each a grade and a reason.
The rules are those of the resource kinds. Nothing here is configurable.
"""

from holdfast.model.plan import Demand
from holdfast.planning.kinds.every import kind_at
from holdfast.planning.kinds.kind import Step


def demands(step: Step) -> tuple[Demand, ...]:
    """Everything a changed address asks of its signers beyond grade `apply`."""
    return tuple(kind_at(step.address).demands(step))
