"""Who may put what into the mailbox of a move, by the applied revision. Pure.

The source puts packs, manifests and its key; both nodes put what they signed; both read; the source deletes. What lies
here is never the only copy: the source keeps its data.
"""

from msgspec import UNSET

from holdfast.errors import Invalid, NotPermitted
from holdfast.model.applied import Applied
from holdfast.model.backup_key import FLEET_DIGITS, BackupKey
from holdfast.model.move import epoch_of
from holdfast.model.principal import Principal
from holdfast.model.revision import Entry


def check_fleet(applied: Applied | None, fleet: str) -> Applied:
    if applied is None or applied.fleet_id[:FLEET_DIGITS] != fleet:
        raise not_found()
    return applied


def moving(applied: Applied, node: str, service: str) -> Entry:
    """The service that this node hands over or takes over, as applied."""
    entry = applied.table.entries.get(f"service.{service}")
    if entry is None or entry.move is UNSET or not entry.move.hands_over or node not in (entry.node, entry.move.source):
        raise not_found()
    return entry


def check_put(applied: Applied, principal: Principal, key: BackupKey) -> None:
    entry = moving(applied, principal.name, key.service)
    assert entry.move is not UNSET
    epoch = epoch_of(key)
    if epoch != entry.epoch:
        raise NotPermitted(
            f"{principal} may not store objects of epoch {epoch} of {key.service}: the applied one is {entry.epoch}",
            remedy="the node accepts the newer revision with its next check-in",
            code="other_epoch",
        )
    if key.kind != "receipts" and principal.name != entry.move.source:
        raise NotPermitted(
            f"{principal} may not store data of {key.service}: {entry.move.source} hands it over",
            remedy="docs/reference/permissions.md shows who may do what",
            code="not_your_service",
        )


def check_delete(applied: Applied, principal: Principal, key: BackupKey) -> None:
    """The closing word of the source stays whatever the target asks for (ADR 0056)."""
    move = moving(applied, principal.name, key.service).move
    assert move is not UNSET
    if principal.name != move.source:
        raise NotPermitted(
            f"{principal} may not delete objects of the move of {key.service}: {move.source} hands it over",
            remedy="docs/reference/permissions.md shows who may do what",
            code="not_your_service",
        )


def is_over(applied: Applied, key: BackupKey) -> bool:
    """No applied move needs it. The words of a move that is taken back stay: a node that was put back asks for them."""
    entry = applied.table.entries.get(f"service.{key.service}")
    if entry is None or entry.move is UNSET or not entry.move.hands_over:
        return True
    before = entry.epoch - 1 if entry.move.back and key.kind == "receipts" else entry.epoch
    return epoch_of(key) not in (entry.epoch, before)


def not_found() -> Invalid:
    return Invalid(
        "there is no such object of a move for this caller",
        remedy="`holdfast status` shows the moves under way",
        code="not_found",
    )
