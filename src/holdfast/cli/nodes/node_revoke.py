"""`holdfast node revoke`: refuse one node's key at once. Stops and deletes nothing on the machine."""

from argparse import Namespace

import msgspec

from holdfast.cli.flags import Parser, repeated
from holdfast.cli.nodes import destroy_signature, fleet_view
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict
from holdfast.model import canonical, ssh_key
from holdfast.model.applied import recorded_key
from holdfast.model.invite import REVOKE_NAMESPACE, Revocation, SignedRevocation

DETAILS = """\
When this returns, the hub refuses everything that the node's key signs, and has closed its open connections. The
machine keeps its services running. To replace the machine: `holdfast node invite NAME --replace`. Run `holdfast apply`
at once as well: until then the applied revision still names the key, and a hub that lost its ledger, or that an
attacker controls, would accept it. Needs your signature of grade destroy.

examples:
  holdfast node revoke w2
  holdfast node revoke w2 --yes --json
"""


def declare(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the node")


def run(args: Namespace, box: Toolbox) -> int:
    view = fleet_view.look(args, box)
    keeper = fleet_view.keeper(view, "keys are revoked")
    known = fleet_view.node(view, args.name, args)
    key = known.key or known.view.key or recorded_key(view.applied, args.name)
    if not key:
        raise Conflict(
            f"{args.name} has no key to revoke: "
            + ("it is already revoked" if known.view.revoked else "it has not joined"),
            remedy=f"holdfast node list{repeated(args)}",
            code="not_joined",
        )
    shown = ssh_key.fingerprint(ssh_key.parse(key))
    question = f"Revoke the key of {args.name} ({shown})?"
    box.terminal.confirm(question, "not revoked")
    content = canonical.encode(Revocation(view.applied.fleet_id, args.name, key, int(box.clock.now_s())))
    signature = destroy_signature.sign(
        content,
        REVOKE_NAMESPACE,
        f"node.{args.name}",
        view.applied.trust,
        f"remove {args.name} from fleet.toml; `holdfast plan -o change.plan`, collect signatures with "
        "`holdfast sign change.plan --key KEY`, then `holdfast apply change.plan`",
        args,
        box,
    )
    keeper.revoke(SignedRevocation(content, (signature,)))
    if args.json:
        box.terminal.say_raw(msgspec.json.encode({"node": args.name, "key": key, "revoked": True}).decode())
    else:
        box.terminal.say(f"Revoked: the hub refuses {args.name} ({shown}) from now on.")
        box.terminal.remark(
            f"Run now: holdfast apply{repeated(args)}. It removes the key from the applied revision. Until then only "
            "this hub knows that the key is revoked."
        )
    return 0
