"""A mistake in a fleet directory, and the error with all of them: `file:line: key: what; remedy`."""

from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from holdfast.declared.words import printable
from holdfast.errors import Invalid

SHOWN_MAX = 200


class Problem(Struct, frozen=True, order=True):
    """`line` is 0 where a line has no meaning (a file that cannot be read) or was not looked up."""

    file: str
    line: int
    key: str
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        place = f"{printable(self.file)}:{self.line}" if self.line else printable(self.file)
        key = f"{self.key}: " if self.key else ""
        return f"{place}: {key}{self.what}" + (f"; {self.remedy}" if self.remedy else "")


class Problems(Invalid):
    """The directory has mistakes. `problems` is sorted; `count` also counts those not kept."""

    code = "invalid_fleet"

    def __init__(self, problems: Iterable[Problem], uncounted: int = 0) -> None:
        self.problems = tuple(sorted(set(problems)))
        self.count = len(self.problems) + uncounted
        super().__init__(self._text(), remedy="correct the lines named above, then run the command again")

    def rewrite(self, change: Callable[[str], str]) -> None:
        """The remedy of each problem."""
        self.problems = tuple(replace(problem, remedy=change(problem.remedy)) for problem in self.problems)
        self.message = self._text()

    def _text(self) -> str:
        lines = [str(problem) for problem in self.problems[:SHOWN_MAX]]
        if self.count > len(lines):
            lines.append(f"… and {self.count - len(lines):,} more problems")
        return "\n".join(lines)
