"""Print the gate's table as docs/reference/gate.md."""

from collections.abc import Sequence
from enum import Enum

from holdfast.gate.table import ROWS, Row

_HEAD = """\
# The gate

The signature an agent needs before it acts. Printed from `gate/table.py` by `python -m holdfast.gate.reference`; a
test keeps the two equal. The table is compiled in: no file, flag or message changes it.

*Signature* is the lowest grade that must have signed, either an order or the applied revision. The agent reads the
origin of a thing from its own journal, and what would be lost from its own disk; no message has a field for either.
An order covers the one act, target and node it names. An act that is not allowed is not done. It is shown as parked
(`holdfast status`), with the command that would sign it.
"""


def reference() -> str:
    lines = ["| signature | to | made by | what is there | because |", "|---|---|---|---|---|"]
    return "\n".join([_HEAD, *lines, *(_line(row) for row in ROWS)]) + "\n"


def _line(row: Row) -> str:
    signature = "none" if row.need == "nobody" else f"`{row.need}`"
    cells = (signature, _words(row.acts), _words(row.provenance), _words(row.data), row.why)
    return f"| {' | '.join(cells)} |"


def _words(values: Sequence[Enum]) -> str:
    return " · ".join(str(value.value) for value in values) or "any"


if __name__ == "__main__":
    import sys

    sys.stdout.write(reference())
