"""Who may take an order back at the hub: the operators who could sign it, and the one who submitted it. Pure."""

from holdfast.errors import NotPermitted
from holdfast.model.order import ACTIONS, Order
from holdfast.model.trust import Trust, may_sign, outside_scope
from holdfast.trust.orders import scope_address


def require_right(order: Order, operator: str, trust: Trust) -> None:
    """Refuse an operator who could not sign this order. "": the one who submitted it, who may take it back."""
    if not operator:
        return
    found = next((one for one in trust.operators if one.name == operator), None)
    grade = ACTIONS[order.action].grade if order.action in ACTIONS else "root"
    if found is None or not may_sign(trust, found, grade) or outside_scope(found, (scope_address(order.target),)):
        raise NotPermitted(
            f"{operator[:60]} could not sign an order to {order.action} {order.target}, so cannot cancel it",
            remedy="ask the operator who submitted it, or one who can sign it: `holdfast order list` names them",
        )
