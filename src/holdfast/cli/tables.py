"""Rows as a table: columns aligned, and on a terminal never wider than it is."""

from collections.abc import Callable, Mapping, Sequence

from holdfast.cli.terminal import Terminal, clip, width
from holdfast.cli.text import harmless

GAP = "  "
SHORT = 6  # a column is not shortened below this

Row = Sequence[str]
Styles = Mapping[int, Callable[[str], str]]  # column → the style of its cells
NONE: Styles = {}


def by(styles: Mapping[str, str]) -> Callable[[str], str]:
    return lambda cell: styles.get(cell, "yellow")


def lines(
    rows: Sequence[Row], terminal: Terminal, heads: Row = (), styles: Styles = NONE, tail: bool = False
) -> list[str]:
    """If the terminal is too narrow, the widest columns are shortened; not the first, nor one with a style. `tail`: the
    last column is a message that may continue on the next line of the terminal. Elsewhere nothing is shortened."""
    table = [[harmless(cell) for cell in row] for row in (*([heads] if heads else []), *rows)]
    if not table:
        return []
    aligned = range(len(table[0]) - tail)
    columns = terminal.columns()
    widths = [max(width(row[at]) for row in table) for at in aligned]
    if columns:
        widths = _fitted(widths, columns, {0, *styles})
    return [
        _line(row, widths, columns, terminal, {at: lambda _: "bold" for at in aligned} if heads and n == 0 else styles)
        for n, row in enumerate(table)
    ]


def _fitted(widths: list[int], columns: int, kept: set[int]) -> list[int]:
    """The widest column is shortened first, as far as needed: one short column reads better than several."""
    found = list(widths)
    excess = sum(found) + len(GAP) * (len(found) - 1) - columns
    for at in sorted(set(range(len(found))) - kept, key=lambda at: -found[at]):
        less = max(0, min(excess, found[at] - SHORT))
        found[at] -= less
        excess -= less
    return found


def _line(row: Row, widths: Sequence[int], columns: int, terminal: Terminal, styles: Styles) -> str:
    left, parts = columns, []
    for at, size in enumerate(widths):
        cell = clip(row[at], min(size, left) if columns else size)
        is_last = at == len(row) - 1
        text = cell if is_last else cell + " " * (size - width(cell))
        parts.append(terminal.paint(styles[at](row[at]), text) if at in styles and cell else text)
        left = max(0, left - size - len(GAP))
    return GAP.join([*parts, *row[len(widths) :]]).rstrip()
