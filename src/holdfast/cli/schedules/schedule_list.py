"""`holdfast schedule list`: schedules with their next and last runs, as their nodes report them."""

from argparse import Namespace

import msgspec

from holdfast.cli import tables
from holdfast.cli.flags import Parser
from holdfast.cli.nodes import fleet_view
from holdfast.cli.schedules import schedule_view
from holdfast.cli.schedules.schedule_view import ScheduleView
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.model.duration import aged

DETAILS = """\
NEXT is the next minute at which a run begins, in UTC. LAST is the end of the last run: done, failed, timed_out, or lost
if its end is not known. A missed run was not begun: no agent ran at its minute, or the clock jumped over it. A skipped
run was left out because the run before was under way (overlap = "skip"). Everything is from the signed reports of the
nodes; a node runs its schedules with or without a hub.

examples:
  holdfast schedule list
  holdfast schedule list web --json
"""

HEADS = ("SERVICE", "SCHEDULE", "CRON", "NEXT", "LAST", "STATE")


def declare(parser: Parser) -> None:
    parser.add_argument("services", metavar="SVC", nargs="*", help="only these services (default: all)")


def run(args: Namespace, box: Toolbox) -> int:
    view = fleet_view.look(args, box)
    wanted = {name.removeprefix("service.") for name in args.services}
    for name in sorted(wanted - view.applied.table.of_kind("service").keys()):
        raise fleet_view.no_service(name, view.applied.table.of_kind("service"))
    found = [one for one in schedule_view.views(view) if not wanted or one.service in wanted]
    if args.json:
        document = {"schedules": [schedule_view.document(one) for one in found]}
        box.terminal.say_raw(msgspec.json.encode(document).decode())
        return 0
    if not found:
        box.terminal.remark("No schedule is applied. Add [[schedule]] to a service file, then: holdfast apply")
        return 0
    rows = [_cells(one, box.clock.now_s()) for one in found]
    for line in tables.lines(rows, box.terminal, HEADS, tail=True):
        box.terminal.say(line)
    return 0


def _cells(one: ScheduleView, now_s: float) -> tuple[str, ...]:
    cron = one.schedule.cron if one.schedule.timezone == "UTC" else f"{one.schedule.cron} {one.schedule.timezone}"
    state = one.state
    if state is None:
        return (one.service, one.schedule.name, cron, "-", "-", f"{one.node or 'no node'} does not report it")
    last = "-"
    if state.last is not None:
        last = f"{state.last.outcome} {aged(max(0.0, now_s - state.last.due_s))} ago"
    next_run = rfc3339(state.next_s) if state.next_s else "never"
    return (one.service, one.schedule.name, cron, next_run, last, _state(one))


def _state(one: ScheduleView) -> str:
    state = one.state
    assert state is not None
    words = []
    if state.running_s:
        words.append("runs" if state.attempt < 2 else f"runs (attempt {state.attempt})")
    counted = ((state.queued, "waiting"), (state.missed, "missed"), (state.skipped, "skipped"))
    words += [f"{count} {word}" for count, word in counted if count]
    if state.idle:
        words.append(f"idle: {state.idle}")
    if not one.verified:
        words.append(f"unverified: the report of {one.node} is old")
    return ", ".join(words) or "waits"
