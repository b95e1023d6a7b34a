"""Image tags and their digests. Pure: the caller has asked the registry before."""

from collections.abc import Iterable, Mapping

from holdfast.model.fleet import Fleet, Service


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


def resolved(service: Service, answers: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """Tag → digest from the registry, else as applied before; an unknown one is left out and warned about."""
    known: dict[str, str] = {}
    for reference in references(service):
        if pinned_digest(reference) is None:
            digest = answers.get(reference) or before.get(reference)
            if digest:
                known[reference] = digest
    return known
