"""Which public hostnames of a service an edge must carry. Pure."""

from msgspec import UNSET

from holdfast.model.revision import Entry
from holdfast.model.route import PublicRoute


def carried(entry: Entry) -> dict[str, PublicRoute]:
    """None of a service that is inactive, or nowhere, and none while no node is an edge."""
    if entry.node is UNSET or not entry.containers:
        return {}
    return {hostname: route for hostname, route in entry.public.items() if route.edge}
