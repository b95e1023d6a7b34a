"""Whether data may be set aside, and copies of it put back or deleted: the only maker of the proofs that storage needs.
Pure."""

from holdfast.gate.acts import ACT_OF, Act, Data, Provenance
from holdfast.gate.authority import NOBODY, Authority, by_order
from holdfast.gate.decide import Deed, Park, decide
from holdfast.gate.facts import NO_THING, Facts, look, provenance
from holdfast.model import backup_key
from holdfast.model.checkpoint import fetched_id
from holdfast.model.order import FETCHES, VerifiedOrder
from holdfast.ports.backup_target import Prunable
from holdfast.ports.journal import Journal
from holdfast.ports.scratch import Clearable, Drillable
from holdfast.ports.storage import (
    Checkpoint,
    DataDirectory,
    Discardable,
    Disposable,
    Purgeable,
    Receivable,
    Restorable,
    Returnable,
)


def may_discard(journal: Journal, checkpoint: Checkpoint, node: str) -> Discardable | Park:
    """Needs no signature, so only for a checkpoint that this agent's own journal marks as scratch."""
    facts = Facts(provenance(journal, checkpoint.path, None), Data.MAYBE_ONLY_COPY)
    target = f"checkpoint.{checkpoint.service}.{checkpoint.id}"
    return _parked(Deed(Act.DESTROY_COPY, target, node, facts, NOBODY)) or Discardable(checkpoint)


def may_delete(journal: Journal, checkpoint: Checkpoint, node: str, order: VerifiedOrder) -> Discardable | Park:
    """By an order that names this checkpoint."""
    facts = Facts(provenance(journal, checkpoint.path, None), Data.MAYBE_ONLY_COPY)
    lacking = _unnamed(order, "delete-checkpoint", "checkpoint", checkpoint.id) or _parked(
        Deed(Act.DESTROY_COPY, f"data.{checkpoint.service}", node, facts, by_order(order))
    )
    return lacking or Discardable(checkpoint)


def may_restore(
    journal: Journal, checkpoint: Checkpoint, present: DataDirectory | None, node: str, order: VerifiedOrder
) -> Restorable | Park:
    """By an order that names this checkpoint, or the backup that it was fetched from; `present` is the data that it
    replaces."""
    facts = look(journal, present, None)
    backup = order.arguments.get("backup", "")
    is_of_backup = order.order.action == "restore" and bool(backup) and checkpoint.id == fetched_id(backup)
    unnamed = None if is_of_backup else _unnamed(order, "restore-checkpoint", "checkpoint", checkpoint.id)
    lacking = unnamed or _parked(Deed(Act.OVERWRITE_DATA, f"data.{checkpoint.service}", node, facts, by_order(order)))
    return lacking or Restorable(checkpoint, order.order.id)


def may_fetch(backup: str, node: str, order: VerifiedOrder) -> Receivable | Park:
    """By an order that names this backup, to bring it back beside the data or in its place."""
    service, action = order.order.target.removeprefix("data."), order.order.action
    wanted = action if action in FETCHES else "fetch-backup"
    facts = Facts(Provenance.FOREIGN, Data.MAYBE_ONLY_COPY)
    lacking = _unnamed(order, wanted, "backup", backup) or _parked(
        Deed(ACT_OF[wanted], f"data.{service}", node, facts, by_order(order))
    )
    return lacking or Receivable(service, fetched_id(backup))


def may_set_aside(service: str, node: str, order: VerifiedOrder) -> Purgeable | Park:
    """A purge takes the checkpoints along: there may be something to lose even if the directory is empty."""
    facts = Facts(Provenance.FOREIGN, Data.MAYBE_ONLY_COPY)
    lacking = _parked(Deed(Act.DESTROY_DATA, f"data.{service}", node, facts, by_order(order)))
    return lacking or Purgeable(service, order.order.id)


def may_bring_back(service: str, purge: str, node: str, order: VerifiedOrder) -> Returnable | Park:
    """By an order that names the purge."""
    facts = Facts(Provenance.FOREIGN, Data.MAYBE_ONLY_COPY)
    lacking = _unnamed(order, "restore-retired", "purge", purge) or _parked(
        Deed(Act.ATTACH_DATA, f"data.{service}", node, facts, by_order(order))
    )
    return lacking or Returnable(service, purge)


def may_expire(journal: Journal, service: str, purge: str, path: str, node: str) -> Disposable | Park:
    """Needs no signature: its time is over, and this agent's own journal marks it as scratch."""
    facts = Facts(provenance(journal, path, None), Data.MAYBE_ONLY_COPY)
    return _parked(Deed(Act.DESTROY_DATA, f"data.{service}", node, facts, NOBODY)) or Disposable(service, purge)


def may_dispose(service: str, purge: str, node: str, order: VerifiedOrder) -> Disposable | Park:
    """What this or an earlier purge set aside, by an order to destroy the data now."""
    facts = Facts(Provenance.FOREIGN, Data.MAYBE_ONLY_COPY)
    lacking = _unnamed(order, "purge", "now", "yes") or _parked(
        Deed(Act.DESTROY_DATA, f"data.{service}", node, facts, by_order(order))
    )
    return lacking or Disposable(service, purge)


def may_drill(service: str, id: str, node: str) -> Drillable | Park:
    """Unpack a backup into a new directory of its own. A schedule needs no signature, and neither does a hub's
    request."""
    return _parked(Deed(Act.DRILL, f"service.{service}", node, NO_THING, NOBODY)) or Drillable(service, id)


def may_clear(journal: Journal, service: str, id: str, path: str, node: str) -> Clearable | Park:
    """What a drill unpacked, needs no signature: this agent's own journal marks the directory as scratch."""
    facts = Facts(provenance(journal, path, None), Data.MAYBE_ONLY_COPY)
    return _parked(Deed(Act.DESTROY_DATA, f"data.{service}", node, facts, NOBODY)) or Clearable(id)


def may_prune(
    key: str, *, is_own: bool, is_needed: bool, proven_stays: bool, node: str, authority: Authority
) -> Prunable | Park:
    """One object of a backup, at its targets. `is_own`: this node signed the receipt it belongs to; `is_needed`: a
    backup that is kept needs it; `proven_stays`: another backup, which was proven, stays at this target."""
    service = backup_key.parse(key).service
    made = Provenance.OWN_EARLIER if is_own else Provenance.FOREIGN
    facts = Facts(made, Data.COPIED if proven_stays and not is_needed else Data.MAYBE_ONLY_COPY)
    target = service if backup_key.node_of(service) else f"data.{service}"
    return _parked(Deed(Act.DESTROY_COPY, target, node, facts, authority)) or Prunable(key)


def _parked(deed: Deed) -> Park | None:
    decision = decide(deed)
    return decision if isinstance(decision, Park) else None


def _unnamed(proof: VerifiedOrder, action: str, argument: str, value: str) -> Park | None:
    """An order is good for its action and for what its signed arguments name."""
    order = proof.order
    if order.action == action and proof.arguments.get(argument) == value:
        return None
    again = f"holdfast order sign --node {order.node} --action {action} --target {order.target}"
    why = f"may not {action}: the order does not say {argument}={value}"
    return Park(why, "destroy", f"{again} --arg {argument}={value} --submit")
