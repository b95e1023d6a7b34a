"""`holdfast lab cut|heal|kill|start|fast`: faults in a lab, and their end."""

from argparse import Namespace

from holdfast.cli.flags import Command, Parser
from holdfast.cli.lab.lab import declare_dir, lab_at, repeated_dir
from holdfast.cli.tools import Toolbox

_CUT = """\
The bridge drops frames in both directions, also of open connections. Cuts add up until `holdfast lab heal`.

examples:
  holdfast lab cut w1
  holdfast lab cut w1 hub1
"""


def _declare_cut(parser: Parser) -> None:
    declare_dir(parser)
    parser.add_argument("node", metavar="A")
    parser.add_argument("other", metavar="B", nargs="?", help="default: all nodes and the host")


def _cut(args: Namespace, box: Toolbox) -> int:
    lab_at(args, box).cut(args.node, args.other)
    box.terminal.remark(
        f"{args.node} is cut from {args.other or 'all nodes and the host'}; "
        f"`holdfast lab heal{repeated_dir(args)}` ends all cuts"
    )
    return 0


_HEAL = """\
examples:
  holdfast lab heal
"""


def _heal(args: Namespace, box: Toolbox) -> int:
    lab_at(args, box).heal()
    box.terminal.remark("All cuts are removed.")
    return 0


_KILL = """\
NODE: kills every process of the node at once, containers included; its disk stays. --agent: kills only the agent.
`hub`: kills only the hub's process.

examples:
  holdfast lab kill w1
  holdfast lab kill w1 --agent
  holdfast lab kill hub
"""


def _declare_kill(parser: Parser) -> None:
    declare_dir(parser)
    parser.add_argument("target", metavar="NODE|hub")
    parser.add_argument("--agent", action="store_true", help="only the node's agent")


def _kill(args: Namespace, box: Toolbox) -> int:
    lab_at(args, box).kill(args.target, args.agent)
    what = f"the agent of {args.target}" if args.agent else args.target
    box.terminal.remark(f"Killed {what}; `holdfast lab start {args.target}{repeated_dir(args)}` starts it again")
    return 0


_START = """\
A node starts with its disk as it was and an empty /run. Its agent starts with it, and on the hub's node the hub too.

examples:
  holdfast lab start w1
  holdfast lab start hub
"""


def _declare_start(parser: Parser) -> None:
    declare_dir(parser)
    parser.add_argument("target", metavar="NODE|hub")


def _start(args: Namespace, box: Toolbox) -> int:
    lab_at(args, box).start(args.target)
    return 0


_FAST = """\
Restarts the hub with --pace fast; the agents follow: they check in every second, and a silent node is unhealthy within
5 s. A container gets at most 8 s to become healthy, whatever `start_period` says, and one without checks and routes is
healthy after 1 s, whatever `settle` says.

examples:
  holdfast lab fast
"""


def _fast(args: Namespace, box: Toolbox) -> int:
    lab_at(args, box).fast()
    return 0


COMMANDS = {
    "lab cut": Command(_CUT, _declare_cut, _cut),
    "lab heal": Command(_HEAL, declare_dir, _heal),
    "lab kill": Command(_KILL, _declare_kill, _kill),
    "lab start": Command(_START, _declare_start, _start),
    "lab fast": Command(_FAST, declare_dir, _fast),
}
