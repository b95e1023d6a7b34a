"""The suites of the gate and of orders notice every weakened gate: made here, in memory; the product has no switch.

Each row of the table let through, each check dropped, each half of a condition, each bound moved by one.
"""

import ast
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.gate import decide as real_gate
from holdfast.gate.table import ROWS, expanded
from holdfast.ports.allowed import Allowed
from holdfast.trust import enrolment as real_enrolment
from holdfast.trust import orders as real_orders
from tests.fleets import door_suite, enrolments, facts_suite, gate_suite, order_suite
from tests.fleets.orders import Case, spoiled
from tests.fleets.weaken import module, mutants, source_of

# Bits of one signed text prove what one of them proves; the full set runs against the real module (test_orders.py).
SAMPLE: tuple[Case, ...] = tuple(
    case for case in spoiled() if " byte " not in case.name and "character" not in case.name
)


def gate_of(tree: ast.Module) -> ModuleType:
    return module("holdfast.gate.decide", tree)


@pytest.mark.parametrize("index", range(len(ROWS)))
def test_a_row_let_through_is_noticed(index: int) -> None:
    weaker: dict[str, Any] = {"root": "destroy", "destroy": "apply", "apply": "none", "none": "apply"}
    for need in ("none", weaker[ROWS[index].need]):
        if need == ROWS[index].need:
            continue
        rows = (*ROWS[:index], replace(ROWS[index], need=need), *ROWS[index + 1 :])
        gate = gate_of(ast.parse(source_of("holdfast.gate.decide")))
        gate.TABLE = expanded(rows)  # type: ignore[attr-defined]
        assert list(gate_suite.deciding(gate)), f"{ROWS[index].why}: needs {need}"


def unnoticed(
    names: Iterator[tuple[str, ast.Module]], suite: Callable[[ast.Module], list[str]]
) -> tuple[int, list[str]]:
    count, missed = 0, []
    for how, tree in names:
        count += 1
        if not suite(tree):
            missed.append(how)
    return count, missed


def test_a_weakened_decision_is_noticed() -> None:
    count, missed = unnoticed(
        mutants("holdfast.gate.decide"), lambda tree: _guarded(lambda: gate_suite.complaints(gate_of(tree)))
    )
    assert count >= 8 and missed == []


def test_weakened_facts_are_noticed() -> None:
    def suite(tree: ast.Module) -> list[str]:
        return _guarded(lambda: list(facts_suite.complaints(module("holdfast.gate.facts", tree))))

    count, missed = unnoticed(mutants("holdfast.gate.facts"), suite)
    assert count >= 8 and missed == []


DOORS = {
    "holdfast.gate.containers": door_suite.touching,
    "holdfast.gate.mounts": door_suite.mounting,
    "holdfast.ports.allowed": door_suite.permitting,
    "holdfast.agent.acceptance.approvals": door_suite.approving,
}


@pytest.mark.parametrize("name", DOORS)
def test_a_weakened_door_is_noticed(name: str) -> None:
    """Rollouts, orphans, schedules and storage: what each may touch, and with whose signature."""
    suite = DOORS[name]
    assert list(suite(import_module(name))) == []
    count, missed = unnoticed(mutants(name), lambda tree: _guarded(lambda: list(suite(module(name, tree)))))
    assert count >= 2 and missed == []


def test_weakened_verification_of_orders_is_noticed() -> None:
    def suite(tree: ast.Module) -> list[str]:
        return _guarded(lambda: order_suite.complaints(module("holdfast.trust.orders", tree), SAMPLE))

    count, missed = unnoticed(mutants("holdfast.trust.orders"), suite)
    assert count >= 40 and missed == []


def test_weakened_counting_of_signatures_is_noticed() -> None:
    def suite(tree: ast.Module) -> list[str]:
        orders = module("holdfast.trust.orders", ast.parse(source_of("holdfast.trust.orders")))
        orders.endorsement = module("holdfast.trust.endorsement", tree)  # type: ignore[attr-defined]
        return _guarded(lambda: order_suite.complaints(orders, SAMPLE))

    count, missed = unnoticed(mutants("holdfast.trust.endorsement"), suite)
    assert count >= 4 and missed == []


def test_weakened_enrolment_is_noticed() -> None:
    def suite(tree: ast.Module) -> list[str]:
        return _guarded(lambda: list(enrolments.complaints(module("holdfast.trust.enrolment", tree))))

    count, missed = unnoticed(mutants("holdfast.trust.enrolment"), suite)
    assert count >= 20 and missed == []


def test_the_suites_have_nothing_against_the_real_ones() -> None:
    assert gate_suite.complaints(real_gate) == []
    assert order_suite.complaints(real_orders, SAMPLE) == []
    assert list(enrolments.complaints(real_enrolment)) == []


def test_a_gate_without_any_check_is_noticed_by_each_suite() -> None:
    """The suites themselves: something that agrees with everything must not pass."""
    yes = SimpleNamespace(
        Deed=real_gate.Deed,
        Allowed=Allowed,
        Park=real_gate.Park,
        decide=lambda deed: Allowed(deed.act.name, deed.thing),
    )
    assert list(gate_suite.deciding(yes)) and list(gate_suite.ordering(yes)) and list(gate_suite.signing(yes))
    assert list(gate_suite.covering(yes))
    agreeable = SimpleNamespace(
        verify=lambda *a: None, replay=lambda *a: None, hub_may=lambda *a: None, draft=lambda **k: (b"", b"")
    )
    for part in (order_suite.replaying, order_suite.hub_asking, order_suite.drafting):
        assert list(part(agreeable))
    assert len(list(order_suite.verifying(agreeable, SAMPLE))) >= len(SAMPLE)


def _guarded(suite: Callable[[], list[str]]) -> list[str]:
    try:
        return suite()
    except Exception as trouble:  # a weakened module that falls over was noticed
        return [repr(trouble)]
