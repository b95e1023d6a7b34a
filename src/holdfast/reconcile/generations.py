"""Whether archives of a service keep their key: addressed again for more readers, replaced for fewer. Pure."""

from collections.abc import Set
from typing import Literal

from msgspec import Struct

Turn = Literal["keep", "readdress", "begin"]


class Generation(Struct, frozen=True):
    """The key of one generation: packs are sealed to `recipient`, whose identity lies sealed in `key` for `readers`."""

    number: int
    recipient: str
    readers: tuple[str, ...]  # SSH lines of nodes and age recipients of operators, sorted
    key: bytes


def turn(current: Generation | None, readers: Set[str]) -> Turn:
    """A reader that is gone knows the key, so what is packed from now on gets another one. What was packed stays."""
    if current is None or set(current.readers) - readers:
        return "begin"
    return "readdress" if readers - set(current.readers) else "keep"
