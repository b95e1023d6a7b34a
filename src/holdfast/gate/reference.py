"""Print the gate's table as docs/reference/gate.md."""

from collections.abc import Sequence
from enum import Enum

from holdfast.gate.acts import Act
from holdfast.gate.callers import ASKED, JUDGED, NOT_BUILT
from holdfast.gate.table import ROWS, Row

_HEAD = """\
# The gate

The signature an agent needs before it acts. Printed from `gate/table.py` by `python -m holdfast.gate.reference`; a
test keeps the two equal. The table is compiled in: no file, flag or message changes it.

*Signature* is the lowest grade that must have signed, either an order or the applied revision. The agent reads the
origin of a thing from its own journal, and what would be lost from its own disk; no message has a field for either.
An order covers the one act, target and node it names; the accepted revision covers one address with its data and
containers. An act that is not allowed is not done. It is shown as parked (`holdfast status`), with the command that
would sign it.

What the gate allows is a value, `Allowed`: one act on one thing. Each verb of the container runtime and of the storage
that mounts, starts, stops, removes or runs takes one, and checks that it fits
(`tests/architecture/test_door.py`, `tests/specs/gate/test_weakened.py`). Whatever is done to a container that this
agent did not make counts as taking it away, and needs `orphans` of the node, approved with grade destroy. A path of the
host is mounted only if signatures of grade destroy approved it for that service; the node keeps these approvals
(`tests/scenarios/test_apply_attacks.py`).

A new volume is filled from its image, and given to its declared `owner`, with grade apply: it is empty. To give a
volume with data to another `owner` writes over data: the plan demands grade destroy, and the node does it only if such
signatures approved this owner for this volume. `user` of a component needs grade apply: an image may run as any user,
root among them, without it (`tests/scenarios/test_owners.py`, `tests/specs/planning/test_grades.py`).
"""

_PLACES = """
## Where each act is decided

*Asked*: the agent asks for one container, path, copy or order before it acts. *Judged*: command line, hub and agent
judge the whole revision by this demand before the agent accepts it. A test compares this table with the code
(`tests/architecture/test_door.py`); the rows above are shown case by case by `tests/specs/gate/test_gate.py`.

| to | decided | in | shown by |
|---|---|---|---|
"""

# The test that shows a decision, by the module that asks or judges.
_SHOWN = {
    "agent/orders/order_gate.py": "tests/scenarios/test_agent_orders.py",
    "agent/services/door.py": "tests/scenarios/test_apply_attacks.py",
    "gate/mounts.py": "tests/scenarios/test_apply_attacks.py",
    "gate/copies.py": "tests/contracts/test_storage.py",
    "agent/acceptance/route_grades.py": "tests/scenarios/test_hostile_traffic.py",
    "planning/secrets.py": "tests/specs/planning/test_secret_grades.py",
}
_GRADES = "tests/specs/planning/test_grades.py"


def reference() -> str:
    lines = ["| signature | to | made by | what is there | because |", "|---|---|---|---|---|"]
    table = "\n".join([_HEAD, *lines, *(_line(row) for row in ROWS)]) + "\n"
    return table + _PLACES + "".join(f"| {act.value} | {_place(act)} |\n" for act in Act)


def _place(act: Act) -> str:
    if act in ASKED:
        return f"asked | `{ASKED[act]}` | `{_SHOWN[ASKED[act]]}`"
    if act in JUDGED:
        module = JUDGED[act].module
        return f"judged | `{module}` | `{_SHOWN.get(module, _GRADES)}`"
    return f"not built | {NOT_BUILT[act]} | `tests/architecture/test_door.py`"


def _line(row: Row) -> str:
    signature = "none" if row.need == "none" else f"`{row.need}`"
    cells = (signature, _words(row.acts), _words(row.provenance), _words(row.data), row.why)
    return f"| {' | '.join(cells)} |"


def _words(values: Sequence[Enum]) -> str:
    return " · ".join(str(value.value) for value in values) or "any"


if __name__ == "__main__":
    import sys

    sys.stdout.write(reference())
