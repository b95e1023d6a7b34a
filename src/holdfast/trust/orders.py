"""Verify that operators signed an order for this node and this time. The only maker of `VerifiedOrder`. Pure."""

from collections.abc import Callable, Sequence

from holdfast.errors import Corrupt, Invalid, NotPermitted
from holdfast.model import canonical
from holdfast.model.ids import is_name
from holdfast.model.order import (
    ACTIONS,
    COUNTER_LEAP_MAX,
    COUNTER_WINDOW,
    EXPIRY_S_MAX,
    FORMAT,
    NAMESPACE,
    OLD_FORMAT,
    ActionRule,
    Arguments,
    HubOrder,
    Order,
    Refusal,
    SignedOrder,
    VerifiedOrder,
    decode_order,
)
from holdfast.model.report import SignedPulse
from holdfast.model.trust import Trust
from holdfast.trust import endorsement, lives

ORDER_BYTES_MAX = 16 * 1024  # a pulse among them
ARGUMENTS_BYTES_MAX = 64 * 1024
SKEW_S = 60.0
HOUR_S = 3600.0

_SIGN_AGAIN = lives.SIGN_AGAIN


def verify(
    signed: SignedOrder, fleet: str, node: str, trust: Trust, now_s: float, skew_s: float = SKEW_S
) -> VerifiedOrder:
    """Every check but replay and life, which need the journal: `replay`, trust/lives.py. `now_s` is the time held above
    the time floor."""
    return _verified(signed, _read(signed.order), fleet, node, trust, now_s, skew_s)


def verify_begun(signed: SignedOrder, fleet: str, node: str, trust: Trust, begun_s: float) -> VerifiedOrder:
    """An order that this node began and a crash interrupted: an earlier release may have begun it (format 1)."""
    return _verified(signed, decode_order(signed.order), fleet, node, trust, begun_s, SKEW_S)


def _verified(
    signed: SignedOrder, order: Order, fleet: str, node: str, trust: Trust, now_s: float, skew_s: float
) -> VerifiedOrder:
    _check_addressee(order, fleet, node)
    rule = _rule(order)
    _check_pulse(order, rule)
    _check_target(order, rule)
    _check_time(order, now_s, skew_s)
    arguments = _arguments(order, signed.arguments)
    names = endorsement.signers(
        signed.order,
        signed.signatures,
        NAMESPACE,
        rule.grade,
        (scope_address(order.target),),
        trust,
        f"the order to {order.action} {order.target}",
        "holdfast sign FILE --key KEY && holdfast order submit FILE",
    )
    return VerifiedOrder(order, arguments, rule.grade, names)


def replay(order: Order, highest_counter: int, used: Callable[[int], bool]) -> Refusal | None:
    """Why this node may have run the order before, or None. On None the caller records it durably before acting."""
    if order.counter == 0:
        return _refusal(order, "replayed", "counters begin with 1")
    if order.counter <= highest_counter - COUNTER_WINDOW:
        return _refusal(
            order,
            "replayed",
            f"its counter {order.counter} is too far behind {highest_counter}: it may have been used before",
        )
    if order.counter > highest_counter + COUNTER_LEAP_MAX:
        return _refusal(order, "counter_leap", f"its counter {order.counter} is too far ahead of {highest_counter}")
    if used(order.counter):
        return _refusal(order, "replayed", f"an order with the counter {order.counter} was accepted before")
    return None


def hub_may(order: HubOrder, node: str, recent: Sequence[float], now_s: float) -> Refusal | None:
    """The closed list of what a hub may order without an operator. `recent`: when it ordered this action before."""
    rule = ACTIONS.get(order.action)
    if rule is None or not rule.hub_may:
        return Refusal(
            "signature_required",
            f"a hub may not order {order.action[:40]!r}: an operator has to sign it",
            f"holdfast order sign --node {node} --action ACTION --target TARGET --submit",
        )
    if order.node != node:
        return Refusal(
            "other_node", f"the hub's order is for {order.node[:40]!r}, not for {node}", "holdfast node list"
        )
    target = order.target or (f"node.{node}" if rule.target == "node" else "")
    if (trouble := target_trouble(rule, target, node)) is not None:
        return Refusal("target_mismatch", f"the hub's order to {order.action} {trouble}", "holdfast order list")
    # A time that seems to be in the future counts too: setting a clock back must not allow more orders.
    lately = sum(1 for at_s in recent if now_s - at_s < HOUR_S)
    if rule.hub_per_hour and lately >= rule.hub_per_hour:
        return Refusal(
            "resource_exhausted",
            f"the hub has ordered {order.action} {rule.hub_per_hour} times within the hour, which is the limit",
            _SIGN_AGAIN.format(node=node, action=order.action, target=target),
        )
    return None


def draft(
    fleet: str,
    node: str,
    target: str,
    action: str,
    arguments: Arguments,
    counter: int,
    nonce: str,
    id: str,
    now_s: float,
    expires_s: float,
    pulse: SignedPulse,
    after_restart: bool = False,
) -> tuple[bytes, bytes]:
    """The bytes to sign and the arguments they bind; `expires_s` is a time. Refuses what no node would run."""
    spoken = canonical.encode(dict(arguments))
    not_before_s = int(now_s)
    order = Order(
        FORMAT,
        fleet,
        id,
        node,
        target,
        action,
        canonical.digest(spoken),
        counter,
        nonce,
        not_before_s,
        int(expires_s),
        pulse,
        after_restart,
    )
    content = canonical.encode(order)
    try:
        again = _read(content)
        _check_addressee(again, fleet, node)
        _check_pulse(again, _rule(again))
        _check_target(again, _rule(again))
        _check_time(again, now_s, 0)
        _arguments(again, spoken)
    except (Corrupt, NotPermitted) as trouble:
        raise Invalid(
            trouble.message, remedy="`holdfast order sign --help` shows every action with its target", code=trouble.code
        ) from trouble
    return content, spoken


def scope_address(target: str) -> str:
    """The address that an operator's scope is compared with: the data of a service belongs to the service."""
    kind, _, name = target.partition(".")
    return f"service.{name}" if kind == "data" else target


def target_trouble(rule: ActionRule, target: str, node: str) -> str | None:
    """Why this target does not fit the action, or None."""
    kind, _, name = target.partition(".")
    kinds = (rule.target, "node") if rule.or_node else (rule.target,)
    if kind not in kinds or not is_name(name):
        return f"needs a target of the form {rule.target}.NAME, but has {target[:80]!r}"
    if kind == "node" and name != node:
        return f"is for {node}, but its target is {target}"
    return None


# ---- one check each; tests/specs/gate/test_weakened.py drops every one in turn and must notice -----------------------


def _read(content: bytes) -> Order:
    if len(content) > ORDER_BYTES_MAX:
        raise _malformed(f"it is longer than {ORDER_BYTES_MAX} bytes")
    try:
        order = decode_order(content)
    except Corrupt as trouble:
        raise _malformed(trouble.message) from trouble
    if order.format == OLD_FORMAT:
        raise NotPermitted(
            "an earlier release signed this order (format 1): it names no pulse of its node, so it does not run",
            remedy=f"sign it again: {_SIGN_AGAIN.format(node=order.node, action=order.action, target=order.target)}",
            code="order_format_old",
        )
    if order.format != FORMAT:
        raise _malformed(f"it has format {order.format}; this release reads format {FORMAT}")
    return order


def _check_addressee(order: Order, fleet: str, node: str) -> None:
    if order.fleet != fleet:
        raise NotPermitted(
            f"this order is for another fleet ({order.fleet[:12]}…, this is {fleet[:12]}…)",
            remedy="submit it to the hub of the fleet it was signed for: check --hub and --fleet",
            code="other_fleet",
        )
    if order.node != node or not is_name(order.node):
        raise NotPermitted(
            f"this order is for the node {order.node[:60]!r}, not for {node}",
            remedy="sign an order for this node; an order is valid on the node it names only",
            code="other_node",
        )


def _rule(order: Order) -> ActionRule:
    if order.action not in ACTIONS:
        raise NotPermitted(
            f"the action {order.action[:60]!r} does not exist",
            remedy=f"order one of: {', '.join(ACTIONS)}",
            code="unknown_action",
        )
    return ACTIONS[order.action]


def _check_pulse(order: Order, rule: ActionRule) -> None:
    if order.format != OLD_FORMAT:
        lives.read(order.pulse, order.fleet, order.node)
    if order.after_restart and rule.grade != "apply":
        raise NotPermitted(
            f"an order to {order.action} needs grade {rule.grade}, so it may not run after a restart of the agent",
            remedy="sign it again: " + _SIGN_AGAIN.format(node=order.node, action=order.action, target=order.target),
            code="not_after_restart",
        )


def _check_target(order: Order, rule: ActionRule) -> None:
    trouble = target_trouble(rule, order.target, order.node)
    if trouble is not None:
        raise NotPermitted(
            f"the order to {order.action} {trouble}",
            remedy=f"sign it with --target {rule.target}.NAME (without --target, the target is the node)",
            code="target_mismatch",
        )


def _check_time(order: Order, now_s: float, skew_s: float) -> None:
    again = _SIGN_AGAIN.format(node=order.node, action=order.action, target=order.target)
    if order.expires_s <= order.not_before_s or order.expires_s - order.not_before_s > EXPIRY_S_MAX:
        raise NotPermitted(
            f"an order must be valid for 1 second to {EXPIRY_S_MAX // 86_400} days",
            remedy=f"{again} --expires 7d",
            code="expiry_too_long",
        )
    if now_s >= order.expires_s:  # no tolerance on this side: expired never runs
        raise NotPermitted(
            f"this order expired {int(now_s - order.expires_s)} s ago", remedy=f"sign it again: {again}", code="expired"
        )
    if now_s < order.not_before_s - skew_s:
        raise NotPermitted(
            f"this order is not valid yet: {int(order.not_before_s - now_s)} s too early by this clock",
            remedy="compare the clocks of this machine and of the machine that signed; then submit the order again",
            code="not_yet_valid",
        )


def _arguments(order: Order, content: bytes) -> Arguments:
    if len(content) > ARGUMENTS_BYTES_MAX:
        raise _malformed(f"its arguments are longer than {ARGUMENTS_BYTES_MAX} bytes")
    if canonical.digest(content) != order.arguments:
        raise Corrupt(
            "these are not the arguments that were signed",
            remedy="submit the order file unchanged, as it was signed",
            code="arguments_digest",
        )
    try:
        return canonical.decode(content, dict[str, str], "the arguments")
    except Corrupt as trouble:
        raise _malformed(trouble.message) from trouble


def _malformed(why: str) -> Corrupt:
    return Corrupt(
        f"this order is malformed: {why}",
        remedy="sign it again (`holdfast order sign --help`), and submit the file unchanged",
        code="order_malformed",
    )


def _refusal(order: Order, code: str, why: str) -> Refusal:
    again = _SIGN_AGAIN.format(node=order.node, action=order.action, target=order.target)
    return Refusal(code, f"this order will not run again: {why}", f"to do it once more: {again}")
