"""`holdfast lab status`: the lab's machines, as this machine sees them."""

from argparse import Namespace

import msgspec

from holdfast.cli import lab_dir
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox
from holdfast.model.lab import LabNode

DETAILS = """\
Addresses, processes and directories on the host; what the fleet itself thinks is told by `holdfast node list`.

examples:
  holdfast lab status
  holdfast lab status --json
"""


def declare(parser: Parser) -> None:
    lab_dir.declare(parser)


def run(args: Namespace, box: Toolbox) -> int:
    lab = lab_dir.lab(args, box)
    status = lab.status()
    if args.json:
        box.terminal.say(msgspec.json.encode(status).decode())
        return 0
    for node in status.nodes:
        box.terminal.say(_line(node))
    for one, other in lab.cuts():
        box.terminal.say(f"cut: {one} from {other or 'everybody'}")
    box.terminal.say(f"registry: {status.registry}")
    return 0


def _line(node: LabNode) -> str:
    parts = " ".join(f"{part}={pid}" for part, pid in node.pids.items()) or "off"
    return f"{node.name:<12} {node.address:<16} {'+'.join(node.roles):<16} {parts}"
