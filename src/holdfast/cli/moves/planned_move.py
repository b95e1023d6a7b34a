"""Plan the move of one service: where to, from what, with what its new node must open."""

from argparse import Namespace

from msgspec import Struct
from msgspec.structs import replace

from holdfast.cli.backups import backup_view, key_for_node
from holdfast.cli.fleet.session import Standing
from holdfast.cli.moves import lost_data, moved_data, resealed
from holdfast.cli.moves.resealed import Resealed
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict
from holdfast.model import archive_key
from holdfast.model.applied import recorded_key
from holdfast.model.plan import Plan
from holdfast.planning.move_target import Wish, home, target_of
from holdfast.planning.moving import plan_move
from holdfast.planning.placement import has_data


class Planned(Struct, frozen=True):
    plan: Plan
    node: str  # where it goes
    sealed: Resealed = Resealed()


def planned(service: str, current: Standing, view: FleetView, args: Namespace, box: Toolbox) -> Planned:
    """With what the target needs to open, sealed to it."""
    applied = view.applied
    assert current.hub is not None
    source, seen = home(service, applied), current.hub.observations()
    chosen = target_of(Wish(service, args.to), applied, seen)
    where = chosen.node
    _refuse_data(service, where, view, args)
    wish = Wish(service, where, aside=args.force, why=chosen.why)
    note = ""
    if has_data(applied.service(service)) and (args.backup or _is_dead(source, view)):
        one = backup_view.named(view, service, args.backup)
        plain = archive_key.written(key_for_node.opened(one, view, args, box))
        key = box.keys.sealer().seal(plain, [recorded_key(applied, where)])
        wish = replace(wish, backup=one.digest, key=key)
        note = lost_data.sentence(one, source, view, box.clock.now_s())
    sealed = resealed.for_node(service, where, applied, args, box)
    plan = plan_move(replace(wish, sealed=sealed.contents), applied, seen, current.formats)
    if has_data(applied.service(service)):
        note = note or moved_data.sentence(service, source, view.nodes)
    return Planned(_noted(plan, service, note), where, sealed)


def _noted(plan: Plan, service: str, note: str) -> Plan:
    changes = (
        replace(change, notes=(*change.notes, note)) if note and change.address == f"service.{service}" else change
        for change in plan.changes
    )
    return replace(plan, changes=tuple(changes))


def _refuse_data(service: str, node: str, view: FleetView, args: Namespace) -> None:
    """M-109, before anything is signed; the node refuses it too."""
    found = view.nodes.get(node)
    report = found.report if found is not None else None
    if args.force or report is None or all(one.name != service or one.purge for one in report.retired):
        return
    raise Conflict(
        f"{node} has data of {service} already, which a move does not touch",
        remedy=f"to set it aside there: holdfast migrate {service} --to {node} --force; what it is: holdfast retired",
        code="data_present",
    )


def _is_dead(node: str, view: FleetView) -> bool:
    """By the hub, which did not hear it; what is not heard hands nothing over."""
    found = view.nodes.get(node)
    return found is None or found.status != "healthy"
