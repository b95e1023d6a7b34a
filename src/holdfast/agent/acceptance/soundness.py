"""Whether a changed address of a manifest can be judged at all. Pure."""

from collections.abc import Mapping

from holdfast.errors import HoldfastError
from holdfast.model.fleet import Service
from holdfast.model.ids import kind_of
from holdfast.model.revision import Table
from holdfast.planning.kinds.kind import Proposal, read
from holdfast.planning.kinds.service_check import check_service
from holdfast.planning.soundness import check_entry


def unsound(address: str, before: Table, after: Table, contents: Mapping[str, bytes]) -> str | None:
    """What no grade allows: a content in which one thing hides behind another cannot be judged."""
    entry = after.entries.get(address)
    if entry is None or before.entries.get(address) == entry:
        return None
    try:
        if kind_of(address) == "service":
            service = read(contents, entry, address, Service)
            check_service(address, entry, service, contents)
            if any(component.volumes and component.replicas > 1 for component in service.components):
                return "its copies would write into the same volumes at once"  # which no checkpoint precedes
        else:
            check_entry(Proposal(address, before, after, contents))
    except HoldfastError as trouble:
        return trouble.message
    return None
