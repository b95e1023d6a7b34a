"""A stream between an operator and a node: its order, and its frames. Values only."""

from msgspec import Struct

PROTOCOL = "holdfast-stream/1"  # used inside the inner TLS, and in the hub's HTTP upgrade
ACTIONS = frozenset({"logs"})  # orders that open one; `exec` and `run` will be further kinds
ALIVE_S = 15.0  # each end sends a keep-alive this often
SILENT_S = 60.0  # and gives up the other end after this long without a frame


class LogsWanted(Struct, frozen=True):
    """`caller` is the certificate (DER) of the one key that may connect; it was made for this stream only."""

    caller: bytes
    component: str = ""  # "": all of them
    follow: bool = False
    tail: int | None = None  # lines of each container; None: all
    since_s: float = 0.0  # a time, by the node's clock
    ago_s: float = 0.0  # or this long ago, by the node's clock


class StreamedLine(Struct, frozen=True, tag="line"):
    """One line of one container."""

    container: str  # its id
    component: str
    replica: int
    at_s: float
    error: bool  # on stderr
    text: str


class CaughtUp(Struct, frozen=True, tag="caught-up"):
    """All earlier lines have been sent, in order of time; from here on lines come as they are written."""


class Alive(Struct, frozen=True, tag="alive"):
    """A keep-alive."""


class Ended(Struct, frozen=True, tag="ended", omit_defaults=True):
    """The last frame: a stream that stops without one was cut. `code` is "" when all lines were sent."""

    code: str = ""
    message: str = ""
    remedy: str = ""


Frame = StreamedLine | CaughtUp | Alive | Ended
