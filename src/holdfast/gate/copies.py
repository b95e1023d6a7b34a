"""Whether data may be set aside, and copies of it put back or deleted: the only maker of the proofs that storage needs.
Pure."""

from collections.abc import Collection

from holdfast.gate import spare
from holdfast.gate.acts import ACT_OF, Act, Data, Provenance
from holdfast.gate.authority import UNSIGNED, Authority, by_order, by_revision
from holdfast.gate.decide import Deed, Park, decide
from holdfast.gate.facts import NO_THING, Facts, data, look, provenance
from holdfast.gate.spare import There
from holdfast.model import backup_key
from holdfast.model.checkpoint import fetched_id, moved_id
from holdfast.model.order import FETCHES, VerifiedOrder
from holdfast.model.proven_address import ProvenAddress
from holdfast.ports.allowed import Allowed
from holdfast.ports.backup_target import Prunable
from holdfast.ports.journal import Journal
from holdfast.ports.scratch import Clearable, Drillable
from holdfast.ports.storage import (
    Checkpoint,
    DataDirectory,
    Discardable,
    Disposable,
    Placeable,
    Purgeable,
    Receivable,
    Restorable,
    Returnable,
)


def may_discard(journal: Journal, checkpoint: Checkpoint, node: str) -> Discardable | Park:
    """Needs no signature, so only for a checkpoint that this agent's own journal marks as scratch."""
    facts = Facts(provenance(journal, checkpoint.path, None), Data.MAYBE_ONLY_COPY)
    target = f"checkpoint.{checkpoint.service}.{checkpoint.id}"
    return _parked(Deed(Act.DESTROY_COPY, target, node, facts, UNSIGNED)) or Discardable(checkpoint)


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


def may_receive(service: str, epoch: int, node: str, proof: ProvenAddress) -> Receivable | Park:
    """By the accepted revision, which moves the service to this node: beside the data, as what the epoch names."""
    facts = Facts(Provenance.FOREIGN, Data.MAYBE_ONLY_COPY)
    lacking = _parked(Deed(Act.FETCH, f"data.{service}", node, facts, by_revision(proof)))
    return lacking or Receivable(service, moved_id(epoch))


def may_place(copy: Receivable, present: DataDirectory | None, node: str, proof: ProvenAddress) -> Placeable | Park:
    """By the same revision, while the service has no data here: whatever is there is set aside first."""
    facts = Facts(Provenance.FOREIGN, data(present))
    lacking = _parked(Deed(Act.OVERWRITE_DATA, f"data.{copy.service}", node, facts, by_revision(proof)))
    return lacking or Placeable(copy)


def may_move_aside(service: str, node: str, proof: ProvenAddress) -> Allowed | Park:
    """What is in the place of data that moves here, by the revision that says so: it stays on this node."""
    facts = Facts(Provenance.FOREIGN, Data.MAYBE_ONLY_COPY)
    return decide(Deed(Act.SET_ASIDE, f"data.{service}", node, facts, by_revision(proof)))


def may_set_aside(service: str, node: str, order: VerifiedOrder, *, is_needed: bool) -> Purgeable | Park:
    """A purge takes the checkpoints along: there may be something to lose even if the directory is empty. `is_needed`:
    a service of this node uses the data, or another node does not have all of it yet; no signature outweighs that. A
    copy that this node keeps of a service that runs elsewhere is not needed."""
    facts = Facts(Provenance.FOREIGN, Data.MAYBE_ONLY_COPY)
    lacking = _needed(service, node) if is_needed else None
    lacking = lacking or _parked(Deed(Act.DESTROY_DATA, f"data.{service}", node, facts, by_order(order)))
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
    return _parked(Deed(Act.DESTROY_DATA, f"data.{service}", node, facts, UNSIGNED)) or Disposable(service, purge)


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
    return _parked(Deed(Act.DRILL, f"service.{service}", node, NO_THING, UNSIGNED)) or Drillable(service, id)


def may_clear(journal: Journal, service: str, id: str, path: str, node: str) -> Clearable | Park:
    """What a drill unpacked, needs no signature: this agent's own journal marks the directory as scratch."""
    facts = Facts(provenance(journal, path, None), Data.MAYBE_ONLY_COPY)
    return _parked(Deed(Act.DESTROY_DATA, f"data.{service}", node, facts, UNSIGNED)) or Clearable(id)


def may_prune(
    key: str, there: Collection[There], *, all_known: bool, node: str, authority: Authority
) -> Prunable | Park:
    """One object of a backup, at one target. `there`: the backups of its service that are at this target now;
    `all_known`: no receipt there is missing in it."""
    parsed = backup_key.parse(key)
    service, mine = parsed.service, [one for one in there if one.found.receipt.service == parsed.service]
    made = Provenance.OWN_EARLIER if spare.is_own(parsed, mine, all_known) else Provenance.FOREIGN
    facts = Facts(made, Data.COPIED if spare.is_spare(parsed, mine) else Data.MAYBE_ONLY_COPY)
    target = f"data.{service}" if backup_key.is_of_service(service) else backup_key.address(service)
    return _parked(Deed(Act.DESTROY_COPY, target, node, facts, authority)) or Prunable(key)


def may_empty(key: str, *, node: str, proof: ProvenAddress) -> Prunable | Park:
    """An object on the way of a move that this node handed over: it has the data, and the other node signed that it has
    all of it."""
    facts = Facts(Provenance.OWN_EARLIER, Data.COPIED)
    deed = Deed(Act.DESTROY_COPY, f"data.{backup_key.parse(key).service}", node, facts, by_revision(proof))
    return _parked(deed) or Prunable(key)


def _needed(service: str, node: str) -> Park:
    return Park(
        f"may not purge data.{service} on {node}: service.{service} is applied there, or its data is still handed over",
        "destroy",
        f"holdfast ps {service}",
    )


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
