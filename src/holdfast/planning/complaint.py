"""A complaint about a declaration: where it is, what is wrong, and the remedy. A value.

The command line shows it with file and line; the hub refuses a revision for it.
"""

from msgspec import Struct

Path = tuple[str | int, ...]

SHOWN_MAX = 60


def quoted(text: str) -> str:
    """Short, in quotes, on one line, and in plain ASCII: no invisible and no look-alike characters."""
    plain = text if text.isascii() and text.isprintable() else ascii(text)[1:-1]
    return f'"{plain[:SHOWN_MAX]}…"' if len(plain) > SHOWN_MAX else f'"{plain}"'


class Complaint(Struct, frozen=True):
    at: Path  # keys and indices within the document
    what: str
    remedy: str
