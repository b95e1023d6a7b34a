"""What becomes of each service of a node whose machine was replaced: which backup it starts with, or why with none."""

from argparse import Namespace

from msgspec import UNSET, Struct

from holdfast.cli.backups import backup_view, key_for_node
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict, Invalid, NotPermitted
from holdfast.model import archive_key
from holdfast.model.applied import Applied, recorded_key
from holdfast.model.backup import VerifiedReceipt
from holdfast.model.move_report import MoveStates
from holdfast.planning import replacing
from holdfast.planning.replacing import Return
from holdfast.status import moves


class Sorted(Struct, frozen=True):
    """By name, in the order in which they are restored."""

    starting: dict[str, VerifiedReceipt]
    lacking: tuple[str, ...] = ()  # no backup is proven
    having: tuple[str, ...] = ()  # the new machine has data of them
    coming: tuple[str, ...] = ()  # an earlier run of the command signed for their backup
    plain: tuple[str, ...] = ()  # nothing of them is in backups


def sort(node: str, view: FleetView, with_force: bool) -> Sorted:
    _refuse_moving(node, view)
    bare = _bare(node, view)
    starting: dict[str, VerifiedReceipt] = {}
    rest: dict[str, list[str]] = {"lacking": [], "having": [], "coming": [], "plain": []}
    joined_s = backup_view.replaced_s(node, view)
    for name in replacing.in_order(node, view.applied):
        if not replacing.has_backups(name, view.applied):
            rest["plain"].append(name)
        elif name not in bare and is_here(name, view.applied):
            rest["coming"].append(name)
        elif name not in bare and not with_force:
            rest["having"].append(name)
        elif (found := _newest(name, view, None if name in bare else joined_s)) is not None:
            starting[name] = found
        else:
            rest["lacking"].append(name)
    return Sorted(starting, **{key: tuple(names) for key, names in rest.items()})


def _bare(node: str, view: FleetView) -> set[str]:
    """Services that wait there for data, and not for a backup that an earlier run of the command named."""
    section = view.nodes[node].section(MoveStates)
    if section is None:
        return set()
    waiting = {one.service for one in section.moves if one.role == "target" and not one.arrived}
    placed = replacing.in_order(node, view.applied)
    return {*section.bare, *(name for name in placed if name in waiting and not is_here(name, view.applied))}


def _refuse_moving(node: str, view: FleetView) -> None:
    """Another node has the newest data, as long as it did not hand it over."""
    known = moves.moves_of(view.applied.table)
    for name in replacing.in_order(node, view.applied):
        one = known.get(name)
        state = moves.state_of(one, one.source, view.nodes) if one is not None and one.source else None
        if one is not None and state is not None and state.step:
            raise Conflict(
                f"service.{name} is moving from {one.source} to {node}, and {one.source} has its newest data",
                remedy=f"take it back first: holdfast migrate {name} --abort",
                code="move_under_way",
            )


def is_here(service: str, applied: Applied) -> bool:
    """Its last move restores it where it is."""
    entry = applied.table.entries[f"service.{service}"]
    return entry.move is not UNSET and entry.move.source == entry.node


def _newest(service: str, view: FleetView, before_s: float | None) -> VerifiedReceipt | None:
    """`before_s`: not one of the data that is set aside."""
    proven = backup_view.proven(view, service)
    found = [one for one in proven if before_s is None or one.receipt.made_s <= before_s]
    return found[-1] if found else None


def addressed(
    found: dict[str, VerifiedReceipt], node: str, machine: Applied, view: FleetView, args: Namespace, box: Toolbox
) -> list[Return]:
    """With the key of each backup for the new machine. All that cannot be opened are named at once."""
    made, shut = [], []
    for name, one in found.items():
        try:
            plain = archive_key.written(key_for_node.opened(one, view, args, box))
        except NotPermitted:
            shut.append(name)
            continue
        made.append(Return(name, one.digest, box.keys.sealer().seal(plain, [recorded_key(machine, node)])))
    if shut:
        raise NotPermitted(
            f"your identity cannot open the backups of {', '.join(shut)}",
            remedy="use another one with --identity FILE, or ask an operator who can open them",
            code="cannot_open",
        )
    return made


def chosen(service: str, node: str, view: FleetView, args: Namespace) -> VerifiedReceipt:
    """Another backup for a service that waits for one."""
    section = view.nodes[node].section(MoveStates)
    epoch = view.applied.table.entries[f"service.{service}"].epoch
    states = section.moves if section is not None else ()
    waits = any((one.service, one.epoch, one.arrived) == (service, epoch, False) for one in states)
    if service not in _bare(node, view) and not waits and not args.force:
        raise Invalid(
            f"service.{service} has data on {node}, and waits for no backup",
            remedy=f"to set that data aside: holdfast migrate {service} --to {node} --force --backup {args.backup}",
            code="has_data",
        )
    return backup_view.named(view, service, args.backup)
