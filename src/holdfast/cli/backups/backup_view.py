"""Backups that a hub stores, each proven by the signature of the node that made it."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from msgspec import UNSET, Struct

from holdfast.cli.nodes import fleet_view
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.timestamps import rfc3339
from holdfast.errors import Conflict, Corrupt, HoldfastError, Invalid
from holdfast.model import backup_key
from holdfast.model.applied import recorded_key
from holdfast.model.backup import Receipt, VerifiedReceipt
from holdfast.model.backup_key import FLEET_DIGITS, BackupKey
from holdfast.model.backup_report import BackupState, BackupStates, TargetReport
from holdfast.model.storage_target import HUB
from holdfast.ports.hub_link import BackupReader
from holdfast.trust import enrolment, receipts
from holdfast.trust.enrolment import Proven


class Copy(Struct, frozen=True):
    """One target that has a backup."""

    target: str
    same_machine: bool

    def __str__(self) -> str:
        return f"{self.target} (same machine)" if self.same_machine else self.target

    def document(self) -> dict[str, Any]:
        return {"target": self.target, "same_machine": self.same_machine}


class Found(Struct, frozen=True):
    """One stored backup. `doubt`: why it does not count; then `proven` is None."""

    key: BackupKey
    proven: VerifiedReceipt | None
    doubt: str = ""


def reader(view: FleetView) -> BackupReader:
    if not isinstance(view.hub, BackupReader):
        raise fleet_view.no_hub("backups are stored", view.target)
    return view.hub


def found(view: FleetView, service: str = "") -> list[Found]:
    """By service, oldest first. The hub stores no file of itself."""
    if backup_key.hub_of(service):
        return []
    hub, above = reader(view), view.applied.fleet_id[:FLEET_DIGITS]
    prefix = f"{above}/{service}/receipts/" if service else f"{above}/"
    keys = [backup_key.parse(one.key) for one in hub.backup_objects(prefix)]
    known = _Known(view.applied.fleet_id, dict(_keys(view)), dict(_former(view)), _signed_for(view))
    stored = sorted((key for key in keys if key.kind == "receipts"), key=lambda key: (key.service, key.sequence))
    return [_found(hub, key, known) for key in stored]


class _Known(Struct, frozen=True):
    """What proves a receipt: the key of its node, or of the machine before, or operators who signed for it."""

    fleet: str
    keys: dict[str, str]
    former: dict[str, str]
    signed_for: frozenset[str]  # digests


def _found(hub: BackupReader, key: BackupKey, known: _Known) -> Found:
    try:
        content = content_of(hub, key)
        if key.digest in known.signed_for:
            return Found(key, receipts.named(content, key.digest, known.fleet, key.service))
        return Found(key, receipts.verify(content, known.fleet, key.service, known.keys, known.former))
    except Corrupt as trouble:
        return Found(key, None, trouble.message)


def content_of(hub: BackupReader, key: BackupKey) -> bytes:
    """Raises Corrupt if it is missing, or not what its key names."""
    content = hub.backup_object(key.text)
    if content is None:
        raise Corrupt(
            f"{key.text} is missing at the hub",
            remedy="`holdfast backup list` shows other backups",
            code="object_missing",
        )
    backup_key.check_content(key, content)
    return content


def keys_of(hub: BackupReader, receipt: Receipt) -> list[bytes]:
    """The sealed key of its generation, once for each time that it was addressed and is whole. Raises Corrupt if none
    is: then no byte of the backup can be read."""
    prefix = f"{receipt.fleet[:FLEET_DIGITS]}/{receipt.service}/g{receipt.generation}/keys/"
    found, damage = list[bytes](), None
    for stored in hub.backup_objects(prefix):
        try:
            found.append(content_of(hub, backup_key.parse(stored.key)))
        except Corrupt as trouble:
            damage = trouble
    if not found:
        raise damage or Corrupt(
            f"the key of generation {receipt.generation} of {receipt.service} is missing at the hub",
            remedy=f"`holdfast backup list {receipt.service}` shows other backups",
            code="object_missing",
        )
    return found


def _keys(view: FleetView) -> Iterator[tuple[str, str]]:
    for name in view.applied.table.of_kind("node"):
        if line := recorded_key(view.applied, name):
            yield name, line


def _former(view: FleetView) -> Iterator[tuple[str, str]]:
    for name in view.nodes:
        if (found := _replacement(name, view)) is not None:
            yield name, found.invite.over


def replaced_s(node: str, view: FleetView) -> float | None:
    """When this machine took the place of another one; None: it did not."""
    found = _replacement(node, view)
    return float(found.joining.joined_s) if found is not None else None


def _replacement(node: str, view: FleetView) -> Proven | None:
    """By the invite of the machine that took the place of the one before."""
    shown = view.nodes[node].view.enrolment if node in view.nodes else None
    with suppress(HoldfastError):
        found = enrolment.prove(shown, view.applied.fleet_id, view.applied.trust) if shown is not None else None
        if found is not None and found.invite.node == node and found.invite.replaces and found.invite.over:
            return found
    return None


def _signed_for(view: FleetView) -> frozenset[str]:
    entries = view.applied.table.of_kind("service").values()
    return frozenset(entry.move.backup for entry in entries if entry.move is not UNSET and entry.move.backup)


def order(one: VerifiedReceipt) -> tuple[int, int]:
    """Newer ones are greater: a node that took the service over begins again with number 1, in a later epoch."""
    return one.receipt.epoch, one.receipt.sequence


def proven(view: FleetView, service: str) -> list[VerifiedReceipt]:
    """Oldest first."""
    return sorted((one.proven for one in found(view, service) if one.proven is not None), key=order)


def named(view: FleetView, service: str, id: str) -> VerifiedReceipt:
    """By the beginning of its id; without one the newest that is proven."""
    if backup_key.hub_of(service):
        raise Invalid(
            f"{service} is the file of the hub, which lies on storage targets, and not at the hub",
            remedy="holdfast hub fetch STORAGE --list",
            code="not_at_hub",
        )
    rows = proven(view, service)
    if not rows:
        if backup_key.address(service) not in view.applied.table.entries:
            raise fleet_view.no_service(
                service,
                view.applied.table.of_kind("service"),
                "in the applied revision, and the hub has no backup of it",
            )
        raise Invalid(
            f"the hub stores no backup of {service} with a valid signature",
            remedy=f"to make one: holdfast backup {service} --wait; `holdfast backup list {service}` shows all",
            code="not_found",
        )
    if not id:
        return rows[-1]
    mine = [row for row in rows if row.digest.startswith(id)]
    if len(mine) == 1:
        return mine[0]
    lists = f"`holdfast backup list {service}` lists them"
    if not mine:
        raise Invalid(f"no backup {id!r} of {service} has a valid signature", remedy=lists, code="not_found")
    raise Conflict(f"{len(mine)} backups of {service} begin with {id!r}", remedy=lists, code="ambiguous")


def before(view: FleetView, service: str, at_s: float) -> VerifiedReceipt:
    """The newest one that was made at that time or before."""
    rows = proven(view, service)
    early = [row for row in rows if row.receipt.made_s <= at_s]
    if not early:
        raise Invalid(
            f"the hub stores no backup of {service} with a valid signature from {rfc3339(at_s)} or before",
            remedy=f"`holdfast backup list {service}` lists them",
            code="not_found",
        )
    return early[-1]


def states(view: FleetView) -> dict[str, tuple[str, BackupState]]:
    """service → its node and what that reports, if the report is not old; nodes that back themselves up, too."""
    rows = {}
    services = view.applied.table.of_kind("service").items()
    homes = [(name, entry.node if entry.node is not UNSET else "") for name, entry in services]
    own = (backup_key.of_node, backup_key.of_hub)
    homes += [(of(name), name) for name in view.applied.table.of_kind("node") for of in own]
    for name, node in homes:
        one = view.nodes.get(node)
        section = one.section(BackupStates) if one is not None and not one.is_old else None
        for state in section.backups if section is not None else ():
            if state.service == name:
                rows[name] = node, state
    return rows


def copies(view: FleetView, one: VerifiedReceipt, states: Mapping[str, tuple[str, BackupState]]) -> list[Copy]:
    """The hub has it, because it was read there; the others as the node of the service reports them."""
    receipt = one.receipt
    node, state = states.get(receipt.service, ("", None))
    reported = state.copies if state is not None and node == receipt.node else ()
    others = [Copy(each.target, each.same_machine) for each in reported if receipt.sequence in each.held]
    return [Copy(HUB, is_hub(view, receipt.node)), *(copy for copy in others if copy.target != HUB)]


def is_hub(view: FleetView, node: str) -> bool:
    """The hub, and so its store, is on this node."""
    return f"node.{node}" in view.applied.table.entries and "hub" in view.applied.node(node).roles


def targets(view: FleetView) -> list[tuple[str, TargetReport]]:
    """Storage targets, by the node that reports each."""
    sections = {name: one.section(BackupStates) for name, one in sorted(view.nodes.items()) if not one.is_old}
    return [(name, target) for name, section in sections.items() if section for target in section.targets]


def document(one: VerifiedReceipt) -> dict[str, Any]:
    receipt = one.receipt
    return {
        "id": one.id,
        "digest": one.digest,
        "service": receipt.service,
        "node": receipt.node,
        "sequence": receipt.sequence,
        "epoch": receipt.epoch,
        "generation": receipt.generation,
        "made": rfc3339(receipt.made_s),
        "cause": receipt.cause,
        "files": receipt.files,
        "size_bytes": receipt.size_bytes,
        "stored_bytes": receipt.stored_bytes,
        "target": HUB,
        "revision": receipt.revision or None,
        "method": receipt.method or None,
        "volumes": list(receipt.volumes),
        "partial": receipt.partial,
        "left_out": receipt.left_out,
    }
