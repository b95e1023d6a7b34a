"""What must hold of whoever judges orders, as complaints: none about the real module, some about a weak one."""

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from msgspec.structs import replace

from holdfast.errors import HoldfastError, Invalid
from holdfast.model import canonical
from holdfast.model.order import ACTIONS, COUNTER_LEAP_MAX, COUNTER_WINDOW, HubOrder
from holdfast.trust.orders import ORDER_BYTES_MAX
from tests.fleets.orders import FLEET, GOOD, NODE, NOW_S, PULSE, Case, hexed, outcome, pulse, purge, sound, spoiled

GOOD_BUT_ENDLESS = replace(GOOD, order=GOOD.order.ljust(ORDER_BYTES_MAX + 1))


def verifying(orders: Any, cases: tuple[Case, ...]) -> Iterator[str]:
    for case in cases:
        found = _tried(lambda case=case: outcome(orders.verify, case))  # type: ignore[misc]
        if found == "verified" or (case.expect and found not in case.expect):
            yield f"{case.name}: {found}"
    for case in sound():
        found = _tried(lambda case=case: outcome(orders.verify, case))  # type: ignore[misc]
        if found != "verified":
            yield f"refused although sound: {case.name}: {found}"
    # A bound must bite before the bytes are parsed, whatever parsing would say.
    endless = Case("endless", GOOD_BUT_ENDLESS, ("order_malformed",))
    if "longer than" not in _words(lambda: orders.verify(*_presented(endless))):
        yield "an order without end is parsed before it is refused"
    full = Case("full", replace(GOOD, order=GOOD.order.ljust(ORDER_BYTES_MAX)), ("order_malformed",))
    if "canonical" not in _words(lambda: orders.verify(*_presented(full))):
        yield "an order of the longest length is not looked at"


def _presented(case: Case) -> tuple[Any, ...]:
    return case.order, case.fleet, case.node, case.trust, case.now_s


def replaying(orders: Any) -> Iterator[str]:
    def refused(counter: int, highest: int, *used: int) -> str:
        found = _tried(lambda: orders.replay(purge(counter=counter), highest, lambda n: n in used))
        return found if isinstance(found, str) else (found.code if found is not None else "")

    wanted = [
        ((1, 0), ""),
        ((8, 7, 7), ""),
        ((6, 7, 7), ""),
        ((5000 - COUNTER_WINDOW + 1, 5000), ""),
        ((COUNTER_LEAP_MAX, 0), ""),
        ((0, 0), "replayed"),
        ((7, 7, 7), "replayed"),
        ((6, 7, 6, 7), "replayed"),
        ((5000 - COUNTER_WINDOW, 5000), "replayed"),
        ((1, 2**40), "replayed"),
        ((COUNTER_LEAP_MAX + 1, 0), "counter_leap"),
        ((2**53 - 1, 7), "counter_leap"),
    ]
    for asked, answer in wanted:
        if refused(*asked) != answer:
            yield f"replay{asked}: {refused(*asked) or 'runs'}, not {answer or 'runs'}"


def hub_asking(orders: Any) -> Iterator[str]:
    def refused(action: str, node: str = NODE, target: str = "", recent: tuple[float, ...] = ()) -> str:
        found = _tried(lambda: orders.hub_may(HubOrder(hexed("hub"), node, action, target), NODE, recent, NOW_S))
        return found if isinstance(found, str) else (found.code if found is not None else "")

    for action, rule in ACTIONS.items():
        target = "" if rule.target == "node" else f"{rule.target}.web"
        answer = "" if rule.hub_may else "signature_required"
        if refused(action, target=target) != answer:
            yield f"a hub orders {action}: {refused(action, target=target) or 'runs'}"
        if rule.hub_may:
            per_hour = rule.hub_per_hour
            lately = tuple(NOW_S - 3599.0 + n for n in range(per_hour))
            if per_hour and refused(action, target=target, recent=lately) != "resource_exhausted":
                yield f"a hub orders {action} {per_hour + 1} times an hour"
            if per_hour and refused(action, target=target, recent=lately[1:]):
                yield f"a hub may not order {action} {per_hour} times an hour"
            if per_hour and refused(action, target=target, recent=(NOW_S - 3600.0,) * per_hour):
                yield f"what was ordered an hour ago still counts against {action}"
            if per_hour and not refused(action, target=target, recent=(NOW_S + 5.0,) * per_hour):
                yield f"a clock set back lets a hub order {action} again"
            if not per_hour and refused(action, target=target, recent=(NOW_S,) * 50):
                yield f"{action} is limited, and should not be"
    others: list[tuple[tuple[str, str, str], str]] = [
        (("wipe", NODE, ""), "signature_required"),
        (("ping", "w2", ""), "other_node"),
        (("ping", NODE, "node.w2"), "target_mismatch"),
        (("ping", NODE, "node.w1"), ""),
        (("backup", NODE, ""), "target_mismatch"),
        (("backup", NODE, "data.web"), "target_mismatch"),
        (("backup", NODE, "node.w1"), ""),
        (("backup", NODE, "node.w2"), "target_mismatch"),
        (("drill", NODE, "node.w1"), "target_mismatch"),
        (("backup", NODE, "service.Web"), "target_mismatch"),
    ]
    for asked, answer in others:
        if refused(*asked) != answer:
            yield f"a hub orders {asked}: {refused(*asked) or 'runs'}"


def drafting(orders: Any) -> Iterator[str]:
    def draft(**changed: Any) -> tuple[bytes, bytes]:
        whole: dict[str, Any] = {
            "fleet": FLEET,
            "node": NODE,
            "target": "data.web",
            "action": "purge",
            "arguments": {"reason": "x"},
            "counter": 7,
            "nonce": hexed("nonce"),
            "id": hexed("id"),
            "now_s": NOW_S + 0.7,
            "expires_s": NOW_S + 900.7,
            "pulse": PULSE,
        }
        made: tuple[bytes, bytes] = orders.draft(**(whole | changed))
        return made

    good = purge(arguments=canonical.digest(b'{"reason":"x"}'))
    if _tried(draft) != (canonical.encode(good), b'{"reason":"x"}'):
        yield "a sound order cannot be drafted"
    for changed in (
        {"action": "wipe"},
        {"target": "service.web"},
        {"target": "data.a/b"},
        {"node": "W1", "pulse": pulse(node="W1")},
        {"fleet": "x"},
        {"nonce": "x"},
        {"id": ""},
        {"counter": -1},
        {"counter": 2**53},
        {"expires_s": NOW_S + 7 * 86_400 + 1},
        {"expires_s": NOW_S - 1},
        {"arguments": {"x": "y" * 70_000}},
        {"pulse": replace(PULSE, pulse=b"{}")},
        {"after_restart": True},
    ):
        try:
            draft(**changed)
            yield f"{changed} can be drafted"
        except Invalid:
            continue
        except Exception as trouble:
            yield f"{changed} is met with {trouble!r}"


def complaints(orders: ModuleType, cases: tuple[Case, ...] | None = None) -> list[str]:
    chosen = tuple(spoiled()) if cases is None else cases
    return [*verifying(orders, chosen), *replaying(orders), *hub_asking(orders), *drafting(orders)]


def _tried(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except Exception as trouble:  # a verifier that falls over is as wrong as one that agrees
        return f"fell over: {trouble!r}"


def _words(question: Callable[[], Any]) -> str:
    try:
        question()
    except HoldfastError as refused:
        return refused.message
    return ""
