"""What this node must run, frozen: the manifest in force with its contents read, as guests (T-05)."""

from collections.abc import Collection

import msgspec
from msgspec import Struct

from holdfast.agent.acceptance.accept import Accepting
from holdfast.agent.world import World
from holdfast.errors import Corrupt, HoldfastError
from holdfast.model.container import Guest
from holdfast.model.deployment import deployment_of
from holdfast.model.fleet import Node, Service, Settings
from holdfast.model.revision import Entry
from holdfast.planning.edges import proxy_of
from holdfast.reconcile import wanted

_service = msgspec.json.Decoder(Service).decode


class Desired(Struct, frozen=True):
    """`complete` is False while a content is missing: then nothing is taken away (C-05)."""

    revision: int
    node: Node
    settings: Settings
    guests: dict[str, Guest]  # by name of the service
    services: dict[str, Service]
    standby: frozenset[str]  # of these, the ones that run here for another node
    complete: bool = True
    trouble: HoldfastError | None = None


def desired(world: World, accepting: Accepting, fleet: str, standby: Collection[str]) -> Desired | None:
    """None before anything was accepted."""
    manifest, own = accepting.in_force, accepting.own()
    if manifest is None or own is None:
        return None
    here = {**manifest.services, **{a: manifest.standby[a] for a in standby if a in manifest.standby}}
    exposed = proxy_of(own[0]) == "none"
    guests: dict[str, Guest] = {}
    services: dict[str, Service] = {}
    trouble: HoldfastError | None = None
    for address, entry in sorted(here.items()):
        name = address.partition(".")[2]
        try:
            service = _read(world, address, entry)
            guests[name] = wanted.guest(address, entry, service, fleet, world.data_dir, deployment_of(entry), exposed)
            services[name] = service
        except HoldfastError as found:
            trouble = found
    borrowed = frozenset(a.partition(".")[2] for a in here if a not in manifest.services)
    return Desired(accepting.seen.number, own[0], own[1], guests, services, borrowed, trouble is None, trouble)


def _read(world: World, address: str, entry: Entry) -> Service:
    content = world.acceptance.blob(entry.digest)
    try:
        if content is None:
            raise msgspec.DecodeError("it is not there")
        return _service(content)
    except msgspec.DecodeError as trouble:
        raise Corrupt(
            f"the content of {address} cannot be read from this node's own state: {trouble}",
            remedy="holdfast agent check; the next apply that changes it brings it again",
            code="content_missing",
        ) from trouble
