"""`holdfast node invite`: a signed invite for one machine, as a token to paste there."""

import re
from argparse import Namespace
from shlex import quote

import msgspec

from holdfast.cli.flags import Parser, repeated
from holdfast.cli.fleet import hub_identity
from holdfast.cli.nodes import destroy_signature, fleet_view, statement_file
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.nodes.one_time_keys import OneTimeKeys
from holdfast.cli.nodes.statement_file import StatementFile
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict, HoldfastError, Invalid, SignatureRequired
from holdfast.model import canonical, duration
from holdfast.model.applied import Applied, recorded_key
from holdfast.model.duration import aged
from holdfast.model.invite import (
    INVITE_S_MAX,
    Invite,
    JoinToken,
    SignedInvite,
    decode_revocation,
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

Signed with your key, which must be of grade destroy. Where [trust] asks for several signatures, the invite is written
to a file (exit 4), other operators add theirs with `holdfast sign FILE`, and --from prints the token. Choose --expires
long enough for that. The file holds no secret; the one-time key of the token stays on the machine that made the file,
so run --from there, as the same user.

examples:
  holdfast node invite w2
  holdfast node invite w2 --expires 15m | ssh root@w2 holdfast agent join -
  holdfast node invite w2 --replace --json
  holdfast node invite w2 --expires 1d -o w2.invite; holdfast sign w2.invite --key ~/.ssh/second
  holdfast node invite w2 --from w2.invite | ssh root@w2 holdfast agent join -
"""
EXPIRES = "1h"


def declare(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the node under [[nodes]]")
    parser.add_argument("--expires", metavar="TIME", default=EXPIRES, help="validity, up to 7d (default 1h)")
    parser.add_argument("--replace", action="store_true", help="replace the key that the node already has")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write the invite for other operators to sign (default: NAME.invite)"
    )
    parser.add_argument("--from", dest="source", metavar="FILE", help="go on with a signed invite, print its token")


def run(args: Namespace, box: Toolbox) -> int:
    if args.source:
        return _go_on(args, box)
    file, invite, seed, view, pin = _signed(args, box)
    try:
        _verified(file, view.applied, box)
    except SignatureRequired as trouble:
        raise destroy_signature.more(_kept(file, invite, seed, args, box), file, trouble, args) from trouble
    if args.output:
        return destroy_signature.enough(_kept(file, invite, seed, args, box), file, args, box)
    return _print(file, invite, seed, view, pin, args, box)


def token(args: Namespace, box: Toolbox) -> JoinToken:
    """For a machine that invites itself. Raises SignatureRequired where one signature is not enough."""
    file, _, seed, view, pin = _signed(args, box)
    _verified(file, view.applied, box)
    return _token(file, seed, view, pin)


def _signed(args: Namespace, box: Toolbox) -> tuple[StatementFile, Invite, bytes, FleetView, str]:
    valid_s = _seconds(args.expires)
    view, pin = _fleet(args, box)
    known = fleet_view.node(view, args.name, args)
    _refuse_joined(known, args.name, args.replace, args)
    if args.replace and known.status == "healthy" and not args.json:
        alive = f"{args.name} is alive: it reported {aged(known.age_s)} ago"
        box.terminal.warn(f"{alive}; when another machine joins with this token, it is shut out and stops its services")
    invite, seed = _drafted(args, view.applied, known, valid_s, box)
    draft = statement_file.of(statement_file.INVITE, canonical.encode(invite), view.applied.trust)
    return destroy_signature.signed(draft, view.applied.trust, args, box), invite, seed, view, pin


def _token(file: StatementFile, seed: bytes, view: FleetView, pin: str) -> JoinToken:
    return JoinToken(SignedInvite(file.content, file.signatures), seed, view.target, pin, view.applied.head)


def _go_on(args: Namespace, box: Toolbox) -> int:
    """Print the token of an invite that enough operators signed."""
    if args.expires != EXPIRES or args.replace or args.output:
        raise Invalid(
            "--expires, --replace and -o are for a new invite, and --from names one that is drafted",
            remedy=f"holdfast node invite {args.name} --from {quote(args.source)}",
            code="usage",
        )
    file = statement_file.open_file(args.source, statement_file.INVITE, box.disk)
    view, pin = _fleet(args, box)
    try:
        invite = _verified(file, view.applied, box)
    except SignatureRequired as trouble:
        raise destroy_signature.more(args.source, file, trouble, args) from trouble
    statement_file.refuse_other_node(args.name, file, args.source)
    known = fleet_view.node(view, invite.node, args)
    _refuse_joined(known, invite.node, invite.replaces, args)
    if invite.over != _over(known, view.applied) or _moment(known, view.applied, invite.issued_s) != invite.issued_s:
        raise Conflict(
            f"the key of {invite.node} is another one than when this invite was made, or was revoked since",
            remedy=f"make a new one and have it signed again: holdfast node invite {invite.node} --replace -o FILE",
            code="invite_outdated",
        )
    return _print(file, invite, _one_time_keys(invite, box).of(invite), view, pin, args, box)


def _fleet(args: Namespace, box: Toolbox) -> tuple[FleetView, str]:
    """The fleet, and the hub's key for the token."""
    view = fleet_view.look(args, box)
    fleet_view.keeper(view, "nodes are enrolled")
    pin = hub_identity.of(args.fleet, box.disk, box.environ).pin
    if not pin:
        raise Invalid(
            "fleet.toml has no hub_key, so the new machine could not identify the hub",
            remedy="write hub_key under [fleet] (`holdfast hub check` on the hub's machine prints it), "
            "then `holdfast apply`, then invite again",
            code="no_hub_key",
        )
    return view, pin


def _refuse_joined(known: VerifiedReport, name: str, replaces: bool, args: Namespace) -> None:
    if (known.view.joined or known.key) and not replaces:
        raise Conflict(
            f"{name} has already joined",
            remedy=f"only if a new machine replaces it: holdfast node invite {name} --replace{repeated(args)}",
            code="already_joined",
        )


def _verified(file: StatementFile, applied: Applied, box: Toolbox) -> Invite:
    """As the hub and every other verifier judges it."""
    signed = SignedInvite(file.content, file.signatures)
    return enrolment.verify_invite(signed, applied.fleet_id, applied.trust, box.clock.now_s())


def _kept(file: StatementFile, invite: Invite, seed: bytes, args: Namespace, box: Toolbox) -> str:
    """Where the file is. The one-time key stays on this machine."""
    path: str = args.output or f"{invite.node}.invite"
    _one_time_keys(invite, box).keep(invite, seed, box.clock.now_s())
    box.disk.replace(path, statement_file.write(file), 0o600)
    return path


def _one_time_keys(invite: Invite, box: Toolbox) -> OneTimeKeys:
    return OneTimeKeys(box.disk, hub_identity.state_dir(box.environ), invite.fleet)


def _print(
    file: StatementFile, invite: Invite, seed: bytes, view: FleetView, pin: str, args: Namespace, box: Toolbox
) -> int:
    token = encode_token(_token(file, seed, view, pin))
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


def _drafted(
    args: Namespace, applied: Applied, known: VerifiedReport, valid_s: float, box: Toolbox
) -> tuple[Invite, bytes]:
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
    return invite, seed


def _over(known: VerifiedReport, applied: Applied) -> str:
    """The key to be replaced: the recorded one, also if it was revoked, else the one the machine joined with."""
    return recorded_key(applied, known.view.name) or known.key or known.view.key


def _moment(known: VerifiedReport, applied: Applied, now_s: int) -> int:
    """At least one second after a revocation: an invite that was signed before it is refused. One that its signers
    could not sign any more, because the trust changed since, counts at the hub all the same: its time is believed up to
    now, so that a hub delays an invite by one second at most."""
    revocation = known.view.revocation
    if revocation is None:
        return now_s
    try:
        claimed_s = decode_revocation(revocation.revocation).revoked_s
    except HoldfastError:
        return now_s
    try:
        return max(now_s, enrolment.verify_revocation(revocation, applied.fleet_id, applied.trust).revoked_s + 1)
    except HoldfastError:
        return max(now_s, min(claimed_s, now_s) + 1)


def _seconds(text: str) -> float:
    fits = re.match(duration.PATTERN, text) and "\n" not in text
    seconds = duration.milliseconds(text) / 1000 if fits else 0
    if not 1 <= seconds <= INVITE_S_MAX:
        raise Invalid(
            f"--expires {text!r}: an invite must be valid for 1 second to 7 days", remedy="write it as 15m, 12h or 7d"
        )
    return seconds
