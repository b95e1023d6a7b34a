"""Decision tables are what they were: the gate, permissions, the boot table, the actions of orders."""

from itertools import product
from typing import Any

from holdfast.gate.acts import ACT_OF, Act, Data, Provenance
from holdfast.gate.authority import Authority
from holdfast.gate.decide import Deed, Park, decide
from holdfast.gate.facts import Facts
from holdfast.hub.http import permissions
from holdfast.ledger import boot_findings
from holdfast.model.fleet import Grade
from holdfast.model.order import ACTIONS
from holdfast.model.principal import KINDS, Principal
from tests.golden import stored

AUTHORITIES: tuple[Grade | None, ...] = (None, "apply", "destroy", "root")


def decision(act: Act, provenance: Provenance, data: Data, grade: Grade | None) -> str:
    deed = Deed(act, "data.web", "w1", Facts(provenance, data), Authority(grade, address="service.web"))
    found = decide(deed)
    return f"park for {found.grade}" if isinstance(found, Park) else "allow"


def test_the_gate() -> None:
    """One line for every act, provenance and state of data; the decision without a signature and with each grade."""
    lines = [
        " ".join((act.name, provenance.name, data.name, "|"))
        + " "
        + ", ".join(f"{grade or 'unsigned'}: {decision(act, provenance, data, grade)}" for grade in AUTHORITIES)
        for act, provenance, data in product(Act, Provenance, Data)
    ]
    stored.check("tables/gate.txt", "\n".join(lines) + "\n")


def test_the_permissions() -> None:
    rows = {
        operation: {kind: _may(kind, operation) for kind in KINDS} for operation in [*permissions.OPERATIONS, "unknown"]
    }
    stored.check("tables/permissions.json", stored.pretty(rows))


def _may(kind: Any, operation: str) -> str:
    refused = permissions.may(Principal(kind, "name", "key"), operation)
    return "allowed" if refused is None else refused.code


def test_the_boot_table() -> None:
    """Code → level, and if the hub refuses to start, plain and with --strict."""
    rows = {}
    for code in boot_findings.ROWS:
        for address in ("", "service.web", "fleet"):
            found = boot_findings.finding(code, "text", address)
            refused = {strict: boot_findings.refusal([found], strict) for strict in (False, True)}
            assert all(one is None or one.code == code for one in refused.values())
            rows[f"{code} {address}".strip()] = {
                "level": found.level,
                "refuses": refused[False] is not None,
                "refuses strictly": refused[True] is not None,
            }
    stored.check("tables/boot.json", stored.pretty(rows))


def test_the_actions_of_orders() -> None:
    rows = {
        action: {
            "grade": rule.grade,
            "target": rule.target,
            "hub may": rule.hub_may,
            "hub per hour": rule.hub_per_hour,
            "built": rule.built,
            "act": ACT_OF[action].name,
        }
        for action, rule in ACTIONS.items()
    }
    stored.check("tables/actions.json", stored.pretty(rows))
