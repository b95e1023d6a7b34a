"""`holdfast rollback`: apply the content of an earlier revision as a new signed one."""

from argparse import Namespace
from collections.abc import Iterator, Mapping

from holdfast.cli.checkpoints import with_data
from holdfast.cli.flags import Parser, positive
from holdfast.cli.fleet import session
from holdfast.cli.fleet.commit_plan import DETACH, carry_out
from holdfast.cli.fleet.history_show import table_at
from holdfast.cli.fleet.plan import declare_message
from holdfast.cli.tools import Toolbox
from holdfast.declared.load import load
from holdfast.errors import Conflict, HoldfastError, Invalid
from holdfast.model.applied import Applied
from holdfast.model.ids import TRUST
from holdfast.model.plan import Plan
from holdfast.model.revision import Table
from holdfast.planning.rollback import plan_rollback
from holdfast.ports.hub_link import ConvergenceReader, HubReader

PAGE = 200  # revisions asked for at a time

DETAILS = """\
History is never rewritten: rollback signs a new revision with older content. Without N it takes the newest revision
that converged and differs from the applied one; after a failed deploy, that is the one that still serves. With an
offline ledger, which gets no reports, it takes the newest revision that differs. Operators and thresholds are not
rolled back, nor are the moves of `node drain` (use its --undo). Your files are not changed; the last line says
whether they differ.

--with-data also restores, for each service that goes back, the checkpoint that its node made when the version of now
got the data: the services stop, get the data of then, and start with the version of then. What they wrote since is in
another checkpoint. This needs grade destroy, and a running hub.

examples:
  holdfast rollback
  holdfast rollback 4
  holdfast rollback --with-data
"""


def declare(parser: Parser) -> None:
    parser.add_argument("number", metavar="N", nargs="?", type=int, help="the revision whose content to apply")
    parser.add_argument("--allow-removals", metavar="N", type=positive, help="exactly N resources may be removed")
    with_data.declare(parser)
    parser.add_argument("--detach", action="store_true", help=DETACH)
    declare_message(parser)
    parser.add_argument("--adopt", action="store_true", help="continue although fleet.lock is behind")


def run(args: Namespace, box: Toolbox) -> int:
    current = session.standing(args, box, drafts=True)
    if current.applied is None or current.hub is None:
        raise session.nothing_applied(current.target)
    number, table = _target(current.hub, current.applied, args.number)
    box.terminal.remark(f"Rolling back to the content of revision {number}.")
    found = _plan(table, current.applied, current.formats)
    if args.with_data:
        code = with_data.carry_out(found, args, box)
    else:
        code = carry_out(found, current.applied, current.target, current.heads, args, box, args.allow_removals)
    if not box.terminal.quiet:
        box.terminal.remark(_compared(current, args, box))
    return code


def _compared(current: session.Standing, args: Namespace, box: Toolbox) -> str:
    """Whether the next apply would change the revision again. Image digests are not asked for again."""
    try:
        hub = box.hubs.reader(current.target)  # that of before has read a ledger directory as it was
        applied = current.heads.check(hub, adopt=True)
        asked = Namespace(**{**vars(args), "offline": True})
        fleet = load(box.files.fleet(args.fleet))
        begun = session.Session(hub, current.target, current.heads, applied, fleet=fleet)
        found = session.make_plan(begun, asked, box)
    except HoldfastError as trouble:
        return f"Your files are not changed, and could not be compared with this revision: {trouble.message}"
    if not found.changes:
        return "Your files match this revision."
    more = f" and {len(found.changes) - 1} more" if len(found.changes) > 1 else ""
    return f"Your files still differ from this revision in {found.changes[0].address}{more}: holdfast plan shows how."


def _target(hub: HubReader, applied: Applied, number: int | None) -> tuple[int, Table]:
    if number is not None:
        if not 1 <= number < applied.head.number:
            raise Invalid(
                f"cannot roll back to revision {number}; the applied revision is {applied.head.number}",
                remedy="`holdfast history` lists the revisions before it",
                code="not_found",
            )
        return number, _table(hub, number)
    for candidate in _candidates(hub, applied.head.number - 1):
        table = _table(hub, candidate)
        if _plan(table, applied, {}).changes:
            return candidate, table
    if isinstance(hub, ConvergenceReader):
        raise Conflict(
            "no earlier revision with different content is known to have converged",
            remedy="`holdfast history` lists the revisions; choose one: `holdfast rollback N`",
            code="nothing_converged",
        )
    raise Conflict(
        "every earlier revision has the same content as the applied one",
        remedy="`holdfast history` lists the revisions",
        code="nothing_to_roll_back",
    )


def _candidates(hub: HubReader, newest: int) -> Iterator[int]:
    """Newest first; only converged ones if the hub knows them. The hub's claim is not proven: the plan is shown and
    signed."""
    if not isinstance(hub, ConvergenceReader):
        yield from range(newest, 0, -1)
        return
    while newest > 0:
        yield from sorted((n for n in hub.converged(newest, PAGE) if 0 < n <= newest), reverse=True)
        newest -= PAGE


def _table(hub: HubReader, number: int) -> Table:
    return table_at(hub, hub.links(number, number)[0])


def _plan(table: Table, applied: Applied, formats: Mapping[str, int]) -> Plan:
    """The plan also decides whether that revision differs, because trust is not rolled back."""
    entries = {**table.entries, TRUST: applied.table.entries[TRUST]}
    return plan_rollback(Table(dict(sorted(entries.items())), table.tombstones), applied, formats)
