"""`holdfast logs`: the output of a service's containers on all its nodes, encrypted end to end."""

import re
from argparse import Namespace
from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.cli.flags import Parser, repeated
from holdfast.cli.logs import log_sources
from holdfast.cli.logs.log_call import Call, Inbox
from holdfast.cli.logs.log_lines import LogLines, Manner
from holdfast.cli.logs.log_order import Ordering
from holdfast.cli.nodes import fleet_view
from holdfast.cli.orders import order_fleet, order_submit
from holdfast.cli.tools import Toolbox
from holdfast.errors import INTERRUPTED, Failed, HoldfastError, Invalid, NotPermitted, Unreachable
from holdfast.model import duration
from holdfast.model.ids import is_name
from holdfast.model.order_view import OrderView
from holdfast.model.stream import LogsWanted
from holdfast.wire import faults

DETAILS = """\
Shows the output of the containers, oldest first, each line with its node, component and replica. With -f it continues
with new lines, also across an update: it then follows the new container. Ctrl-C ends it.

The hub relays the stream and cannot read it: it is encrypted between this command and the node, whose certificate is
pinned in the signed revision. Opening a stream is a signed order of grade apply.

Control characters in the logs are made visible; --raw keeps them, for a pipe or a file.

examples:
  holdfast logs web
  holdfast logs web/app -f --tail 20
  holdfast logs web --since 10m -t -n w1
  holdfast logs web --json | jq -r .text
"""

GRACE_S = 3.0  # lines of other nodes wait this long for a node that has not answered
ANSWER_S = 45.0  # an agent in the middle of a rollout looks for orders every thirty
ASK_AGAIN_S = 1.0
TRIES = 3  # two operators may have used the same counter
BATCH = 256
NOT_RUNNING = "not_running"
_REFUSED = ("refused", "failed", "expired")


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC[/COMPONENT]", help="name of the service, or one component of it")
    parser.add_argument("-f", "--follow", action="store_true", help="continue with new lines")
    parser.add_argument("--tail", metavar="N", default="all", help="only the last N lines of each container")
    parser.add_argument("--since", metavar="TIME", default="", help="only newer lines: 10m, 2h, or an RFC 3339 time")
    parser.add_argument("-t", "--timestamps", action="store_true", help="show the time of each line")
    parser.add_argument("-n", "--node", metavar="NODE", default="", help="logs of this node only")
    parser.add_argument("--raw", action="store_true", help="keep control characters (not on a terminal)")


def run(args: Namespace, box: Toolbox) -> int:
    service, component = _target(args.service)
    wanted = _wanted(args, component)
    manner = Manner(service, args.timestamps, args.json, args.raw)
    if args.raw and box.terminal.is_shown():
        raise Invalid(
            "--raw would let the logs control this terminal",
            remedy=f"omit --raw, or send the output to a pipe: holdfast logs {args.service} --raw | less",
            code="usage",
        )
    view = fleet_view.look(args, box)
    desk = order_fleet.desk(view.hub, args, box)
    names = log_sources.nodes(view, service, component, args.node, args)
    ordering = Ordering(view, desk, service, wanted, box.hubs.streams(view.target), box, args)
    listening = Listening(ordering, names, LogLines(box.terminal, manner), box)
    try:
        listening.begin()
        listening.print_all()
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        listening.close()
    return _ended(listening.inbox.left, box)


def _ended(left: dict[str, HoldfastError | None], box: Toolbox) -> int:
    """Raise the worst error of all nodes, and warn about the others.

    A node without a container is not an error as long as another node sent its logs.
    """
    troubles = sorted((why for why in left.values() if why is not None), key=lambda why: why.exit_code)
    is_told = len(troubles) < len(left) and all(why.code == NOT_RUNNING for why in troubles)
    for why in troubles if is_told else troubles[:-1]:
        box.terminal.warn(f"{why.message} ({why.remedy})")
    if troubles and not is_told:
        raise troubles[-1]
    return 0


def _target(text: str) -> tuple[str, str]:
    service, slash, component = text.partition("/")
    if not is_name(service) or (slash and not is_name(component)):
        raise Invalid(
            f"{text!r} is neither a service nor SERVICE/COMPONENT",
            remedy="`holdfast ps` lists them",
            code="usage",
        )
    return service, component


def _wanted(args: Namespace, component: str) -> LogsWanted:
    tail = None if args.tail == "all" else _lines(args.tail)
    wanted = LogsWanted(b"", component, args.follow, tail)
    if not args.since:
        return wanted
    if re.match(duration.PATTERN, args.since) and "\n" not in args.since:
        return replace(wanted, ago_s=duration.milliseconds(args.since) / 1000)
    return replace(wanted, since_s=_moment(args.since))


def _lines(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise Invalid(
            f"--tail {text!r} is not a number of lines", remedy="write --tail 100 or --tail all", code="usage"
        )
    return int(text)


def _moment(text: str) -> float:
    from datetime import datetime

    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None or found.timestamp() < 0:
            raise ValueError(text)
        return found.timestamp()
    except (ValueError, OverflowError):
        raise Invalid(
            f"--since {text!r} is not a time",
            remedy="write --since 10m, or a time with its zone: --since 2026-03-01T12:00:00Z",
            code="usage",
        ) from None


class Listening:
    """All streams of one command, from the orders to the last line."""

    def __init__(self, ordering: Ordering, names: Sequence[str], lines: LogLines, box: Toolbox) -> None:
        self._ordering = ordering
        self._names = names
        self._lines = lines
        self._box = box
        self._calls: dict[str, tuple[str, Call]] = {}
        self._tries: dict[str, int] = {}
        self._named: set[str] = set()  # said to be late
        self.inbox = Inbox(names)

    def begin(self) -> None:
        """A node that cannot be called does not stop the others."""
        for node in self._names:
            silence = self._ordering.view.nodes[node].silence
            if silence:
                self._name(node, silence)
            try:
                self._calls[node] = self._ordering.call(node, self.inbox)
                self._calls[node][1].start()
            except HoldfastError as trouble:
                if len(self._names) == 1 or trouble.code != "not_pinned":
                    raise
                self.inbox.leave(node, trouble)

    def print_all(self) -> None:
        clock, inbox = self._box.clock, self.inbox
        began_s = clock.monotonic_s()
        ask_s = began_s + ASK_AGAIN_S / 3
        while True:
            is_over = len(inbox.left) == len(self._names)  # read before taking lines: a node that left has sent all
            found = inbox.take(BATCH, 0.2)
            if found:
                self._box.terminal.say_raw("\n".join(self._lines.text(node, said) for node, said in found))
                self._box.terminal.flush()
            elif is_over:
                return
            now_s = clock.monotonic_s()
            if inbox.pending and now_s - began_s > GRACE_S:
                inbox.late(inbox.pending)
            if inbox.pending and now_s >= ask_s:
                self._ask(now_s - began_s)
                ask_s = clock.monotonic_s() + ASK_AGAIN_S

    def _ask(self, waited_s: float) -> None:
        """Check the orders of nodes that have not connected."""
        for node in sorted(self.inbox.pending):
            id, call = self._calls[node]
            view = _found(self._ordering.desk.orders(node, order_fleet.ORDERS_SEEN), id)
            if view is not None and view.state in _REFUSED:
                self._refused(node, call, view)
            elif waited_s > ANSWER_S:
                call.drop()
                self.inbox.leave(node, _silent(node, self._ordering.args))
            elif view is not None and view.state == "waiting" and waited_s > order_submit.FETCH_S:
                self._name(node, f"{node} has not fetched the order yet")

    def _name(self, node: str, text: str) -> None:
        """Once: lines of other nodes follow."""
        if node not in self._named:
            self._named.add(node)
            self._box.terminal.remark(f"{text}; waiting up to {ANSWER_S:.0f} s for its logs")

    def _refused(self, node: str, call: Call, view: OrderView) -> None:
        call.drop()
        result = view.result
        tries = self._tries[node] = self._tries.get(node, 1) + 1
        if result is not None and result.code in ("replayed", "other_life") and tries <= TRIES:
            leap = int(self._box.keys.random_hex(1), 16) % 32  # the other command may use the next counter too
            self._calls[node] = self._ordering.call(node, self.inbox, leap)
            self._calls[node][1].start()
            return
        self.inbox.leave(node, _words(view))

    def close(self) -> None:
        for _, call in self._calls.values():
            call.close()


def _found(views: Sequence[OrderView], id: str) -> OrderView | None:
    return next((view for view in views if view.id == id), None)


def _words(view: OrderView) -> HoldfastError:
    result = view.result
    if result is None:
        return Unreachable(
            f"{view.node} did not fetch the order in time", remedy=f"holdfast node show {view.node}", code="expired"
        )
    family = Failed if view.state == "failed" else NotPermitted
    text = f"{view.node} refused to open a log stream: {result.message}"
    remedy = f"holdfast node show {view.node}"
    return faults.passed_on(family, text, result.remedy, remedy=remedy, code=result.code or view.state)


def _silent(node: str, args: Namespace) -> Unreachable:
    return Unreachable(
        f"{node} did not answer within {ANSWER_S:.0f} s",
        remedy=f"`holdfast node show {node}{repeated(args)}` shows its last contact",
        code="no_answer",
    )
