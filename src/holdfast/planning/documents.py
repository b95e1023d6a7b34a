"""What planning reads from documents of resources. Pure."""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.model import canonical
from holdfast.model.applied import content
from holdfast.model.fleet import FleetDocument, Service
from holdfast.model.ids import FLEET
from holdfast.model.revision import Table


def removals_max(contents: Mapping[str, bytes], table: Table) -> int:
    """How many resources one apply may remove in the applied fleet."""
    found = content(contents, table.entries[FLEET].digest, FLEET)
    return msgspec.json.decode(found, type=FleetDocument).settings.removals_max


def nameless(service: Service) -> Service:
    """The address is the name; a `name` key that repeats it must not make a second spelling."""
    return service if service.name is UNSET else replace(service, name=UNSET)


def service_digest(service: Service) -> str:
    return canonical.digest(canonical.encode(nameless(service)))
