"""One mistake in a fleet directory, and all of them together. Printed as `file:line: key: what; remedy`."""

from collections.abc import Iterable

from msgspec import Struct

from holdfast.declared.words import printable
from holdfast.errors import Invalid

SHOWN_MAX = 200


class Problem(Struct, frozen=True, order=True):
    """`line` is 0 where a line has no meaning (a file that cannot be read) or was not looked for."""

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
    """The directory is not a fleet yet. `problems` is sorted; `count` also counts those too many to keep."""

    code = "invalid_fleet"

    def __init__(self, problems: Iterable[Problem], uncounted: int = 0) -> None:
        self.problems = tuple(sorted(set(problems)))
        self.count = len(self.problems) + uncounted
        super().__init__(self._text(), remedy="correct what is named above, then run the command again")

    def _text(self) -> str:
        lines = [str(problem) for problem in self.problems[:SHOWN_MAX]]
        if self.count > len(lines):
            lines.append(f"… and {self.count - len(lines):,} more problems")
        return "\n".join(lines)
