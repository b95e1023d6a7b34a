"""Check the rules between the keys of one service, and between a service and its fleet. Pure."""

from collections.abc import Mapping, Set

from msgspec import UNSET

from holdfast.declared import drills, names, needs, schedules, snapshots, spelling
from holdfast.declared.flaw import Flaws
from holdfast.declared.nodes import is_edge_only
from holdfast.declared.words import Path, shown
from holdfast.model import duration, mounts
from holdfast.model.fleet import Component, Node, Service
from holdfast.model.need import Provides
from holdfast.planning.placement import is_public, unproxied

STOP_S_MAX = 240  # the work of an agent is called late after five minutes (T-07)


def check_names(file: str, service: Service, flaws: Flaws) -> None:
    """Components, routes and volumes are addressed within their service, so each name occurs once in it."""
    components: list[tuple[str, Path]] = []
    routes: list[tuple[str, Path]] = []
    volumes: list[tuple[str, Path]] = []
    for at, component in enumerate(service.components):
        components.append((component.name, ("components", at)))
        for index, route in enumerate(component.routes):
            routes.append((route.name, ("components", at, "routes", index)))
        for index, volume in enumerate(component.volumes):
            if not isinstance(volume, str):
                volumes.append((volume.name, ("components", at, "volumes", index)))
    for named, what in ((components, "component"), (routes, "route"), (volumes, "volume")):
        if len(named) > 1:
            names.check(file, named, what + " of this service", flaws)
    schedules.check(file, service, flaws)
    drills.check(file, service, flaws)
    snapshots.check(file, service, flaws)
    needs.check(file, service, flaws)


def check_nodes(file: str, service: Service, nodes: Mapping[str, Node], known: Set[str], flaws: Flaws) -> None:
    """A pin overrides the tier (M-36); the pin and every failover node must exist and run containers (C-23)."""
    wanted: list[tuple[Path, str]] = [(("failover", at), name) for at, name in enumerate(service.failover)]
    if service.node is not UNSET:
        wanted.append((("node",), service.node))
    for where, name in wanted:
        if name not in known:
            remedy = spelling.question(name, known) or "add it to [[nodes]] in fleet.toml"
            flaws.add_checked(file, where, f"there is no node {shown(name)}", remedy)
        elif name in nodes and is_edge_only(nodes[name]):
            what = f'node "{name}" has only the role edge, and such a node runs no services'
            flaws.add_checked(file, where, what, "choose another node, or give this one the role worker")
        elif name in nodes and is_public(service) and (why := unproxied(nodes[name])):
            what = f'has a public route, but node "{name}" {why}: an edge reaches backends over TLS only'
            flaws.add_checked(file, where, what, "choose another node, or remove proxy from this one")


def check_providers(file: str, name: str, service: Service, provided: Mapping[str, Provides], flaws: Flaws) -> None:
    """Each need has exactly one provider in the fleet."""
    needs.check_providers(file, name, service, provided, flaws)


def check_writers(file: str, service: Service, flaws: Flaws) -> None:
    """Two writers never share a volume, and data stays on its node: no other node may run it instead."""
    with_data = False
    for at, component in enumerate(service.components):
        if not component.volumes:
            continue
        with_data = True
        if component.replicas > 1:
            what = f"{component.replicas} copies would write into the same volumes"
            flaws.add_checked(
                file, ("components", at, "replicas"), what, "set replicas = 1, or store the data outside the service"
            )
        if component.update == "rolling":
            what = "a rolling update runs the old and the new version on the same volumes at the same time"
            flaws.add_checked(file, ("components", at, "update"), what, 'leave it out, or write update = "recreate"')
    if with_data and service.failover:
        what = "a service with volumes cannot fail over: its data would stay on the silent node"
        flaws.add_checked(file, ("failover",), what, "remove failover; moving data is not built yet")


def check_stops(file: str, service: Service, flaws: Flaws) -> None:
    for at, component in enumerate(service.components):
        wanted = component.stop_timeout
        if wanted is not UNSET and duration.milliseconds(wanted) > STOP_S_MAX * 1000:
            what = f"{wanted} is longer than {STOP_S_MAX // 60} minutes"
            flaws.add_checked(file, ("components", at, "stop_timeout"), what, f'write at most "{STOP_S_MAX // 60}m"')


def check_nesting(file: str, name: str, service: Service, flaws: Flaws) -> None:
    """A container that can write into the outer one could replace the inner one by a link to anywhere."""
    inside = mounts.nested(service, name)
    if inside is not None:
        what = f"{shown(inside[0])} is mounted from inside {shown(inside[1])}, which is mounted too"
        flaws.add_checked(file, ("components",), what, "mount only the outer one, or two separate directories")


def check_volumes(file: str, service: Service, storage: Set[str] | None, flaws: Flaws) -> None:
    for at, component in enumerate(service.components):
        _check_scratch(file, at, component, flaws)
        for index, volume in enumerate(component.volumes):
            where: Path = ("components", at, "volumes", index)
            if isinstance(volume, str):
                _check_paths(file, where, volume.split(":"), flaws)
                continue
            _check_paths(file, (*where, "path"), [volume.path], flaws)
            kind, _, target = volume.protect.partition(":")
            if kind == "own" and storage is not None and target not in storage:
                guess = spelling.nearest(target, storage)
                remedy = f'did you mean "own:{guess}"?' if guess else "add it to [[storage]] in fleet.toml"
                what = f"there is no storage target {shown(target)}"
                flaws.add_checked(file, (*where, "protect"), what, remedy)


def _check_scratch(file: str, at: int, component: Component, flaws: Flaws) -> None:
    """A directory is kept or may be lost, not both."""
    mounted = {v.partition(":")[2] if isinstance(v, str) else v.path for v in component.volumes}
    for index, path in enumerate(component.scratch):
        where: Path = ("components", at, "scratch", index)
        _check_paths(file, where, [path], flaws)
        if path in mounted:
            what = f"{shown(path)} is a volume of this component, so its content is kept"
            flaws.add_checked(file, where, what, "remove it from scratch, or remove the volume")


def _check_paths(file: str, where: Path, paths: list[str], flaws: Flaws) -> None:
    """A path must be normalised: the grade a volume needs is decided by how its path begins."""
    for path in paths:
        if not {"", ".", ".."}.isdisjoint(path.rstrip("/").split("/")[1:]):
            flaws.add_checked(file, where, f"{shown(path)} has empty, . or .. parts", "write the path without them")
