"""`holdfast rollback`: apply the content of an earlier revision as a new signed one."""

from argparse import Namespace

from holdfast.cli.checkpoints import with_data
from holdfast.cli.documents import directory_files
from holdfast.cli.flags import Parser, positive
from holdfast.cli.fleet import session
from holdfast.cli.fleet.commit_plan import DETACH, carry_out
from holdfast.cli.fleet.plan import declare_message
from holdfast.cli.tools import Toolbox
from holdfast.cli.waiting import way_back
from holdfast.errors import HoldfastError

DETAILS = """\
History is never rewritten: rollback signs a new revision with older content. Without N it takes the newest revision
that converged and differs from the applied one; after a failed deploy, that is the one that still serves. With an
offline ledger, which gets no reports, it takes the newest revision that differs. Operators and thresholds are not
rolled back, nor are the moves of `node drain` (use its --undo). Your files are not changed; the last line says
whether they differ.

--write also writes the files of the fleet directory that say something else than the new revision, from the ledger. It
lists them and asks first. What was there is kept in the hidden directory .before-revision-N. The ledger has no
comments, so a file that is written has none; a file that says the same already is not touched.

--with-data also restores, for each service that goes back, the checkpoint that its node made when the version of now
got the data: the services stop, get the data of then, and start with the version of then. What they wrote since is in
another checkpoint. This needs grade destroy, and a running hub.

examples:
  holdfast rollback
  holdfast rollback 4
  holdfast rollback --write
  holdfast rollback --with-data
"""


def declare(parser: Parser) -> None:
    parser.add_argument("number", metavar="N", nargs="?", type=int, help="the revision whose content to apply")
    parser.add_argument("--allow-removals", metavar="N", type=positive, help="exactly N resources may be removed")
    with_data.declare(parser)
    parser.add_argument("--write", action="store_true", help="also write the files of the fleet directory")
    parser.add_argument("--detach", action="store_true", help=DETACH)
    declare_message(parser)
    parser.add_argument("--adopt", action="store_true", help="continue although fleet.lock is behind")


def run(args: Namespace, box: Toolbox) -> int:
    current = session.standing(args, box, drafts=True)
    if current.applied is None or current.hub is None:
        raise session.nothing_applied(current.target)
    number, table = way_back.target(current.hub, current.applied, args.number)
    box.terminal.remark(f"Rolling back to the content of revision {number}.")
    found = way_back.planned(table, current.applied, current.formats)
    files = directory_files.planned(found, current.applied, args, box) if args.write else None
    try:
        if args.with_data:
            code = with_data.carry_out(found, args, box)
        else:
            more = files.document if files is not None else dict
            carried = (found, current.applied, current.target, current.heads, args, box, args.allow_removals)
            code = carry_out(*carried, first=more)
    except HoldfastError:
        if files is not None and files.is_applied(current.target):  # and not ready
            files.write()
        raise
    if files is not None:
        files.write()
    if not box.terminal.quiet:
        box.terminal.remark(directory_files.compared(current, args, box))
    return code
