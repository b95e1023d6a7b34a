"""A stream between a person and a node: what was ordered, and what travels inside it. Values only."""

from msgspec import Struct

PROTOCOL = "holdfast-stream/1"  # spoken inside the inner TLS, and the name under which a hub switches to it
ACTIONS = frozenset({"logs"})  # orders that open one; `exec` and `run` will be further kinds
ALIVE_S = 15.0  # either end says so often that it is there
SILENT_S = 60.0  # and is given up after hearing nothing for so long


class LogsWanted(Struct, frozen=True):
    """`caller` is the certificate (DER) of the one key that may listen; it was made for this stream alone."""

    caller: bytes
    component: str = ""  # all of them
    follow: bool = False
    tail: int | None = None  # lines of each container; None: all there are
    since_s: float = 0.0  # a moment, by the node's clock
    ago_s: float = 0.0  # or so long ago, by the node's clock


class StreamedLine(Struct, frozen=True, tag="line"):
    """One line of one container."""

    container: str  # its id
    component: str
    replica: int
    at_s: float
    error: bool  # on stderr
    text: str


class CaughtUp(Struct, frozen=True, tag="caught-up"):
    """What was written before is told, in order of time; from here on it comes as it happens."""


class Alive(Struct, frozen=True, tag="alive"):
    """Nothing to say, and still here."""


class Ended(Struct, frozen=True, tag="ended", omit_defaults=True):
    """The last frame: a stream that stops without one was cut. `code` is "" when everything was told."""

    code: str = ""
    message: str = ""
    remedy: str = ""


Frame = StreamedLine | CaughtUp | Alive | Ended
