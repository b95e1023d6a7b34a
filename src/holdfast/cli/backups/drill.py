"""`holdfast drill SVC`: prove a backup by restoring it beside the service, by a signed order."""

from argparse import Namespace
from typing import Any, Final

import msgspec

from holdfast.cli.backups import backed_up, backup_view, drill_view
from holdfast.cli.flags import Parser
from holdfast.cli.orders import order_and_wait, order_results, order_sign
from holdfast.cli.sizes import counted, size
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.errors import Failed, Invalid, Unreachable
from holdfast.model.drill import DrillResult, DrillState
from holdfast.model.verified_report import VerifiedReport

DETAILS = """\
Signs an order with your key (grade apply) and submits it. The node fetches the newest backup from where it is stored,
compares every digest, and unpacks it into a scratch directory. It starts the components of the service on it, with
their images, variables and secrets, in a network without any way out, and waits until their health checks answer. Then
it runs cmd of [drill], if the service declares one, and removes everything again. The service itself runs on, and its
data is not touched. Without any order a node does this at drill_interval of [backups].

--backup proves an older backup. The command waits for the verdict; with --detach it does not.
Exit 0: verified, the backup can be restored; 1: failed, it cannot, or the order was refused; 4: another signature is
needed; 6: inconclusive, nothing is known about the backup, or no end in time (it goes on).

examples:
  holdfast drill web
  holdfast drill web --backup 4f0c2a --timeout 2h
  holdfast drill web --json
"""

ACTION: Final = "drill"
WAIT = "1h"


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", help="name of the service (services/NAME.toml)")
    parser.add_argument("--backup", metavar="ID", default="", help="the backup, as `holdfast backup list` shows it")
    parser.add_argument("--node", metavar="NODE", default="", help="the node that proves it; it must run the service")
    parser.add_argument(
        "--detach", action="store_true", help="submit the order and return; holdfast order list shows it"
    )
    parser.add_argument(
        "--timeout", metavar="TIME", default=WAIT, help=f"how long to wait for the verdict (default {WAIT})"
    )


def run(args: Namespace, box: Toolbox) -> int:
    view = order_and_wait.look(args, box)
    service = args.service.removeprefix("service.")
    node, target = backed_up.home(service, view), f"service.{service}"
    if args.node not in ("", node):
        raise Invalid(
            f"{node} backs {service} up, so a drill runs there", remedy=f"holdfast drill {service}", code="not_placed"
        )
    arguments = {"backup": backup_view.named(view, service, args.backup).digest} if args.backup else {}
    until_s = box.clock.monotonic_s() + order_sign.seconds(args.timeout, "--timeout")
    given = order_and_wait.ordered(ACTION, target, (node,), arguments, view, args, box)
    if args.detach:
        return order_results.show_detached(ACTION, target, given, args, box)
    trouble = order_results.trouble_of(ACTION, target, order_and_wait.ended(given, view, args, box))
    if trouble is not None:
        raise trouble
    shown = [""]

    def verdict(report: VerifiedReport) -> DrillResult | None:
        state = drill_view.of(report, service)
        if state is not None and state.last is not None and state.last.order == given[0].id:
            return state.last
        if state is not None and state.running_s and not args.json and (words := _progress(state)) != shown[-1]:
            box.terminal.remark(words)
            shown.append(words)
        return None

    return _told(service, node, backed_up.awaited(verdict, ACTION, service, node, until_s, view, box), args, box)


def _progress(state: DrillState) -> str:
    """A line for each step, and for each tenth of what is restored."""
    if not state.total_bytes:
        return state.step
    tenths = min(int(state.done_bytes * 10 / state.total_bytes), 10)
    return f"{state.step}: {tenths * 10} % of {size(state.total_bytes)}"


def _told(service: str, node: str, result: DrillResult, args: Namespace, box: Toolbox) -> int:
    if args.json:
        box.terminal.say_raw(msgspec.json.encode(_document(service, node, result)).decode())
    else:
        _say(service, result, box)
    if result.verdict == "failed":
        what = f"backup {result.id} of {service}" if result.backup else f"the drill of {service}"
        raise Failed(f"{what} failed: {result.reason}", remedy=result.remedy, code="drill_failed")
    if result.verdict == "inconclusive":
        raise Unreachable(
            f"the drill of {service} has no result: {result.reason}", remedy=result.remedy, code="drill_inconclusive"
        )
    return 0


def _say(service: str, result: DrillResult, box: Toolbox) -> None:
    if result.backup and result.made_s:
        box.terminal.say(f"Backup {result.id} of {service}, number {result.sequence}, made {rfc3339(result.made_s)}")
    for check in result.checks:
        box.terminal.say(f"  {check}")
    if result.lines and result.verdict != "verified":
        box.terminal.say("  its last lines:")
        for line in result.lines:
            box.terminal.say(f"    {line}")
    if result.verdict == "verified":
        restored = f"{counted(result.files, 'file')}, {size(result.size_bytes)}"
        box.terminal.say(f"Verified: {restored}; {result.took_s:.1f} s. Everything was removed again.")


def _document(service: str, node: str, result: DrillResult) -> dict[str, Any]:
    return {
        "verdict": result.verdict,
        "service": service,
        "node": node,
        "backup": result.id or None,
        "made": rfc3339(result.made_s) if result.made_s else None,
        "at": rfc3339(result.at_s),
        "took_s": round(result.took_s, 3),
        "files": result.files,
        "size_bytes": result.size_bytes,
        "checks": list(result.checks),
        "reason": result.reason or None,
        "lines": list(result.lines),
    }
