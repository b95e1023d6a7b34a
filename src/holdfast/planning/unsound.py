"""The error for a revision that no signature makes valid. Pure."""

from holdfast.errors import Corrupt


class Unsound(Corrupt):
    """A revision that no signature makes valid."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"this revision is not valid: {why}",
            remedy="compile it again: `holdfast plan -o change.plan`, then sign and apply that file",
            code="revision_unsound",
        )
