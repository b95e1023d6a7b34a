"""The nearest known name for one that does not exist. Pure."""

from collections.abc import Iterable


def hint(word: str, known: Iterable[str], form: str = "{}") -> str:
    """`did you mean web? `, to begin a remedy with; "" if no name is near."""
    from difflib import get_close_matches  # only after a mistake (ADR 0003)

    close = get_close_matches(word, list(known), n=1)
    return f"did you mean {form.format(close[0])}? " if close else ""
