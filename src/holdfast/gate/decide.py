"""May this be done? One look into the table; whatever is not allowed names the command that would allow it. Pure."""

from msgspec import Struct

from holdfast.gate.acts import ACT_OF, Act
from holdfast.gate.authority import Authority
from holdfast.gate.facts import Facts
from holdfast.gate.table import TABLE, Need
from holdfast.model.fleet import Grade
from holdfast.model.order import ACTIONS
from holdfast.model.trust import RANK


class Deed(Struct, frozen=True):
    """One thing about to be done: what, to what (`data.web`, `service.web`, `node.w1`), where, by whose word."""

    act: Act
    target: str
    node: str
    facts: Facts
    authority: Authority


class Allow(Struct, frozen=True):
    need: Need


class Park(Struct, frozen=True):
    """Not done, and why; `sign` is the command that gives the missing signature."""

    reason: str
    grade: Grade
    sign: str


Decision = Allow | Park


def decide(deed: Deed) -> Decision:
    row = TABLE[deed.act, deed.facts.provenance, deed.facts.data]
    if row.need == "nobody":
        return Allow(row.need)
    lacking = refusal(deed, row.need)
    if lacking is None:
        return Allow(row.need)
    return Park(f"may not {deed.act.value} ({deed.target}): {row.why}; {lacking}", row.need, _sign(deed))


def refusal(deed: Deed, need: Grade) -> str | None:
    """Enough of a grade, and for exactly this: an order says one thing about one target on one node."""
    grade, order = deed.authority.grade, deed.authority.order
    if grade is None:
        return f"it needs an operator's signature of grade {need}, and nobody signed"
    if RANK[grade] < RANK[need]:
        return f"it needs grade {need}, and came with grade {grade}"
    if order is not None and (ACT_OF[order.action], order.target, order.node) != (deed.act, deed.target, deed.node):
        return f"it needs an order of its own: the one given is to {order.action} {order.target} on {order.node}"
    return None


_ACTION_OF = {act: action for action, act in ACT_OF.items()}
_BY_REVISION = "holdfast plan -o change.plan && holdfast sign change.plan --key KEY && holdfast apply change.plan"


def _sign(deed: Deed) -> str:
    """As an order where there is one for it; everything else is part of what is applied."""
    action = _ACTION_OF.get(deed.act)
    if action is None or ACTIONS[action].target != deed.target.partition(".")[0]:
        return _BY_REVISION
    return f"holdfast order sign --node {deed.node} --action {action} --target {deed.target} --submit"
