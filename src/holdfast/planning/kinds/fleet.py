"""Kind `fleet`: settings that every node may know. Every manifest names its digest."""

from collections.abc import Iterator, Mapping

from holdfast.model import canonical, duration
from holdfast.model.fleet import Fleet, FleetDocument, Settings
from holdfast.model.ids import FLEET
from holdfast.model.plan import Demand
from holdfast.model.storage_target import in_words, keeps_fewer
from holdfast.planning import harmless, infrastructure
from holdfast.planning.kinds.kind import (
    Kind,
    PlainEntry,
    Proposal,
    Step,
    destroy,
    document_fields,
    nothing_to_say,
    plain_entry,
    refuse,
    to_no_node,
)

_MINUTES = ("cron", "drill_cron", "timezone")


def documents(fleet: Fleet) -> Mapping[str, bytes]:
    document = FleetDocument(fleet.settings, fleet.backups, fleet.timeouts, fleet.acme, fleet.dns, fleet.overlay)
    return {FLEET: canonical.encode(document)}


def check(proposal: Proposal) -> None:
    refuse(proposal.address, infrastructure.fleet_complaints(proposal.document(FleetDocument)))


def demands(step: Step) -> Iterator[Demand]:
    if step.is_other_content:
        before, after = step.documents(FleetDocument)
        found = tuple(fleet_demands(before, after))
        yield from found or (harmless.demands("", before, after) if step.rules != "first" else ())


def fleet_demands(before: FleetDocument, after: FleetDocument) -> Iterator[Demand]:
    yield from settings_demands(before.settings, after.settings)
    if after.overlay.encrypted and not before.overlay.encrypted:  # only then may containers be reached without TLS
        yield destroy("declares that the overlay network encrypts, so that nodes may have no proxy")
    if more := sorted(set(after.dns.upstream) - set(before.dns.upstream)):  # a server could answer with any address
        yield destroy(f"uses other DNS servers for names outside the fleet ({', '.join(more)})")
    if after.settings.removals_max > before.settings.removals_max:
        yield destroy("raises removals_max")
    if keeps_fewer(before.backups.retain, after.backups.retain):
        old, new = in_words(before.backups.retain), in_words(after.backups.retain)
        yield destroy(f"lowers backups.retain ({old} → {new})")
    for key in ("interval", "drill_interval"):
        old, new = getattr(before.backups, key), getattr(after.backups, key)
        if duration.milliseconds(new) > duration.milliseconds(old):
            yield destroy(f"makes backups.{key} longer ({old} → {new})")
    if other := [key for key in _MINUTES if getattr(before.backups, key) != getattr(after.backups, key)]:
        # Which of two expressions makes fewer backups is not compared.
        yield destroy(f"changes backups.{', backups.'.join(other)}")


def settings_demands(before: Settings, after: Settings) -> Iterator[Demand]:
    """The reasons are in docs/adr/0015. By the newest rules other keys need destroy as well (harmless.py)."""
    if after.hub_key != before.hub_key:  # agents and operators take the owner of that key for the hub
        yield destroy("pins another key of the hub" if before.hub_key else "pins the key of the hub")
    elif after.hub != before.hub and not after.hub_key:  # with a pinned key a wrong address only fails
        yield destroy("sends every client to another hub while no hub_key pins it")
    if after.internal_zone != before.internal_zone:  # every node may hold certificates for names in it
        yield destroy("changes the zone that nodes may hold certificates for")
    if more := sorted(set(after.public_domains) - set(before.public_domains)):
        yield destroy(f"adds domains that edges may hold certificates for ({', '.join(more)})")
    if after.overlay_cidr != before.overlay_cidr and not _within(after.overlay_cidr, before.overlay_cidr):
        yield destroy(f"lets nodes have addresses outside {before.overlay_cidr} ({after.overlay_cidr})")


def _within(inner: str, outer: str) -> bool:
    from ipaddress import ip_network  # costs 5 ms, which a plan without such a change need not pay

    try:
        one, other = ip_network(inner), ip_network(outer)
    except ValueError:
        return False
    return one.version == other.version and one.subnet_of(other)  # type: ignore[arg-type]  # same version, checked


KIND = Kind(
    name="fleet",
    schema=FleetDocument,
    view=PlainEntry,
    documents=documents,
    draft=plain_entry,
    check=check,
    demands=demands,
    fields=document_fields,
    why=nothing_to_say,
    project=to_no_node,  # every manifest names its digest in `settings`
)
