"""`holdfast lab status`: the lab's nodes, as the host sees them."""

from argparse import Namespace

import msgspec

from holdfast.cli import lab_dir
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox
from holdfast.model.lab import LabNode

DETAILS = """\
Shows addresses, processes and directories on the host. `holdfast node list` shows the nodes as the fleet sees them.

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
        box.terminal.say(f"cut: {one} from {other or 'all nodes and the host'}")
    box.terminal.say(f"registry: {status.registry}")
    return 0


def _line(node: LabNode) -> str:
    parts = " ".join(f"{part}={pid}" for part, pid in node.pids.items()) or "off"
    return f"{node.name:<12} {node.address:<16} {'+'.join(node.roles):<16} {parts}"
