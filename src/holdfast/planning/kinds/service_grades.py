"""The grade that must sign a change of a service: design.md §2 as rules. Pure."""

from collections.abc import Callable, Iterator, Set

from msgspec import UNSET

from holdfast.errors import Corrupt
from holdfast.model import dump
from holdfast.model.fleet import Service, Snapshot, Volume
from holdfast.model.plan import Demand
from holdfast.model.revision import Entry
from holdfast.planning.kinds.kind import Step, decode, destroy
from holdfast.planning.providers import DATA_BEARING


def demands(step: Step) -> Iterator[Demand]:
    """Retiring a service keeps its data, so it demands nothing."""
    before, after = step.before, step.after
    if before is None:
        created = decode(step.content_after(), Service)
        if step.buried is not None:
            yield from _again(step.buried, created, step.name)
        else:
            yield from host_paths(created, step.name)
        yield from _older_data(after)
    elif after is not None:
        if before.protect and before.node != after.node:  # on the node it leaves, a protected service is removed
            yield destroy(f"moves a protected service away from {before.node}")
        if after.move is not UNSET and after.move.backup and after.move != before.move:
            is_here = before.node == after.node
            left = "it had since" if is_here else f"{before.node} wrote since stays there"
            yield destroy(f"starts it {'again ' if is_here else ''}with a backup on {after.node}; what {left}")
        if after.move is not UNSET and after.move.kept and after.move != before.move:
            yield destroy(f"goes on with an older copy on {after.node}; what {before.node} wrote since stays there")
        yield from provider_demands(before, after)
        if step.is_other_content:
            yield from service_demands(*step.documents(Service), step.name)


def _older_data(new: Entry | None) -> Iterator[Demand]:
    """On a node that did not have it: what the table says of the node before is not in the manifest of this one."""
    if new is not None and new.move is not UNSET and not new.move.hands_over:
        yield destroy(f"starts it with {new.move.origin}; what {new.move.source} wrote since stays there")


def provider_demands(before: Entry, after: Entry) -> Iterator[Demand]:
    """The data stays with the provider that had it."""
    for name, want in after.wants.items():
        had = before.wants.get(name)
        if had is not None and had.type in DATA_BEARING and (had.type, had.provider) != (want.type, want.provider):
            yield destroy(f"has its need {name} met by another provider; its data stays on {had.provider}")


Volumes = dict[tuple[str, str], Volume | str]


def _again(buried: Callable[[], bytes], created: Service, name: str) -> Iterator[Demand]:
    """No file can bring lost content of a removed service back: then the highest grade that it could need is enough."""
    try:
        before = decode(buried(), Service)
    except Corrupt:
        yield destroy("what it was before its removal is lost, and its data may still exist")
        yield from host_paths(created, name)
    else:
        yield from service_demands(before, created, name)


def volumes(service: Service) -> Volumes:
    """By (component, volume): a v1 string volume is identified by the string itself."""
    return {
        (component.name, volume if isinstance(volume, str) else volume.name): volume
        for component in service.components
        for volume in component.volumes
    }


def service_demands(before: Service, after: Service, name: str = "") -> Iterator[Demand]:
    if before.protect and not after.protect:
        yield destroy("lifts protect")
    if before.custody != after.custody:
        yield destroy(f"changes custody ({before.custody} → {after.custody})")
    if set(after.failover) - set(before.failover):
        yield destroy("adds failover nodes, which may then open its secrets")
    old_volumes, new_volumes = volumes(before), volumes(after)
    for key, old in old_volumes.items():
        yield from volume_demands(f"volume {key[1]} of component {key[0]}", old, new_volumes.get(key))
    yield from checkpoint_demands(old_volumes, new_volumes)
    yield from owner_demands(old_volumes, new_volumes)
    yield from host_paths(after, name, known={v for v in old_volumes.values() if isinstance(v, str)})
    yield from snapshot_demands(before, after)


def volume_demands(label: str, old: Volume | str, new: Volume | str | None) -> Iterator[Demand]:
    if new is None:
        yield destroy(f"detaches {label}; its data stays on the node")
    elif isinstance(old, Volume) and isinstance(new, Volume):
        if old.path != new.path:
            yield destroy(f"moves {label} to another path ({old.path} → {new.path})")
        if old.protect != new.protect and new.protect != "backup":
            yield destroy(f"weakens the protection of {label} ({old.protect} → {new.protect})")


def checkpoint_demands(before: Volumes, after: Volumes) -> Iterator[Demand]:
    """By directory, not by component: two components may have the same one."""
    kept = {one.name for one in before.values() if isinstance(one, Volume) and one.checkpoint == "auto"}
    off = {one.name for one in after.values() if isinstance(one, Volume) and one.checkpoint == "off"}
    for name in sorted(off & kept):
        yield destroy(f"makes no checkpoints of volume {name} any more (checkpoint auto → off)")


def owner_demands(before: Volumes, after: Volumes) -> Iterator[Demand]:
    """By directory. Without an owner the data is left as it is, so removing the key demands nothing."""
    had = {one.name: one.owner for one in before.values() if isinstance(one, Volume)}
    for volume in after.values():
        if not isinstance(volume, Volume) or volume.owner is UNSET or volume.name not in had:
            continue
        old = had[volume.name]
        if old != volume.owner:
            was = "not declared" if old is UNSET else old
            yield destroy(f"changes the owner of all data in volume {volume.name} ({was} → {volume.owner})")


def snapshot_demands(before: Service, after: Service) -> Iterator[Demand]:
    old = Snapshot() if before.snapshot is UNSET else before.snapshot
    new = Snapshot() if after.snapshot is UNSET else after.snapshot
    if old.method != new.method and new.method != "full":
        yield destroy(f"changes snapshot.method ({old.method or 'default'} → {new.method or 'default'})")
    if dump.place(before) != dump.place(after) and old.method == new.method:
        yield destroy("makes the dump of another volume (snapshot.component, snapshot.volume)")
    if set(new.exclude) - set(old.exclude) or set(old.include) - set(new.include):
        yield destroy("leaves more files out of snapshots (snapshot.include, snapshot.exclude)")


def host_paths(service: Service, name: str, known: Set[str] = frozenset()) -> Iterator[Demand]:
    """A v1 string volume is a host path: outside its own /srv/<service> it may be another service's data."""
    for _, volume in sorted(volumes(service).items(), key=lambda pair: pair[0]):
        if isinstance(volume, str) and volume not in known and not _own_data(volume.partition(":")[0], name):
            yield destroy(f"mounts a host path outside /srv/{name} ({volume})")


def _own_data(path: str, name: str) -> bool:
    own = f"/srv/{name}"
    return (path == own or path.startswith(own + "/")) and ".." not in path.split("/")
