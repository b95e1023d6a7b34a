"""How often the long cases run: the smallest count in `make test`, the full one in `make soak`."""

import os
from typing import TypeVar

T = TypeVar("T")

SOAK = os.environ.get("HOLDFAST_SOAK") == "1"


def counted(smallest: T, full: T) -> T:
    return full if SOAK else smallest
