"""`holdfast hub restore FILE`: make a hub of a sealed file, whole or not at all."""

import os
from argparse import Namespace
from collections.abc import Callable
from shlex import quote
from tempfile import TemporaryDirectory
from typing import IO

import msgspec

from holdfast.cli.flags import Parser
from holdfast.cli.fleet import session
from holdfast.cli.hub import fleet_proof
from holdfast.cli.hub.hub_init import STATE_DIR, declare_state_dir
from holdfast.cli.hub.restore_signature import signed_generation
from holdfast.cli.secrets import secret_opening
from holdfast.cli.secrets.identity_file import identity_path
from holdfast.cli.sizes import counted
from holdfast.cli.tools import Toolbox
from holdfast.errors import NotPermitted
from holdfast.hub.file import restoring
from holdfast.hub.file.restoring import Examined
from holdfast.model.ids import Digest
from holdfast.ports.hub_files import Staged
from holdfast.ports.sealing import CannotOpen

DETAILS = """\
Run on the machine that becomes the hub, with your age identity. The old hub must be stopped. Afterwards start this one
(`holdfast hub run`) at the address that the nodes know: they follow it without joining again, and nothing on them
restarts.

You sign that this hub is the newest one of the fleet (grade destroy). Nodes remember that, follow no older hub, and
prove it to an old one that comes back: it stops. Where [trust] asks for several signatures, the statement is written to
a file (exit 4), other operators add theirs with `holdfast sign`, and --from goes on. The fleet is the one of fleet.lock
in --fleet, or the one that --trust names.

If the file is old, nodes have newer revisions than it. `holdfast status` then says how many are missing, nodes send
them to the hub, and `holdfast import ledger` fills them in. Nodes revoked, invites used and tokens revoked after the
file was made are forgotten: revoke them again.

Exit 0: done; 3: your identity cannot open it; 4: signatures are missing; 5: the state directory is not empty; 7: the
file is damaged, or of another fleet. Nothing is left behind unless the restore is complete.

examples:
  holdfast hub restore hub.tar.zst.age --fleet ~/myfleet --state-dir /var/lib/holdfast/hub
  holdfast hub restore hub.tar.zst.age --check
"""


def declare(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="the file that `holdfast hub backup` made")
    declare_state_dir(parser)
    secret_opening.declare(parser, "your age identity, which opens the file")
    fleet_proof.declare(parser)
    parser.add_argument("--check", action="store_true", help="open and verify it, write nothing, sign nothing")
    parser.add_argument(
        "--generation",
        metavar="N",
        type=int,
        help="the number of this generation, if nodes know a higher one than this file (default: one more than it has)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="STATEMENT",
        help="where the statement goes if others must sign (default: hub.generation)",
    )
    parser.add_argument("--from", dest="source", metavar="STATEMENT", help="go on with a signed statement")


def run(args: Namespace, box: Toolbox) -> int:
    fleet = fleet_proof.fleet(args, box, f"holdfast hub restore {quote(args.file)}")
    if args.check:
        return _check(fleet, args, box)
    state_dir = args.state_dir or STATE_DIR
    with box.files.hub().unpacked(_opening(args, box), state_dir) as staged:
        found = _examined(staged, fleet, box)
        signed = signed_generation(found, args, box)
        store = box.ledgers.store(staged.folder, create=False)
        try:
            restoring.begin(store, box.ledgers.high_water(staged.folder), signed, found.applied.head)
        finally:
            store.close()
        staged.publish()
        return _say(found, staged, state_dir, args, box)


def _check(fleet: Digest, args: Namespace, box: Toolbox) -> int:
    """Not where a hub is or will be: this machine may have one. It needs room for a while, at --state-dir or for
    temporary files."""
    with TemporaryDirectory(prefix="holdfast-hub-check-") as folder:
        place = args.state_dir or os.path.join(folder, "hub")
        with box.files.hub().unpacked(_opening(args, box), place) as staged:
            return _say(_examined(staged, fleet, box), staged, None, args, box)


def _opening(args: Namespace, box: Toolbox) -> Callable[[IO[bytes]], None]:
    path = args.identity or identity_path(box.environ)
    opener = box.keys.opener(path)

    def fill(into: IO[bytes]) -> None:
        try:
            with box.files.hub().opened(args.file) as sealed:
                opener.open_stream(sealed, into)
        except CannotOpen:
            raise NotPermitted(
                f"the identity in {path} cannot open {args.file}: it is not sealed to it, or it is damaged",
                remedy="use another identity with --identity FILE, or another copy of the file",
                code="cannot_open",
            ) from None

    return fill


def _examined(staged: Staged, fleet: Digest, box: Toolbox) -> Examined:
    folder = staged.folder
    store = box.ledgers.reader(folder)
    try:
        return restoring.examined(
            store, box.ledgers.high_water(folder), staged.about, fleet, box.keys.known_hub(folder), folder
        )
    finally:
        store.close()


def _say(found: Examined, staged: Staged, state_dir: str | None, args: Namespace, box: Toolbox) -> int:
    head, about = found.applied.head, staged.about
    lock = session.heads(args, box).lock()
    missing = restoring.missed(head, lock.head if lock is not None and lock.fleet == about.fleet else None)
    if args.json:
        body = {
            "state_dir": state_dir,
            "fleet": about.fleet,
            "head": head,
            "made_s": about.made_s,
            "missing": missing,
            "hub_key": about.hub_key,
        }
        box.terminal.say_raw(msgspec.json.encode(body).decode())
        return 0
    what = "Restored" if state_dir is not None else "This file is sound:"
    box.terminal.say(f"{what} revision {head.number}, {counted(found.revisions, 'revision')} verified.")
    if missing:
        box.terminal.warn(
            f"this file is old: fleet.lock names revision {head.number + missing}, so {counted(missing, 'revision')} "
            "are missing; nodes have them. Start the hub, wait until the nodes checked in, then: holdfast import ledger"
        )
    if state_dir is not None:
        box.terminal.say(f"Next: holdfast hub run --state-dir {quote(state_dir)}, at the address that the nodes know")
    return 0
