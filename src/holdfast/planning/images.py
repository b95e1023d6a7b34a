"""Image tags and their digests. Pure: the caller has asked the registry before."""

from collections.abc import Iterable, Mapping

from holdfast.model.applied import Applied
from holdfast.model.fleet import Fleet, Service
from holdfast.ports.registry import ABSENT


def references(service: Service) -> tuple[str, ...]:
    return tuple(sorted({component.image for component in service.components}))


def pinned_digest(reference: str) -> str | None:
    name, at, digest = reference.rpartition("@")
    return digest if at and name else None


def unpinned(services: Iterable[Service]) -> tuple[str, ...]:
    """The references to resolve at a registry: tags without a digest."""
    return tuple(sorted({ref for service in services for ref in references(service) if pinned_digest(ref) is None}))


def asked_for(fleet: Fleet) -> tuple[str, ...]:
    return unpinned(fleet.services.values())


def unknown(
    fleet: Fleet, answers: Mapping[str, str], applied: Applied | None, only: str | None = None
) -> tuple[tuple[str, str], ...]:
    """Service and reference of each new image that its registry does not have. What is applied already stays: a tag
    that was deleted since keeps no other change from being applied."""
    return tuple(
        (name, reference)
        for name, service in fleet.services.items()
        if only in (None, f"service.{name}")
        for reference in references(service)
        if answers.get(reference) == ABSENT and reference not in _applied(name, applied)
    )


def _applied(name: str, applied: Applied | None) -> tuple[str, ...]:
    known = applied is not None and f"service.{name}" in applied.table.entries
    return references(applied.service(name)) if applied is not None and known else ()


def resolved(service: Service, answers: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """Tag → digest from the registry, else as applied before; an unknown one is left out and warned about."""
    known: dict[str, str] = {}
    for reference in references(service):
        if pinned_digest(reference) is None:
            digest = answers.get(reference) or before.get(reference)
            if digest:
                known[reference] = digest
    return known
