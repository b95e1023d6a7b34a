"""Backups that a hub stores, each proven by the signature of the node that made it."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import UNSET, Struct

from holdfast.cli.nodes import fleet_view
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.timestamps import rfc3339
from holdfast.errors import Conflict, Corrupt, Invalid
from holdfast.model import backup_key
from holdfast.model.applied import recorded_key
from holdfast.model.backup import Receipt, VerifiedReceipt
from holdfast.model.backup_key import FLEET_DIGITS, BackupKey
from holdfast.model.backup_report import BackupState, BackupStates, TargetReport
from holdfast.model.storage_target import HUB
from holdfast.ports.hub_link import BackupReader
from holdfast.trust import receipts


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
        raise fleet_view.no_hub("backups", view.target)
    return view.hub


def found(view: FleetView, service: str = "") -> list[Found]:
    """By service, oldest first."""
    hub, above = reader(view), view.applied.fleet_id[:FLEET_DIGITS]
    prefix = f"{above}/{service}/receipts/" if service else f"{above}/"
    keys = [backup_key.parse(one.key) for one in hub.backup_objects(prefix)]
    nodes = dict(_keys(view))
    stored = sorted((key for key in keys if key.kind == "receipts"), key=lambda key: (key.service, key.sequence))
    return [_found(hub, key, view.applied.fleet_id, nodes) for key in stored]


def _found(hub: BackupReader, key: BackupKey, fleet: str, nodes: dict[str, str]) -> Found:
    try:
        content = content_of(hub, key)
        return Found(key, receipts.verify(content, fleet, key.service, nodes))
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


def keys_of(hub: BackupReader, receipt: Receipt) -> Iterator[bytes]:
    """The sealed key of its generation, once for each time that it was addressed."""
    prefix = f"{receipt.fleet[:FLEET_DIGITS]}/{receipt.service}/g{receipt.generation}/keys/"
    for stored in hub.backup_objects(prefix):
        yield content_of(hub, backup_key.parse(stored.key))


def _keys(view: FleetView) -> Iterator[tuple[str, str]]:
    for name in view.applied.table.of_kind("node"):
        if line := recorded_key(view.applied, name):
            yield name, line


def order(one: VerifiedReceipt) -> tuple[int, int]:
    """Newer ones are greater: a node that took the service over begins again with number 1, in a later epoch."""
    return one.receipt.epoch, one.receipt.sequence


def proven(view: FleetView, service: str) -> list[VerifiedReceipt]:
    """Oldest first."""
    return sorted((one.proven for one in found(view, service) if one.proven is not None), key=order)


def named(view: FleetView, service: str, id: str) -> VerifiedReceipt:
    """By the beginning of its id; without one the newest that is proven."""
    rows = proven(view, service)
    if not rows:
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
    homes += [(backup_key.of_node(name), name) for name in view.applied.table.of_kind("node")]
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
