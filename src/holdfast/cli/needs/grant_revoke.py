"""`holdfast grant revoke SERVICE NEED`: end the login of a need at once, by a signed order to its provider."""

from argparse import Namespace
from collections.abc import Sequence

from holdfast.cli.flags import Parser, repeated
from holdfast.cli.fleet.signing import operator_signer
from holdfast.cli.needs import grant_view
from holdfast.cli.needs.grant_view import GrantView
from holdfast.cli.nodes import fleet_view
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.orders import order_and_wait
from holdfast.cli.sizes import counted
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict, Invalid
from holdfast.model.nearest import hint

DETAILS = """\
For a credential that leaked, or that must go before its grace is over. Signs an order of grade destroy for the
provider, which ends the login with its connections; every credential of that need on that node goes. The data stays.
While the need is declared, its node notices within some minutes and asks for the next credential; the service is then
told as on_change says. Until then it has a login that the server refuses. To end it for good, remove [[needs]] first.
Exit 0: done; 1: the provider failed or refused; 2: no provider reports such a credential; 4: another signature is
needed; 5: several nodes have one; 6: no answer in time.

examples:
  holdfast grant revoke web db
  holdfast grant revoke web db -n w1 -p db1 --yes --json
"""

ACTION = "revoke-grant"


def declare(parser: Parser) -> None:
    parser.add_argument("service", metavar="SVC", help="the service that has the credential")
    parser.add_argument("need", metavar="NEED", help="the name of the need")
    parser.add_argument("-n", "--node", metavar="NODE", help="the node that has the credential, if there are several")
    parser.add_argument("-p", "--provider", metavar="NODE", help="the node that gave it, if there are several")
    order_and_wait.declare_shared(parser)


def run(args: Namespace, box: Toolbox) -> int:
    view = order_and_wait.look(args, box)
    for name in (args.node, args.provider):
        if name:
            fleet_view.node(view, name, args)
    name = args.service.removeprefix("service.")
    provider, node, found = _chosen(name, view, args)
    target, arguments = f"service.{name}", {"need": args.need, "consumer": node}
    signer = operator_signer(view.applied.trust.operators, args, box)
    order_and_wait.refuse_if_hopeless(ACTION, target, (provider,), arguments, signer, view, args)
    if not args.json:
        box.terminal.say(_words(name, args.need, provider, node, found))
    box.terminal.confirm("Revoke?", "not revoked")
    return order_and_wait.carry_out(ACTION, target, (provider,), view, args, box, arguments)


def _chosen(name: str, view: FleetView, args: Namespace) -> tuple[str, str, list[GrantView]]:
    """Provider, node, and the credentials there, oldest first."""
    every = grant_view.views(view)
    found = [one for one in every if (one.said.service, one.said.need) == (name, args.need)]
    found = [one for one in found if args.node in (None, one.said.node) and args.provider in (None, one.provider)]
    places = sorted({(one.provider, one.said.node) for one in found})
    if len(places) == 1:
        return (*places[0], found)
    if places:
        raise _several(name, places, args)
    if args.node and args.provider and not grant_view.is_told(view.nodes[args.provider]):
        return args.provider, args.node, []  # it does not say now what it gave
    raise _none(name, every, args)


def _several(name: str, places: Sequence[tuple[str, str]], args: Namespace) -> Conflict:
    known = ", ".join(f"{node} (given by {provider})" for provider, node in places)
    provider, node = places[0]
    return Conflict(
        f"several credentials of need {args.need} of {name} exist: {known}",
        remedy=f"name one: holdfast grant revoke {name} {args.need} -n {node} -p {provider}{repeated(args)}",
        code="ambiguous",
    )


def _none(name: str, every: Sequence[GrantView], args: Namespace) -> Invalid:
    where = "".join(f" {word} {node}" for word, node in (("on", args.node), ("given by", args.provider)) if node)
    known = sorted({f"{one.said.service} {one.said.need}" for one in every})
    return Invalid(
        f"no provider reports a credential of need {args.need!r} of {name!r}{where}",
        remedy=hint(f"{name} {args.need}", known) + "`holdfast grant list` lists them",
        code="not_found",
    )


def _words(name: str, need: str, provider: str, node: str, found: Sequence[GrantView]) -> str:
    if not found:
        return f"{provider} does not say now what it gave; whatever {node} has of need {need} of {name} ends."
    what = f"{counted(len(found), 'credential')} of need {need} ({found[0].said.type}) of {name} on {node}"
    is_wanted = any(one.declared for one in found)
    after = f"{name} gets the next one within some minutes" if is_wanted else "the need is not declared any more"
    return f"{what}: {provider} ends the login and its connections. The data stays; {after}."
