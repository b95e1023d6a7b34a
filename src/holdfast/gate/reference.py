"""The gate's table as a page for people: docs/reference/gate.md, printed from the rows themselves."""

from collections.abc import Sequence
from enum import Enum

from holdfast.gate.table import ROWS, Row

_HEAD = """\
# The gate

What an agent asks of the operators before it acts, printed from `gate/table.py` by `python -m holdfast.gate.reference`;
a test keeps the two equal. It is compiled in: no file, flag or message changes it.

*Signature* is the lowest grade that must have signed, as an order or as the applied revision. Where a thing came from
is read from the node's own journal, and what would be lost from its own disk; no message has a field for either. An
order is good for the one act, target and node it names. Whatever is not allowed is left as it is, shown as parked
(`holdfast status`), and named with the command that would sign it.
"""


def reference() -> str:
    lines = ["| signature | to | made by | what is there | because |", "|---|---|---|---|---|"]
    return "\n".join([_HEAD, *lines, *(_line(row) for row in ROWS)]) + "\n"


def _line(row: Row) -> str:
    cells = (f"`{row.need}`", _words(row.acts), _words(row.provenance), _words(row.data), row.why)
    return f"| {' | '.join(cells)} |"


def _words(values: Sequence[Enum]) -> str:
    return " · ".join(str(value.value) for value in values) or "whatever"


if __name__ == "__main__":
    import sys

    sys.stdout.write(reference())
