"""`holdfast need list`: what services need of which provider, and whether they have it."""

from argparse import Namespace

import msgspec

from holdfast.cli import tables
from holdfast.cli.flags import Parser
from holdfast.cli.needs import need_view
from holdfast.cli.needs.need_view import NeedView
from holdfast.cli.nodes import fleet_view
from holdfast.cli.text import harmless
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.model.duration import aged

DETAILS = """\
STATE is fulfilled: the service has what it needs. waiting: its node asks for it, or has not said anything yet; failed:
its provider refuses, so that waiting does not help; expired: what it has is past its time. The line below says why. The
state is from the signed report of the service's node, which asks its provider with or without a hub. CREDENTIAL counts
the logins that the service got one after the other. A need with required = true holds the start of its service.

examples:
  holdfast need list
  holdfast need list web --json
"""

HEADS = ("SERVICE", "NEED", "TYPE", "PROVIDER", "STATE", "CREDENTIAL", "UNTIL", "REPORT")
STYLES = {"fulfilled": "green", "failed": "red", "expired": "red"}


def declare(parser: Parser) -> None:
    parser.add_argument("services", metavar="SVC", nargs="*", help="only these services (default: all)")


def run(args: Namespace, box: Toolbox) -> int:
    view = fleet_view.look(args, box)
    wanted, known = {name.removeprefix("service.") for name in args.services}, view.applied.table.of_kind("service")
    for name in sorted(wanted - known.keys()):
        raise fleet_view.no_service(name, known)
    found = [one for one in need_view.views(view) if not wanted or one.service in wanted]
    if args.json:
        document = {"needs": [need_view.document(one) for one in found]}
        box.terminal.say_raw(msgspec.json.encode(document).decode())
        return 0
    if not found:
        box.terminal.remark("No need is applied. Add [[needs]] to a service file, then: holdfast apply")
        return 0
    lines = tables.lines([_cells(one) for one in found], box.terminal, HEADS, {4: tables.by(STYLES)})
    box.terminal.say(lines[0])
    for one, line in zip(found, lines[1:], strict=True):
        box.terminal.say(line)
        if one.state != "fulfilled":
            box.terminal.say(f"  {harmless(_why(one, box.clock.now_s()))}")
    return 0


def _cells(one: NeedView) -> tuple[str, ...]:
    said = one.said
    number = str(said.generation) if said is not None and said.generation else "-"
    until = rfc3339(said.until_s) if said is not None and said.until_s else "-"
    name = f"{one.need.name} (required)" if one.need.required else one.need.name
    return (
        *(one.service, name, one.want.type, one.want.provider),
        *(one.state, number, until, need_view.reported_by(one)),
    )


def _why(one: NeedView, now_s: float) -> str:
    words, said = [one.why or "it is asked for now"], one.said
    if said is not None and said.tries:
        words.append(f"{said.tries} tries in vain" if said.tries > 1 else "1 try in vain")
    if said is not None and said.next_s > now_s:
        words.append(f"the next in {aged(said.next_s - now_s)}")
    if one.need.required and (said is None or not said.generation):
        words.append(f"{one.service} does not start without it")
    return "; ".join(words)
