"""`holdfast node invite`: a signed invite for one machine, as a token to paste there."""

import re
from argparse import Namespace

import msgspec

from holdfast.cli.flags import Parser, repeated
from holdfast.cli.fleet import hub_identity
from holdfast.cli.nodes import destroy_signature, fleet_view
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict, HoldfastError, Invalid
from holdfast.model import canonical, duration
from holdfast.model.applied import Applied, recorded_key
from holdfast.model.invite import (
    INVITE_NAMESPACE,
    INVITE_S_MAX,
    Invite,
    JoinToken,
    SignedInvite,
    encode_token,
)
from holdfast.model.verified_report import VerifiedReport
from holdfast.trust import enrolment

DETAILS = """\
Prints the join token. On the new machine, `holdfast agent join -` reads it. The token works once, for this node only,
until it expires. Any machine that has it can join as this node, so treat it as a password: pipe it, and keep it out of
command lines, which all users of a machine can see. The node must be in the applied revision. A node that already has a
key needs --replace; when the new machine joins, the old one is shut out. Such an invite is valid only as long as the
node has that key. Run `holdfast apply` once the machine has joined: the revision then records its key. That is possible
until 7 days after the token expired; after that, invite the machine again.

Signed with your key, which must be of grade destroy.

examples:
  holdfast node invite w2
  holdfast node invite w2 --expires 15m | ssh root@w2 holdfast agent join -
  holdfast node invite w2 --replace --json
"""


def declare(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the node under [[nodes]]")
    parser.add_argument("--expires", metavar="TIME", default="1h", help="validity, up to 7d (default 1h)")
    parser.add_argument("--replace", action="store_true", help="replace the key that the node already has")


def run(args: Namespace, box: Toolbox) -> int:
    valid_s = _seconds(args.expires)
    view = fleet_view.look(args, box)
    fleet_view.keeper(view, "nodes are enrolled")
    known = fleet_view.node(view, args.name, args)
    if (known.view.joined or known.key) and not args.replace:
        raise Conflict(
            f"{args.name} has already joined",
            remedy=f"only if a new machine replaces it: holdfast node invite {args.name} --replace{repeated(args)}",
            code="already_joined",
        )
    pin = hub_identity.of(args.fleet, box.disk, box.environ).pin
    if not pin:
        raise Invalid(
            "fleet.toml has no hub_key, so the new machine could not identify the hub",
            remedy="write hub_key under [fleet] (`holdfast hub check` on the hub's machine prints it), "
            "then `holdfast apply`, then invite again",
            code="no_hub_key",
        )
    invite, token = _invite(args, view.applied, known, view.target, pin, valid_s, box)
    if args.json:
        document = {
            "token": token,
            "node": invite.node,
            "id": invite.id,
            "expires_at": rfc3339(invite.expires_s),
            "replaces": invite.replaces,
        }
        box.terminal.say_raw(msgspec.json.encode(document).decode())
        return 0
    box.terminal.say(token)
    box.terminal.remark(
        f"The token works once, until {rfc3339(invite.expires_s)}. On that machine: holdfast agent join -"
    )
    return 0


def _invite(
    args: Namespace, applied: Applied, known: VerifiedReport, hub: str, pin: str, valid_s: float, box: Toolbox
) -> tuple[Invite, str]:
    try:
        node = applied.node(args.name)
    except HoldfastError as trouble:
        raise Conflict(
            f"the content of node.{args.name} cannot be read",
            remedy="`holdfast apply` stores it again",
            code="blob_damaged",
        ) from trouble
    line, seed = box.keys.one_time()
    now_s = _moment(known, applied, int(box.clock.now_s()))
    over = _over(known, applied)
    invite = Invite(
        applied.fleet_id,
        box.keys.random_hex(16),
        args.name,
        node.roles,
        line,
        now_s,
        now_s + int(valid_s),
        args.replace or bool(over),
        over,
    )
    content = canonical.encode(invite)
    declared = (
        f'write key = "ssh-ed25519 …" of that machine under [[nodes]] {args.name}; `holdfast plan -o change.plan`, '
    )
    signature = destroy_signature.sign(
        content,
        INVITE_NAMESPACE,
        f"node.{args.name}",
        applied.trust,
        declared + "collect signatures with `holdfast sign change.plan --key KEY`, then `holdfast apply change.plan`",
        args,
        box,
    )
    token = JoinToken(SignedInvite(content, (signature,)), seed, hub, pin, applied.head)
    return invite, encode_token(token)


def _over(known: VerifiedReport, applied: Applied) -> str:
    """The key to be replaced: the recorded one, also if it was revoked, else the one the machine joined with."""
    return recorded_key(applied, known.view.name) or known.key or known.view.key


def _moment(known: VerifiedReport, applied: Applied, now_s: int) -> int:
    """At least one second after a revocation: an invite that was signed before it is refused."""
    if known.view.revocation is None:
        return now_s
    try:
        said = enrolment.verify_revocation(known.view.revocation, applied.fleet_id, applied.trust)
    except HoldfastError:
        return now_s  # not signed by operators, so it has no effect
    return max(now_s, said.revoked_s + 1)


def _seconds(text: str) -> float:
    fits = re.match(duration.PATTERN, text) and "\n" not in text
    seconds = duration.milliseconds(text) / 1000 if fits else 0
    if not 1 <= seconds <= INVITE_S_MAX:
        raise Invalid(
            f"--expires {text!r}: an invite must be valid for 1 second to 7 days", remedy="write it as 15m, 12h or 7d"
        )
    return seconds
