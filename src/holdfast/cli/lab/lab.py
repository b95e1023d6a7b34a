"""`holdfast lab up|down|status|env|exec|curl|image`: a real fleet on this machine."""

from argparse import REMAINDER, Namespace
from shlex import quote

import msgspec

from holdfast.cli.flags import Command, Parser
from holdfast.cli.tools import Toolbox
from holdfast.errors import Invalid
from holdfast.model.lab import LabNode
from holdfast.ports.lab import Lab

DEFAULT = ".lab"
NODES = "hub1:hub+worker,w1:worker,e1:edge"


def declare_dir(parser: Parser) -> None:
    """The flag --dir of every `lab` verb: where the lab is."""
    parser.add_argument("--dir", metavar="D", help="the lab's directory (default: $HOLDFAST_LAB, else .lab)")


def lab_at(args: Namespace, box: Toolbox) -> Lab:
    return box.labs.at(args.dir or box.environ.get("HOLDFAST_LAB") or DEFAULT)


def repeated_dir(args: Namespace) -> str:
    """The flag as given, to append to a command in advice."""
    return f" --dir {quote(args.dir)}" if args.dir else ""


_UP = f"""\
Each node has its own namespaces, address in 100.64.0.0/10, podman store and agent; a registry with example images is on
the bridge between them. Returns once every node has joined and is healthy. D/fleet is the fleet directory, D/operator
is a key that can sign everything. If the lab is already up, the command starts what was killed and changes nothing
else. Needs root. Several labs can run in different directories.

examples:
  holdfast lab up && eval "$(holdfast lab env)" && holdfast node list
  holdfast lab up --dir /tmp/five --nodes {NODES},w2:worker,w3:worker
"""


def _declare_up(parser: Parser) -> None:
    declare_dir(parser)
    parser.add_argument("--nodes", metavar="NAME:ROLE+ROLE,…", default=NODES, help=f"default {NODES}")
    parser.add_argument("--bare", action="store_true", help="machines, network and registry only: no hub, no agents")


def _up(args: Namespace, box: Toolbox) -> int:
    lab = lab_at(args, box)
    lab.up(args.nodes, args.bare)
    box.terminal.remark(f'Next: eval "$(holdfast lab env{repeated_dir(args)})" && holdfast node list')
    return 0


_DOWN = """\
Works on every lab: incomplete, killed or partly removed. The lab's directory is deleted too, with D/fleet and
D/operator: first copy what you want to keep.

examples:
  holdfast lab down
"""


def _down(args: Namespace, box: Toolbox) -> int:
    lab_at(args, box).down()
    return 0


_STATUS = """\
Shows addresses, processes and directories on the host. `holdfast node list` shows the nodes as the fleet sees them.

examples:
  holdfast lab status
  holdfast lab status --json
"""


def _status(args: Namespace, box: Toolbox) -> int:
    lab = lab_at(args, box)
    status = lab.status()
    if args.json:
        box.terminal.say_raw(msgspec.json.encode(status).decode())
        return 0
    for node in status.nodes:
        box.terminal.say(_status_line(node))
    for one, other in lab.cuts():
        box.terminal.say(f"cut: {one} from {other or 'all nodes and the host'}")
    box.terminal.say(f"registry: {status.registry}")
    return 0


def _status_line(node: LabNode) -> str:
    parts = " ".join(f"{part}={pid}" for part, pid in node.pids.items()) or "off"
    return f"{node.name:<12} {node.address:<16} {'+'.join(node.roles):<16} {parts}"


_ENV = """\
examples:
  eval "$(holdfast lab env)"
"""


def _env(args: Namespace, box: Toolbox) -> int:
    variables = lab_at(args, box).variables()
    if args.json:
        box.terminal.say_raw(msgspec.json.encode(variables).decode())
        return 0
    for name, value in variables.items():
        box.terminal.say(f"export {name}={quote(value)}")
    return 0


_EXEC = """\
Runs the command in the node's namespaces with the variables of `lab env`. The host's files are visible, except /run,
/srv, /var/lib/holdfast and /var/lib/containers, which the node has for itself. The exit code is that of the command.

examples:
  holdfast lab exec w1 -- podman ps
  holdfast lab exec e1 -- busybox ip addr
  holdfast lab exec w1 -- holdfast node list
"""


def _declare_exec(parser: Parser) -> None:
    declare_dir(parser)
    parser.add_argument("node", metavar="NODE")
    parser.add_argument("command", metavar="-- CMD", nargs=REMAINDER, help="the command and its arguments")


def _exec(args: Namespace, box: Toolbox) -> int:
    command = _command(args)
    if not command:
        raise Invalid("no command was given", remedy=f"holdfast lab exec {args.node} -- CMD", code="usage")
    return lab_at(args, box).run_inside(args.node, command)


def _command(args: Namespace) -> list[str]:
    """argparse gives everything after NODE to the command, also --dir before the two dashes."""
    words: list[str] = args.command
    if words[:1] == ["--dir"]:
        args.dir, words = words[1] if words[1:] else None, words[2:]
    elif words and words[0].startswith("--dir="):
        args.dir, words = words[0].partition("=")[2], words[1:]
    return words[1:] if words[:1] == ["--"] else words


_CURL = """\
Runs curl --fail --silent --show-error with the lab's CA bundle. A public name (*.example.test) resolves to its edge, an
internal name (*.svc.lab.test) as the nodes' DNS resolves it, and a node's name to the node. Everything after URL is
passed to curl, so its flags come last: --http2, --include, --data and others.

examples:
  holdfast lab curl https://hello.example.test/
  holdfast lab curl https://hello.example.test/ --http2 --include
  holdfast lab curl https://web.hello.svc.lab.test/
  holdfast lab curl https://hub1:9555/openapi.json
"""


def _declare_curl(parser: Parser) -> None:
    declare_dir(parser)
    parser.add_argument("url", metavar="URL")
    parser.add_argument("arguments", metavar="CURL-ARGS", nargs=REMAINDER, help="passed to curl")


def _curl(args: Namespace, box: Toolbox) -> int:
    return lab_at(args, box).curl(args.url, args.arguments)


_IMAGE = """\
load takes a file written by `podman save`; build takes a directory with a Containerfile, in which ARG REGISTRY is the
lab's registry. Prints the name by which every node can pull the image.

examples:
  holdfast lab image load app.tar
  holdfast lab image build ./app --name app:3
"""


def _declare_image(parser: Parser) -> None:
    declare_dir(parser)
    parser.add_argument("action", choices=("load", "build"))
    parser.add_argument("source", metavar="FILE|DIR")
    parser.add_argument("--name", metavar="NAME:TAG", help="with build (default: the directory's name and latest)")


def _image(args: Namespace, box: Toolbox) -> int:
    lab = lab_at(args, box)
    if args.action == "load" and args.name is not None:
        raise Invalid("--name is only for build; a saved image has a name already", remedy="omit --name", code="usage")
    loads = args.action == "load"
    names = lab.load_image(args.source) if loads else lab.build_image(args.source, args.name)
    if args.json:
        box.terminal.say_raw(msgspec.json.encode({"images": names}).decode())
        return 0
    for name in names:
        box.terminal.say(name)
    return 0


COMMANDS = {
    "lab up": Command(_UP, _declare_up, _up),
    "lab down": Command(_DOWN, declare_dir, _down),
    "lab status": Command(_STATUS, declare_dir, _status),
    "lab env": Command(_ENV, declare_dir, _env),
    "lab exec": Command(_EXEC, _declare_exec, _exec),
    "lab curl": Command(_CURL, _declare_curl, _curl),
    "lab image": Command(_IMAGE, _declare_image, _image),
}
