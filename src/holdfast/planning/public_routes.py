"""Which public hostnames of a service are wanted, and which an edge must carry. Pure."""

from collections.abc import Mapping

from msgspec import UNSET

from holdfast.model.revision import Entry
from holdfast.model.route import PublicRoute


def wanted(entry: Entry | None) -> Mapping[str, PublicRoute]:
    """Hostname → route. None of a service that is inactive or placed nowhere."""
    return entry.public if entry is not None and entry.node is not UNSET and entry.containers else {}


def carried(entry: Entry | None) -> dict[str, PublicRoute]:
    """The wanted hostnames that have an edge; none have one while no node is an edge."""
    return {hostname: route for hostname, route in wanted(entry).items() if route.edge}
