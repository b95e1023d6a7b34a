"""`holdfast retired restore SVC`: bring back what a purge set aside, or a service to the data that a node kept."""

from argparse import Namespace

from holdfast.cli.flags import Parser, repeated
from holdfast.cli.fleet.plan import declare_message
from holdfast.cli.fleet.signing import operator_signer
from holdfast.cli.nodes import fleet_view
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.orders import order_and_wait
from holdfast.cli.secrets import secret_opening
from holdfast.cli.services import kept_copy
from holdfast.cli.services.copies import left
from holdfast.cli.services.purge import data_on, set_aside
from holdfast.cli.sizes import counted, size
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict, Invalid
from holdfast.model.report import RetiredData

DETAILS = """\
On a node, what a purge set aside (for 7 days) comes first: the newest of it, with its checkpoints, is put back by an
order of grade destroy, and stays there unused. The service must not be applied on that node meanwhile.

Otherwise the service itself comes back to the data that a node kept of it, by a signed revision:
  retired                the removed service is applied again as it was before, also after an accidental removal
  superseded or fenced   the service leaves the node that has it now, and goes on with the older copy. This needs grade
                         destroy, and a node that is silent or a service that was stopped (`holdfast stop SVC`): what
                         was written since stays there, as a fenced copy. `holdfast migrate` brings the newer data

Exit 0: done; 1: the node failed or refused; 2: no node reports such data; 3: the service runs elsewhere; 4: another
signature is needed; 5: several nodes have such data; 6: no answer in time.

examples:
  holdfast retired
  holdfast retired restore old-web
  holdfast retired restore old-web -n w1 --yes --json
"""

ACTION = "restore-retired"


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", help="the service whose data comes back")
    parser.add_argument("-n", "--node", metavar="NODE", help="the node that has the data")
    order_and_wait.declare_shared(parser)
    declare_message(parser)
    secret_opening.declare(parser, "your age identity, for secrets that this node cannot open")
    parser.add_argument("--adopt", action="store_true", help="continue although fleet.lock is behind")


def run(args: Namespace, box: Toolbox) -> int:
    name = args.service.removeprefix("service.").removeprefix("data.")
    view = order_and_wait.look(args, box)
    node, found = _found(name, view, args)
    if not found.purge:
        return kept_copy.bring_back(name, node, found, view, args, box)
    target, arguments = f"data.{name}", {"purge": found.purge}
    signer = operator_signer(view.applied.trust.operators, args, box)
    order_and_wait.refuse_if_hopeless(ACTION, target, (node,), arguments, signer, view, args)
    if not args.json:
        copies = f", {counted(found.checkpoints, 'checkpoint')}" if found.checkpoints else ""
        much = f"{size(found.size_bytes)} in {counted(found.files, 'file')}{copies}"
        kept = f"; kept until {rfc3339(found.until_s)}" if found.until_s else ""
        box.terminal.say(f"Data of {name} on {node}: {much}{kept}.")
    box.terminal.confirm("Bring this data back?", "not brought back")
    return order_and_wait.carry_out(ACTION, target, (node,), view, args, box, arguments)


def _found(name: str, view: FleetView, args: Namespace) -> tuple[str, RetiredData]:
    """On a node, the newest that a purge set aside comes first. Of several nodes, only that of a removed service."""
    if args.node:
        fleet_view.node(view, args.node, args)
    nodes = [args.node] if args.node else sorted(view.nodes)
    found = {node: rows[-1] for node in nodes if (rows := set_aside(node, name, view))}
    found |= {n: one for n in nodes if n not in found and (one := data_on(n, name, view)) is not None}
    if not found:
        raise Invalid(
            f"no node reports data of {name} that could be brought back",
            remedy="`holdfast retired` lists what can be brought back",
            code="not_found",
        )
    fresh = sorted(found, key=lambda node: _order(node, found[node], view))
    rest = [found[node] for node in fresh[1:]]
    is_clear = not any(one.purge for one in found.values()) and all(one.state for one in rest)
    if not rest or (is_clear and not found[fresh[0]].state):
        return fresh[0], found[fresh[0]]
    known = ", ".join(f"{node} ({_which(node, found[node], view)})" for node in fresh)
    raise Conflict(
        f"several nodes have data of {name} that could be brought back: {known}",
        remedy=f"name the node: holdfast retired restore {name} -n {fresh[0]}{repeated(args)}",
        code="ambiguous",
    )


def _order(node: str, data: RetiredData, view: FleetView) -> tuple[bool, bool, int]:
    """That of a removed service first, then the newest copy that a move left; purged data last."""
    return bool(data.purge), bool(data.state), -left(node, data, view.applied).epoch


def _which(node: str, data: RetiredData, view: FleetView) -> str:
    copy = left(node, data, view.applied)
    return "purged" if data.purge else f"{copy.state}, epoch {copy.epoch}"
