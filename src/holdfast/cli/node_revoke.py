"""`holdfast node revoke`: shut one node's key out at once. Nothing on the machine is stopped or deleted."""

from argparse import Namespace

import msgspec

from holdfast.cli import destroy_signature, fleet_view
from holdfast.cli.flags import Parser, repeated
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict, Failed
from holdfast.model import canonical, ssh_key
from holdfast.model.applied import recorded_key
from holdfast.model.invite import REVOKE_NAMESPACE, Revocation, SignedRevocation

DETAILS = """\
From the moment this returns the hub refuses everything that node's key signs, and ends what it holds open for it. The
machine keeps running what it runs; to give its place to another one: `holdfast node invite NAME --replace`. Run
`holdfast apply` at once as well: until then the applied revision still names the key, and a hub that lost its ledger,
or that an attacker holds, would take it for the node's. Needs your signature of grade destroy.

examples:
  holdfast node revoke w2
  holdfast node revoke w2 --yes --json
"""


def declare(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="the node")


def run(args: Namespace, box: Toolbox) -> int:
    view = fleet_view.look(args, box)
    keeper = fleet_view.keeper(view, "keys are refused")
    known = fleet_view.node(view, args.name, args)
    key = known.key or known.view.key or recorded_key(view.applied, args.name)
    if not key:
        raise Conflict(
            f"{args.name} has no key that could be revoked: "
            + ("it was revoked already" if known.view.revoked else "it has not joined"),
            remedy=f"holdfast node list{repeated(args)}",
            code="not_joined",
        )
    shown = ssh_key.fingerprint(ssh_key.parse(key))
    question = f"Shut out {args.name} ({shown})?"
    if not box.terminal.confirm(question, "run the same command with --yes"):
        raise Failed("not revoked: the answer was not yes", remedy="nothing was changed", code="declined")
    content = canonical.encode(Revocation(view.applied.fleet_id, args.name, key, int(box.clock.now_s())))
    signature = destroy_signature.sign(
        content,
        REVOKE_NAMESPACE,
        f"node.{args.name}",
        view.applied.trust,
        f"take {args.name} out of fleet.toml; holdfast plan -o change.plan, collect signatures with "
        "holdfast sign change.plan, then holdfast apply change.plan",
        args,
        box,
    )
    keeper.revoke(SignedRevocation(content, (signature,)))
    if args.json:
        box.terminal.say(msgspec.json.encode({"node": args.name, "key": key, "revoked": True}).decode())
    else:
        box.terminal.say(f"Revoked: the hub refuses {args.name} ({shown}) from now on.")
        box.terminal.remark(
            f"Next, and at once: holdfast apply{repeated(args)} takes the key out of the applied revision. Until then "
            "only this hub knows that it was revoked."
        )
    return 0
