"""Decide whether an action is allowed, from the table; a refusal names the command that would allow it. Pure.

The only maker of `Allowed`, which every verb that touches containers or data takes.
"""

from msgspec import Struct

from holdfast.gate.acts import ACT_OF, Act
from holdfast.gate.authority import Authority
from holdfast.gate.facts import Facts
from holdfast.gate.table import TABLE
from holdfast.model.fleet import Grade
from holdfast.model.order import ACTIONS
from holdfast.model.trust import RANK
from holdfast.ports.allowed import Allowed


class Deed(Struct, frozen=True):
    """One action about to be done: the act, its target (`data.web`, `service.web`, `node.w1`), node and authority.
    `thing` is what is touched, where the target is not touched itself: one container, one path."""

    act: Act
    target: str
    node: str
    facts: Facts
    authority: Authority
    thing: str = ""


class Park(Struct, frozen=True):
    """The action is not done, and why; `sign` is the command that gives the missing signature."""

    reason: str
    grade: Grade
    sign: str


Decision = Allowed | Park


def decide(deed: Deed) -> Decision:
    row = TABLE[deed.act, deed.facts.provenance, deed.facts.data]
    allowed = Allowed(deed.act.name, deed.thing or deed.target)
    if row.need == "none":
        return allowed
    lacking = refusal(deed, row.need)
    if lacking is None:
        return allowed
    return Park(f"may not {deed.act.value} ({deed.target}): {row.why}; {lacking}", row.need, _sign(deed))


def refusal(deed: Deed, need: Grade) -> str | None:
    """The authority must have the grade, and cover exactly this: an order names one action, target and node, the
    accepted revision has one address."""
    grade, order, address = deed.authority.grade, deed.authority.order, deed.authority.address
    if grade is None:
        return f"it needs an operator's signature of grade {need}, and has none"
    if RANK[grade] < RANK[need]:
        return f"it needs grade {need}, and was signed with grade {grade}"
    if order is not None and (ACT_OF[order.action], order.target, order.node) != (deed.act, deed.target, deed.node):
        return f"it needs its own order: the given one is to {order.action} {order.target} on {order.node}"
    if order is None and address != _address(deed.target):
        return f"the signatures of the accepted revision were asked about {address}"
    return None


def _address(target: str) -> str:
    """Data and copies belong to their service."""
    kind, _, rest = target.partition(".")
    return f"service.{rest.partition('.')[0]}" if kind in ("data", "checkpoint") else target


_ACTION_OF = {act: action for action, act in ACT_OF.items()}
_BY_REVISION = "holdfast plan -o change.plan && holdfast sign change.plan --key KEY && holdfast apply change.plan"


def _sign(deed: Deed) -> str:
    """An order if one exists for this act; otherwise a revision."""
    action = _ACTION_OF.get(deed.act)
    if action is None or ACTIONS[action].target != deed.target.partition(".")[0]:
        return _BY_REVISION
    return f"holdfast order sign --node {deed.node} --action {action} --target {deed.target} --submit"
