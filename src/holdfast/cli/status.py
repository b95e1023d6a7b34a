"""`holdfast status`: what the hub serves, and everything that is wrong with it."""

from argparse import Namespace

import msgspec

from holdfast.cli import session, show_finding
from holdfast.cli.flags import Parser
from holdfast.cli.terminal import harmless
from holdfast.cli.toolbox import Toolbox
from holdfast.declared.load import load
from holdfast.errors import Conflict

DETAILS = """\
Served revision, head of the ledger, quarantined resources, and every finding with its code and remedy.

examples:
  holdfast status
  holdfast status --hub http://127.0.0.1:9555 --json
"""


def declare(parser: Parser) -> None:
    """Takes nothing of its own."""


def run(args: Namespace, box: Toolbox) -> int:
    target = session.hub_target(args, None if args.hub else load(box.fleet_directory(args.fleet)))
    hub = box.hub(target)
    if hub is None:
        raise Conflict(f"there is no ledger at {target}", remedy="holdfast apply makes it", code="nothing_applied")
    found = hub.status()
    if args.json:
        box.terminal.say(msgspec.json.encode(found).decode())
        return 0
    served = ", ".join(f"{count} {kind}" for kind, count in sorted(found.resources.items())) or "nothing"
    box.terminal.say(harmless(f"serving revision {found.serving.number} from {found.source}: {served}"))
    if found.head != found.serving:
        box.terminal.say(f"the ledger's head is revision {found.head.number}")
    for finding in found.findings:
        box.terminal.say(show_finding.text(finding, box.terminal))
    return 0
