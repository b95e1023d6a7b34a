"""Names that must be unique among their kind. Pure."""

from collections.abc import Sequence

from holdfast.declared.flaw import Flaws
from holdfast.declared.words import Path


def check(file: str, named: Sequence[tuple[str, Path]], what: str, flaws: Flaws) -> None:
    """Note every name that was used before; each comes with the path of the table that has it."""
    seen: set[str] = set()
    for name, path in named:
        if name in seen:
            flaws.add_checked(
                file, (*path, "name"), f'"{name}" is already the name of another {what}', "rename one of them"
            )
        seen.add(name)
