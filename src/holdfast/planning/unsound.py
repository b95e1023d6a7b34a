"""The error for a revision that no signature makes right. Pure."""

from holdfast.errors import Corrupt


class Unsound(Corrupt):
    """A revision that no signature makes right."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"this revision is not sound: {why}",
            remedy="compile it again: holdfast plan -o change.plan, sign, apply",
            code="revision_unsound",
        )
