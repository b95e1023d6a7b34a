"""Derive the exact container specs of a service from its file and its table entry. Pure."""

from collections.abc import Mapping
from decimal import Decimal
from math import ceil

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.model import duration
from holdfast.model.container import SETTLE, STOP_S, ContainerSpec, Guest, Mount, NeedUse, Part, spec_digest
from holdfast.model.fleet import Component, Hooks, Service, Volume
from holdfast.model.mounts import on_node
from holdfast.model.revision import Entry
from holdfast.model.secret import uses_of

_UNIT_BYTES = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


def guest(
    address: str, entry: Entry, service: Service, fleet: str, data_dir: str, deployment: str, exposed: bool = False
) -> Guest:
    """`address` is the service's (`service.web`); a bare name means the same. `exposed`: the node has no proxy."""
    name = address.rpartition(".")[2]
    network = network_of(fleet, name) if len(service.components) > 1 else ""
    made = (_part(component, name, entry, fleet, data_dir, network, exposed) for component in service.components)
    parts = (_with_needs(part, service) for part in made)
    with_runs = [replace(part, runs=_runs(service, part.spec.component)) for part in parts]
    off = _off(service, name, data_dir)
    without = (replace(part, off=tuple(m.source for m in part.spec.mounts if m.source in off)) for part in with_runs)
    return Guest(name, deployment, entry.epoch, tuple(without), service.active)


def _with_needs(part: Part, service: Service) -> Part:
    """Each component gets the needs of its service, unless `deliver` names others."""
    needs = tuple(
        NeedUse(need.name, need.path)
        for need in sorted(service.needs, key=lambda need: need.name)
        if part.spec.component in (need.deliver.components or (part.spec.component,))
    )
    if not needs:
        return part
    spec = replace(part.spec, needs=needs)
    return replace(part, spec=spec, digest=spec_digest(spec))


def _off(service: Service, name: str, data_dir: str) -> frozenset[str]:
    """Directories without checkpoints. If components share one and say different things, it has checkpoints."""
    said: dict[bool, set[str]] = {True: set(), False: set()}
    for volume in (volume for one in service.components for volume in one.volumes):
        is_off = isinstance(volume, Volume) and volume.checkpoint == "off"
        said[is_off].add(_mount(volume, name, data_dir).source)
    return frozenset(said[True] - said[False])


def _runs(service: Service, component: str) -> tuple[tuple[str, ...], ...]:
    return tuple(one.cmd for one in service.schedule if one.component == component)


def network_of(fleet: str, service: str) -> str:
    return f"hf-{fleet[:6]}-{service}"


def _part(
    component: Component, service: str, entry: Entry, fleet: str, data_dir: str, network: str, exposed: bool
) -> Part:
    spec = ContainerSpec(
        fleet=fleet,
        service=service,
        component=component.name,
        epoch=entry.epoch,
        image=component.image,
        digest=_image_digest(component.image, entry.images),
        command=component.cmd,
        env=_env(component, service, entry.epoch),
        secrets=uses_of(component, entry.secrets),
        mounts=_mounts(component, service, data_dir),
        ports=_ports(component),
        network=network,
        cpu_millicores=_millicores(component),
        memory_bytes=_memory(component),
        exposed=exposed and bool(component.routes),
        user="" if component.user is UNSET else component.user,
        stop_s=STOP_S
        if component.stop_timeout is UNSET
        else ceil(duration.milliseconds(component.stop_timeout) / 1000),
    )
    hooks = Hooks() if component.hooks is UNSET else component.hooks
    return Part(
        spec=spec,
        digest=spec_digest(spec),
        replicas=component.replicas,
        recreate=bool(component.volumes) or component.update == "recreate",
        health=component.health,
        pre_deploy=hooks.pre_deploy,
        post_deploy=hooks.post_deploy,
        routes=component.routes,
        scratch=component.scratch,
        settle=SETTLE if component.settle is UNSET else component.settle,
    )


def _image_digest(image: str, resolved: Mapping[str, str]) -> str:
    _, pinned, digest = image.partition("@")
    return digest if pinned else resolved.get(image, "")


def _env(component: Component, service: str, epoch: int) -> tuple[tuple[str, str], ...]:
    """Holdfast's labels win over the file's, so that readers can rely on them."""
    ours = {
        "HOLDFAST_SERVICE": service,
        "HOLDFAST_COMPONENT": component.name,
        "HOLDFAST_EPOCH": str(epoch),
    }
    return tuple(sorted({**component.env, **ours}.items()))


def _mounts(component: Component, service: str, data_dir: str) -> tuple[Mount, ...]:
    mounts = (_mount(volume, service, data_dir) for volume in component.volumes)
    return tuple(sorted(mounts, key=lambda mount: (mount.target, mount.source)))


def _mount(volume: Volume | str, service: str, data_dir: str) -> Mount:
    if isinstance(volume, Volume):
        owner = "" if volume.owner is UNSET else volume.owner
        return Mount(f"{data_dir}/{service}/{volume.name}", volume.path, owner=owner)
    host, _, inside = volume.partition(":")
    return Mount(on_node(host, data_dir), inside)


def _ports(component: Component) -> tuple[int, ...]:
    ports = {route.port for route in component.routes}
    if component.health is not UNSET and component.health.port is not UNSET:
        ports.add(component.health.port)
    return tuple(sorted(ports))


def _millicores(component: Component) -> int:
    if component.resources is UNSET or component.resources.cpu is UNSET:
        return 0
    return int(Decimal(component.resources.cpu) * 1000)


def _memory(component: Component) -> int:
    if component.resources is UNSET or component.resources.memory is UNSET:
        return 0
    text = component.resources.memory.removesuffix("B")
    number = text.rstrip("KMGi")
    return int(number) * _UNIT_BYTES[text[len(number) :]]
