"""`holdfast lab curl URL`: fetch a URL as a client outside the fleet."""

from argparse import REMAINDER, Namespace

from holdfast.cli import lab_dir
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox

DETAILS = """\
Runs curl --fail --silent --show-error with the lab's CA bundle. A public name (*.example.test) resolves to its edge, an
internal name (*.svc.lab.test) as the nodes' DNS resolves it, and a node's name to the node. Everything after URL is
passed to curl, so its flags come last: --http2, --include, --data and others.

examples:
  holdfast lab curl https://hello.example.test/
  holdfast lab curl https://hello.example.test/ --http2 --include
  holdfast lab curl https://web.hello.svc.lab.test/
  holdfast lab curl https://hub1:9555/openapi.json
"""


def declare(parser: Parser) -> None:
    lab_dir.declare(parser)
    parser.add_argument("url", metavar="URL")
    parser.add_argument("arguments", metavar="CURL-ARGS", nargs=REMAINDER, help="passed to curl")


def run(args: Namespace, box: Toolbox) -> int:
    return lab_dir.lab(args, box).curl(args.url, args.arguments)
