"""Which data of a service its backups hold, volume by volume. Derived from the declaration; opens no file."""

from collections.abc import Iterator
from typing import Literal

from msgspec import UNSET, Struct

from holdfast.model import dump
from holdfast.model.fleet import Service, Snapshot, Volume

# whole: every file. dump: what a command of the service writes, and no file. partial: the small default set (*.toml,
# *.db, *.pem). none: declared so, or out of reach.
Extent = Literal["whole", "dump", "partial", "none"]


class Covered(Struct, frozen=True):
    """One volume of one component. `place` is relative to the service's data directory; "" is that directory itself,
    and None a path outside of it."""

    component: str
    volume: str  # its name, or HOST:CONTAINER
    place: str | None
    extent: Extent
    protect: str  # as declared; "" for HOST:CONTAINER


def of_service(name: str, service: Service) -> tuple[Covered, ...]:
    return tuple(_covered(name, service))


def mounted(name: str, service: Service, component: str) -> tuple[tuple[str, str], ...]:
    """Where the container of a component sees what is held whole: path in it → place."""
    held = {one.place for one in of_service(name, service) if one.extent == "whole" and one.component == component}
    found = [volume for one in service.components if one.name == component for volume in one.volumes]
    named = ((one.path, one.name) for one in found if isinstance(one, Volume))
    paths = ((one.split(":")[1], own_place(name, one.partition(":")[0])) for one in found if isinstance(one, str))
    return tuple((path, place) for path, place in (*named, *paths) if place is not None and place in held)


def is_backed_up(covered: tuple[Covered, ...]) -> bool:
    return any(one.extent != "none" for one in covered)


def _covered(name: str, service: Service) -> Iterator[Covered]:
    snapshot = service.snapshot if service.snapshot is not UNSET else Snapshot()
    dumped = dump.place(service)
    for component in service.components:
        for volume in component.volumes:
            if isinstance(volume, Volume):
                extent: Extent = "none" if volume.protect != "backup" else "whole"
                extent = "dump" if extent == "whole" and (component.name, volume.name) == dumped else extent
                yield Covered(component.name, volume.name, volume.name, extent, volume.protect)
            else:
                place = own_place(name, volume.partition(":")[0])
                extent = "none" if place is None else "whole" if snapshot.method else "partial"
                yield Covered(component.name, volume, place, extent, "")


def own_place(name: str, path: str) -> str | None:
    """A path of the host relative to the service's own directory; None if it lies elsewhere."""
    own = f"/srv/{name}"
    parts = path.split("/")
    if ".." in parts or "." in parts:
        return None
    if path.rstrip("/") == own:
        return ""
    return (
        "/".join(part for part in path.removeprefix(own + "/").split("/") if part)
        if path.startswith(own + "/")
        else None
    )
