"""`holdfast migrate --all --from NODE --to NODE`: restore the services of a node whose machine was replaced."""

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.cli.fleet.commit_plan import carry_out
from holdfast.cli.fleet.session import Standing
from holdfast.cli.moves import lost_data, resealed, returns
from holdfast.cli.moves.looking import look
from holdfast.cli.moves.resealed import Resealed
from holdfast.cli.moves.returns import Sorted
from holdfast.cli.nodes import fleet_view, known_nodes
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict, Failed, Unreachable
from holdfast.model.applied import Applied, recorded_key
from holdfast.model.backup import VerifiedReceipt
from holdfast.model.move_report import MoveStates
from holdfast.model.plan import Plan
from holdfast.planning import replacing

HEARD_S, LOOK_S = 30.0, 0.5  # for the first report of a machine that has joined


class Machine(Struct, frozen=True):
    """The new machine: what is applied, and the same with its key."""

    node: str
    current: Standing
    view: FleetView
    after: Applied


def run(args: Namespace, box: Toolbox) -> int:
    """One signature for all. What is under way or done already is followed: the same command goes on."""
    one = _heard(args.source, args, box)
    found = returns.sort(one.node, one.view, args.force)
    is_new = recorded_key(one.view.applied, one.node) != recorded_key(one.after, one.node)
    if not (is_new or found.starting or found.lacking or found.coming):
        raise _not_replaced(one.node)
    plan, sealed = _planned(one, found.starting, args, box)
    if not args.json:
        _tell(one.node, found, box)
    document = _document(found)
    last = (one.current.target, one.current.heads, args, box, None)
    carry_out(plan, one.view.applied, *last, first=lambda: document | resealed.write(sealed, args, box))
    if found.lacking:
        raise _without_backup(found.lacking)
    return 0


def again(service: str, args: Namespace, box: Toolbox) -> int:
    """Another backup, for a service that waits for one on the node where it is."""
    one = _heard(args.to, args, box)
    found = {service: returns.chosen(service, one.node, one.view, args)}
    plan, sealed = _planned(one, found, args, box)
    last = (one.current.target, one.current.heads, args, box, None)
    return carry_out(plan, one.view.applied, *last, first=lambda: resealed.write(sealed, args, box))


def _heard(node: str, args: Namespace, box: Toolbox) -> Machine:
    """Its first report has the certificate that this revision pins, and says which data it has."""
    until_s = box.clock.monotonic_s() + HEARD_S
    while True:
        current, view = look(args, box)
        fleet_view.node(view, node, args)
        one = _machine(node, current, view, box)
        if one is not None:
            return one
        if box.clock.monotonic_s() >= until_s or is_lost(node, view):
            raise _silent(node, view)
        box.clock.sleep(LOOK_S)


def is_silent(node: str, view: FleetView) -> bool:
    """The machine that joined last has not reported."""
    one = view.nodes[node]
    return one.report is None or one.status != "healthy"


def is_lost(node: str, view: FleetView) -> bool:
    """Silent, and no other machine took its place."""
    one = view.nodes[node]
    return one.status != "healthy" and one.view.key in ("", recorded_key(view.applied, node))


def _machine(node: str, current: Standing, view: FleetView, box: Toolbox) -> Machine | None:
    known, found = view.nodes[node], known_nodes.look(current.hub, view.applied, box)
    identity = found.identities.proven.get(node) if found is not None else None
    if found is None or identity is None or not identity.issuer:
        return None
    is_level = known.pulse is not None and known.pulse.accepted == view.applied.head
    if known.status != "healthy" or not is_level or known.section(MoveStates) is None:
        return None
    reported = found.identities.addresses.get(node, "")
    return Machine(node, current, view, replacing.rekeyed(node, identity, reported, view.applied))


def _silent(node: str, view: FleetView) -> Unreachable:
    invite = f"holdfast node invite {node} --replace"
    if is_lost(node, view):
        return Unreachable(
            f"{node} is silent, and no other machine has taken its place",
            remedy=f"on the new machine: holdfast agent join --replace {node}; without your key there, first here: "
            f"{invite}",
            code="not_replaced",
        )
    return Unreachable(
        f"the machine that takes the place of {node} has joined, and has not reported yet",
        remedy="start its agent: holdfast agent run; then repeat the command",
        code="not_heard",
    )


def _planned(one: Machine, found: dict[str, VerifiedReceipt], args: Namespace, box: Toolbox) -> tuple[Plan, Resealed]:
    applied = one.view.applied
    sealed = resealed.for_machine(one.node, one.after, args, box)
    ready = returns.addressed(found, one.node, one.after, one.view, args, box)
    formats = one.current.formats
    plan = replacing.plan_returns(one.node, one.after, ready, sealed.contents, applied, formats, args.force)
    notes = {f"service.{name}": lost_data.sentence(it, "", one.view, box.clock.now_s()) for name, it in found.items()}
    changes = (
        replace(change, notes=(*change.notes, notes[change.address])) if change.address in notes else change
        for change in plan.changes
    )
    return replace(plan, changes=tuple(changes)), sealed


def _tell(node: str, found: Sorted, box: Toolbox) -> None:
    if found.starting:
        box.terminal.remark(f"Restored on {node}, one after another: {', '.join(found.starting)}.")
    if found.coming:
        box.terminal.remark(f"Restored already, or under way: {', '.join(found.coming)}.")
    if found.plain:
        box.terminal.remark(f"Started at once, as nothing of them is in backups: {', '.join(found.plain)}.")
    if found.having:
        box.terminal.remark(
            f"{node} has data of {', '.join(found.having)} already, which stays as it is. --force sets it aside and "
            "starts them with their backups; `holdfast volume adopt SVC` gives a service the data that was found."
        )
    if found.lacking:
        box.terminal.warn(f"no backup of {', '.join(found.lacking)} is proven: they are not started")


def _document(found: Sorted) -> dict[str, Any]:
    parts: dict[str, Sequence[str]] = {
        "restored": list(found.starting),
        "without_backup": found.lacking,
        "kept_data": found.having,
    }
    return {name: list(names) for name, names in parts.items() if names}


def _not_replaced(node: str) -> Conflict:
    return Conflict(
        f"{node} is the machine that the revision records, and has its data",
        remedy="`holdfast migrate --help` shows how services move away; `holdfast restore --help` how data comes back",
        code="not_replaced",
    )


def _without_backup(names: Sequence[str]) -> Failed:
    return Failed(
        f"no backup of {', '.join(names)} has a valid signature, so {'it waits' if len(names) == 1 else 'they wait'} "
        "without data",
        remedy=f"look for one: holdfast backup list; to begin with nothing: holdfast undeploy {names[0]} && holdfast "
        f"deploy {names[0]}",
        code="no_backup",
    )
