"""What a plan knows of the nodes: what they signed, as their hub shows it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.cli.nodes import accepted_heads
from holdfast.cli.tools import Toolbox
from holdfast.model.applied import Applied
from holdfast.model.data_figures import figures_of
from holdfast.model.plan import Change, Plan
from holdfast.ports.hub_link import HubReader

if TYPE_CHECKING:
    from holdfast.model.verified_report import VerifiedReport
    from holdfast.trust.reports import Reports


def look(hub: HubReader | None, applied: Applied | None, box: Toolbox) -> "Reports | None":
    """Certificates that do not fit are left out, and what the hub claims and does not prove is a warning. None for a
    ledger directory."""
    found = accepted_heads.verified(hub, applied, box.clock.now_s())
    if found is None or applied is None:
        return None
    from holdfast.cli.nodes import issuers

    known = issuers.fit_only(found.identities, applied, box.files.certificate, box.clock.now_s())
    for doubt in known.doubts:
        box.terminal.warn(doubt)
    return replace(found, identities=known)


def check_head(hub: HubReader | None, applied: Applied | None, box: Toolbox) -> dict[str, int]:
    """For a command that drafts a revision and needs of the nodes only the formats that they read."""
    found = accepted_heads.verified(hub, applied, box.clock.now_s())
    return formats(found.nodes) if found is not None else {}


def formats(nodes: Mapping[str, "VerifiedReport"]) -> dict[str, int]:
    """Node → the newest format that its verified pulse names."""
    return {name: node.pulse.format for name, node in nodes.items() if node.pulse is not None}


def with_data(plan: Plan, applied: Applied, found: "Reports") -> Plan:
    """The plan, with what an update of a service with data costs. Most changes are of services without data: their
    command does not load how containers are derived."""
    if not any(_has_data(change, applied, found) for change in plan.changes):
        return plan
    from holdfast.cli.volumes import data_notes

    return data_notes.noted(plan, applied, found.nodes)


def _has_data(change: Change, applied: Applied, found: "Reports") -> bool:
    """Its node reports data of it."""
    entry = applied.table.entries.get(change.address)
    if change.kind == "create" or entry is None or entry.node is UNSET:
        return False
    return figures_of(change.address.removeprefix("service."), found.nodes.get(entry.node)) is not None
