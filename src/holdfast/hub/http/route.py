"""The form of a route: what it takes, answers, permits and costs, and what handles it. Holds no route."""

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from holdfast.hub.http import limits
from holdfast.hub.http.operation import Operation

# read: beside others, commits included; sweep: reads the whole ledger, one at a time; write: one at a time; fleet: on
# the event loop, where the fleet lives, for as long as the fleet likes; stream: the same, and the connection carries
# the stream afterwards; object: a backup object on its way to or from the disk, few at a time, beside everything else.
Cost = Literal["read", "sweep", "write", "fleet", "stream", "object"]

REFUSED = (400, 408, 409, 413, 415, 417)  # statuses of every route that takes a body


class Parameter(Struct, frozen=True):
    name: str
    least: int
    most: int
    default: int | None = None


class Word(Struct, frozen=True):
    """A parameter that is a name; may be left out, and is "" then."""

    name: str
    form: str


class Route(Struct, frozen=True):
    """`run` is a method of `handler`; it blocks, but with cost "fleet" or "stream" it is awaited. `check` is a
    method of it, too: it is called before the body is read, and does not block."""

    method: str
    path: str
    permission: Operation
    summary: str
    handler: type
    run: Callable[[Any, Any], Any]
    answer: type | None  # None: plain bytes
    request: type | None = None  # bytes: plain bytes
    query: tuple[Parameter | Word, ...] = ()
    cost: Cost = "read"
    body_bytes_max: int = limits.BODY_BYTES_MAX
    refusals: tuple[int, ...] = ()
    check: Callable[[Any, Any], None] | None = None

    @property
    def operation(self) -> str:
        return self.permission.name


LIMIT = Parameter("limit", 1, limits.HISTORY_MAX, 20)
NODE = Word("node", r"[a-z][a-z0-9-]{0,39}")
