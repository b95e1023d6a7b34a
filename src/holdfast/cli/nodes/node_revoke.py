"""`holdfast node revoke`: refuse one node's key at once. Stops and deletes nothing on the machine."""

from argparse import Namespace
from shlex import quote

import msgspec

from holdfast.cli.flags import Parser, repeated
from holdfast.cli.nodes import destroy_signature, fleet_view, statement_file
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict, Invalid, SignatureRequired
from holdfast.model import canonical, ssh_key
from holdfast.model.applied import recorded_key
from holdfast.model.invite import Revocation, SignedRevocation
from holdfast.ports.hub_link import FleetKeeper
from holdfast.trust import enrolment

DETAILS = """\
When this returns, the hub refuses everything that the node's key signs, and has closed its open connections. The
machine keeps its services running. To replace the machine: `holdfast node invite NAME --replace`. Run `holdfast apply`
at once as well: until then the applied revision still names the key, and a hub that lost its ledger, or that an
attacker controls, would accept it. Needs your signature of grade destroy.

Where [trust] asks for several signatures, the revocation is written to a file (exit 4), other operators add theirs with
`holdfast sign FILE`, and --from revokes the key.

examples:
  holdfast node revoke w2
  holdfast node revoke w2 --yes --json
  holdfast node revoke w2 -o w2.revocation; holdfast sign w2.revocation --key ~/.ssh/second
  holdfast node revoke w2 --from w2.revocation
"""


def declare(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the node")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the revocation for other operators to sign (default: NAME.revocation)",
    )
    parser.add_argument("--from", dest="source", metavar="FILE", help="go on with a signed revocation")


def run(args: Namespace, box: Toolbox) -> int:
    if args.source:
        return _go_on(args, box)
    view = fleet_view.look(args, box)
    keeper = fleet_view.keeper(view, "keys are revoked")
    applied = view.applied
    said = Revocation(applied.fleet_id, args.name, _key(view, args.name, args), int(box.clock.now_s()))
    draft = statement_file.of(statement_file.REVOCATION, canonical.encode(said), applied.trust)
    file = destroy_signature.signed(draft, applied.trust, args, box, lambda: _ask(said, box))
    signed = SignedRevocation(file.content, file.signatures)
    path: str = args.output or f"{args.name}.revocation"
    try:
        enrolment.verify_revocation(signed, applied.fleet_id, applied.trust)
    except SignatureRequired as trouble:
        box.disk.replace(path, statement_file.write(file), 0o600)
        raise destroy_signature.more(path, file, trouble, args) from trouble
    if args.output:
        box.disk.replace(path, statement_file.write(file), 0o600)
        return destroy_signature.enough(path, file, args, box)
    return _revoke(keeper, signed, said, args, box)


def _go_on(args: Namespace, box: Toolbox) -> int:
    if args.output:
        raise Invalid(
            "-o is for a new revocation, and --from names one that is drafted",
            remedy=f"holdfast node revoke {args.name} --from {quote(args.source)}",
            code="usage",
        )
    file = statement_file.open_file(args.source, statement_file.REVOCATION, box.disk)
    view = fleet_view.look(args, box)
    keeper = fleet_view.keeper(view, "keys are revoked")
    signed = SignedRevocation(file.content, file.signatures)
    try:
        said = enrolment.verify_revocation(signed, view.applied.fleet_id, view.applied.trust)
    except SignatureRequired as trouble:
        raise destroy_signature.more(args.source, file, trouble, args) from trouble
    statement_file.refuse_other_node(args.name, file, args.source)
    _ask(said, box)
    return _revoke(keeper, signed, said, args, box)


def _key(view: FleetView, name: str, args: Namespace) -> str:
    known = fleet_view.node(view, name, args)
    key = known.key or known.view.key or recorded_key(view.applied, name)
    if not key:
        raise Conflict(
            f"{name} has no key to revoke: " + ("it is already revoked" if known.view.revoked else "it has not joined"),
            remedy=f"holdfast node list{repeated(args)}",
            code="not_joined",
        )
    return key


def _ask(said: Revocation, box: Toolbox) -> None:
    box.terminal.confirm(f"Revoke the key of {said.node} ({_short(said)})?", "not revoked")


def _revoke(keeper: FleetKeeper, signed: SignedRevocation, said: Revocation, args: Namespace, box: Toolbox) -> int:
    keeper.revoke(signed)
    if args.json:
        box.terminal.say_raw(msgspec.json.encode({"node": said.node, "key": said.key, "revoked": True}).decode())
    else:
        box.terminal.say(f"Revoked: the hub refuses {said.node} ({_short(said)}) from now on.")
        box.terminal.remark(
            f"Run now: holdfast apply{repeated(args)}. It removes the key from the applied revision. Until then only "
            "this hub knows that the key is revoked."
        )
    return 0


def _short(said: Revocation) -> str:
    return ssh_key.fingerprint(ssh_key.parse(said.key))
