"""`holdfast schedule logs SVC NAME`: the last lines of the last run, from the node's signed report."""

from argparse import Namespace

import msgspec

from holdfast.cli.flags import Parser
from holdfast.cli.nodes import fleet_view
from holdfast.cli.schedules import schedule_view
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict

DETAILS = """\
A node keeps the last 20 lines of the last run of each schedule and signs them in its report. For whole logs let the
command write to a volume or to a log service.
Exit 1 if no run has ended yet.

examples:
  holdfast schedule logs web nightly
  holdfast schedule logs web nightly --json
"""


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", help="name of the service (services/NAME.toml)")
    parser.add_argument("name", metavar="NAME", help="name of the schedule")


def run(args: Namespace, box: Toolbox) -> int:
    view = fleet_view.look(args, box)
    one = schedule_view.named(schedule_view.views(view), args.service, args.name, view)
    last = one.state.last if one.state is not None else None
    if last is None:
        raise Conflict(
            f"no run of {args.name} has ended yet, as far as {one.node or 'its node'} reports",
            remedy=f"`holdfast schedule list {one.service}` shows the next run",
            code="no_run_yet",
        )
    if args.json:
        body = {**schedule_view.document(one), "lines": list(last.lines)}
        box.terminal.say_raw(msgspec.json.encode(body).decode())
        return 0
    code = f", exit code {last.exit_code}" if last.exit_code is not None else ""
    tries = f", {last.attempts} attempts" if last.attempts > 1 else ""
    box.terminal.remark(f"{rfc3339(last.started_s)}: {last.outcome} after {last.duration_s:g} s{code}{tries}")
    for line in last.lines:
        box.terminal.say(line)
    return 0
