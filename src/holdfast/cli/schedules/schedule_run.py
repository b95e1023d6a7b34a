"""`holdfast schedule run SVC NAME`: run a schedule now, by a signed order, and wait for its end."""

from argparse import Namespace

import msgspec

from holdfast.cli.flags import Parser
from holdfast.cli.orders import order_and_wait, order_results, order_sign
from holdfast.cli.orders.order_results import Ended
from holdfast.cli.schedules import schedule_view
from holdfast.cli.schedules.schedule_view import ScheduleView
from holdfast.cli.tools import Toolbox
from holdfast.cli.waiting.report_poll import ReportPoll
from holdfast.errors import Failed, Unreachable
from holdfast.model.schedule import RunResult
from holdfast.ports.hub_link import FleetReader

DETAILS = """\
Signs an order with your key (grade apply) and submits it; the node begins a run at once, with the same container,
timeout and retries as at its minutes. The command waits until the node has signed the result, and prints the last
lines. A run that is under way is not begun again, and a stopped service has no runs. If the agent restarted before it
took the order, and has signed that it refused it, the command signs it once more.
Exit 0: the run is done; 1: it failed, or was refused; 4: another signature is needed; 6: no end in time (it goes on).

examples:
  holdfast schedule run web nightly
  holdfast schedule run web nightly --timeout 1h
  holdfast schedule run web nightly --detach --json
"""

ACTION = "run-schedule"


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", help="name of the service (services/NAME.toml)")
    parser.add_argument("name", metavar="NAME", help="name of the schedule")
    order_and_wait.declare_shared(parser)


def run(args: Namespace, box: Toolbox) -> int:
    view = order_and_wait.look(args, box)
    one = schedule_view.named(schedule_view.views(view), args.service, args.name, view)
    target, until_s = f"service.{one.service}", box.clock.monotonic_s() + order_sign.seconds(args.timeout, "--timeout")
    given = order_and_wait.ordered(ACTION, target, (one.node,), {"schedule": args.name}, view, args, box)
    if args.detach:
        return order_results.show_detached(ACTION, target, given, args, box)
    ended = order_and_wait.ended(given, view, args, box)
    if any(never_began(one) for one in ended):
        box.terminal.remark(f"The agent of {one.node} restarted before it took the order; it is signed again, once.")
        given = order_and_wait.ordered(ACTION, target, (one.node,), {"schedule": args.name}, view, args, box)
        ended = order_and_wait.ended(given, view, args, box)
    trouble = order_results.trouble_of(ACTION, target, ended)
    if trouble is not None:
        raise trouble
    box.terminal.remark(f"{one.node} has begun the run.")
    assert isinstance(view.hub, FleetReader), "a ledger directory takes no orders"
    poll = ReportPoll(view.hub, view.applied, (one.node,), box)
    while (last := _last(poll, one, given[0].id)) is None:
        left_s = until_s - box.clock.monotonic_s()
        if left_s <= 0:
            raise Unreachable(
                f"the run of {args.name} is not over yet; it goes on",
                remedy=f"`holdfast schedule list {one.service}` shows its end; a longer --timeout waits for it",
                code="run_under_way",
            )
        poll.rest(left_s)
    return _told(one, last, args, box)


def never_began(ended: Ended) -> bool:
    """The node itself signed that it refused the order for its restart alone. A hub that says so proves nothing."""
    view = ended.view if ended.verified else None
    return view is not None and view.state == "refused" and view.result is not None and view.result.code == "other_life"


def _last(poll: ReportPoll, one: ScheduleView, order: str) -> RunResult | None:
    state = schedule_view.state_of(poll.look().get(one.node), one.service, one.schedule.name)
    ended = (state.last, *state.ordered) if state is not None else ()
    return next((one for one in ended if one is not None and one.order == order), None)


def _told(one: ScheduleView, last: RunResult, args: Namespace, box: Toolbox) -> int:
    if args.json:
        body = {
            "service": one.service,
            "name": one.schedule.name,
            "node": one.node,
            "last": schedule_view.run_document(last),
            "lines": list(last.lines),
        }
        box.terminal.say_raw(msgspec.json.encode(body).decode())
    else:
        for line in last.lines:
            box.terminal.say(line)
        box.terminal.remark(f"{last.outcome} after {last.duration_s:g} s.")
    if last.outcome != "done":
        raise Failed(
            f"the run {one.schedule.name} of {one.service} {last.message}",
            remedy=f"correct the command or its data, then: holdfast schedule run {one.service} {one.schedule.name}",
            code="run_failed",
        )
    return 0
