"""`holdfast grant list`: credentials that nodes gave to services on other nodes, and when they go."""

from argparse import Namespace

import msgspec

from holdfast.cli import tables
from holdfast.cli.flags import Parser
from holdfast.cli.needs import grant_view
from holdfast.cli.needs.grant_view import GrantView
from holdfast.cli.nodes import fleet_view
from holdfast.cli.nodes.show_report import origin
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox

DETAILS = """\
One line for each login that a provider made. NODE has it; CREDENTIAL counts the logins of one need on one node. STATE
is issued: made, and its node has not said yet that it holds it; held: in use; unused: its node says that it does not
hold it, and it goes when the grace of [[provides]] is over; disabled: refused by the server since the service moved;
revoking: it is taken back now. The grace counts only time in which the node said so: a silent node loses nothing. The
data of a need stays when its login goes. Everything is from the signed reports of the providers.

examples:
  holdfast grant list
  holdfast grant list --node db1 --json
"""

HEADS = ("SERVICE", "NEED", "NODE", "PROVIDER", "TYPE", "STATE", "CREDENTIAL", "ISSUED", "REPORT", "NOTE")
STYLES = {"held": "green"}


def declare(parser: Parser) -> None:
    parser.add_argument("-n", "--node", metavar="NODE", help="only what this node gave or has")


def run(args: Namespace, box: Toolbox) -> int:
    view = fleet_view.look(args, box)
    if args.node:
        fleet_view.node(view, args.node, args)
    found = [one for one in grant_view.views(view) if args.node in (None, one.provider, one.said.node)]
    if args.json:
        document = {"grants": [grant_view.document(one) for one in found]}
        box.terminal.say_raw(msgspec.json.encode(document).decode())
        return 0
    if not found:
        box.terminal.remark("No node reports a credential that it gave. `holdfast need list` shows who waits for one")
        return 0
    for line in tables.lines([_cells(one) for one in found], box.terminal, HEADS, {5: tables.by(STYLES)}, tail=True):
        box.terminal.say(line)
    return 0


def _cells(one: GrantView) -> tuple[str, ...]:
    said = one.said
    return (
        *(said.service, said.need, said.node, one.provider, said.type, said.state, str(said.generation)),
        *(rfc3339(said.issued_s) if said.issued_s else "-", origin(one.one), grant_view.note(one)),
    )
