"""One measured figure, its target and its verdict; many of them as a table and as JSON. Measures nothing."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Figure:
    """`ours` and `peer` have the unit; the target is for their ratio if there is a peer, else for ours.

    Without a target a figure is told, not judged. `at_least` turns the comparison round.
    """

    name: str
    unit: str
    ours: float
    peer: float | None = None
    target: float | None = None
    at_least: bool = False
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.ours / self.peer if self.peer else None

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        judged = self.ours if self.ratio is None else self.ratio
        return "ok" if (judged >= self.target if self.at_least else judged <= self.target) else "MISSED"


HEADINGS = ("measurement", "unit", "ours", "peer", "ratio", "target", "verdict", "note")


def table(figures: Sequence[Figure]) -> str:
    """Markdown, so that the same lines are read in a terminal and pasted into docs/bench.md."""
    rows = [HEADINGS, *(_row(figure) for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def document(figures: Sequence[Figure]) -> list[dict[str, object]]:
    return [{**asdict(figure), "ratio": figure.ratio, "verdict": figure.verdict} for figure in figures]


def _row(figure: Figure) -> tuple[str, ...]:
    sign = "≥" if figure.at_least else "≤"
    per = " ×" if figure.peer else ""
    target = f"{sign} {figure.target:g}{per}" if figure.target is not None else ""
    return (
        figure.name,
        figure.unit,
        _number(figure.ours),
        _number(figure.peer),
        _number(figure.ratio),
        target,
        figure.verdict,
        figure.note,
    )


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
