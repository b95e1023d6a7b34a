"""Image tags and the digests they stand for. Pure: a registry was asked before, by whoever has the network."""

from collections.abc import Iterable, Mapping

from holdfast.model.fleet import Fleet, Service


def references(service: Service) -> tuple[str, ...]:
    return tuple(sorted({component.image for component in service.components}))


def pinned_digest(reference: str) -> str | None:
    name, at, digest = reference.rpartition("@")
    return digest if at and name else None


def unpinned(services: Iterable[Service]) -> tuple[str, ...]:
    """The references a registry has to be asked about: written as a tag, without a digest."""
    return tuple(sorted({ref for service in services for ref in references(service) if pinned_digest(ref) is None}))


def asked_for(fleet: Fleet) -> tuple[str, ...]:
    return unpinned(fleet.services.values())


def resolved(service: Service, answers: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """Tag → digest from the registry, else as applied before; what nobody knows stays out and is warned about."""
    known: dict[str, str] = {}
    for reference in references(service):
        if pinned_digest(reference) is None:
            digest = answers.get(reference) or before.get(reference)
            if digest:
                known[reference] = digest
    return known
