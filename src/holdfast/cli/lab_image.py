"""`holdfast lab image load FILE|build DIR`: put your own image into the lab's registry."""

from argparse import Namespace

import msgspec

from holdfast.cli import lab_dir
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox
from holdfast.errors import Invalid

DETAILS = """\
load takes a file written by `podman save`; build takes a directory with a Containerfile, in which ARG REGISTRY is the
lab's registry. Prints the name by which every node can pull the image.

examples:
  holdfast lab image load app.tar
  holdfast lab image build ./app --name app:3
"""


def declare(parser: Parser) -> None:
    lab_dir.declare(parser)
    parser.add_argument("action", choices=("load", "build"))
    parser.add_argument("source", metavar="FILE|DIR")
    parser.add_argument("--name", metavar="NAME:TAG", help="with build (default: the directory's name and latest)")


def run(args: Namespace, box: Toolbox) -> int:
    lab = lab_dir.lab(args, box)
    if args.action == "load" and args.name is not None:
        raise Invalid("--name is only for build; a saved image has a name already", remedy="omit --name", code="usage")
    loads = args.action == "load"
    names = lab.load_image(args.source) if loads else lab.build_image(args.source, args.name)
    if args.json:
        box.terminal.say(msgspec.json.encode({"images": names}).decode())
        return 0
    for name in names:
        box.terminal.say(name)
    return 0
