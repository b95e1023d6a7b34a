"""Which grade must sign which change: design.md §2 as a table of rules. Pure; the CLI and the hub ask the same rules.

A rule compares what is applied with what would be applied and answers with demands, each a grade and a reason. Nothing
here is configurable.
"""

from collections.abc import Callable, Iterator, Set
from typing import TypeVar

import msgspec
from msgspec import UNSET

from holdfast.model import duration
from holdfast.model.fleet import AlertTarget, FleetDocument, Node, Service, Settings, Snapshot, Storage, Volume
from holdfast.model.ids import kind_of
from holdfast.model.plan import Demand
from holdfast.model.revision import Entry
from holdfast.model.sealed import Sealed
from holdfast.planning import identity

T = TypeVar("T")


def destroy(reason: str, gives_up_data: bool = False) -> Demand:
    return Demand("destroy", reason, gives_up_data)


def fleet_demands(before: FleetDocument, after: FleetDocument) -> Iterator[Demand]:
    yield from settings_demands(before.settings, after.settings)
    if after.overlay.encrypted and not before.overlay.encrypted:  # only then containers may be reached without TLS
        yield destroy("says that the overlay network encrypts, so that nodes may do without a proxy")
    if more := sorted(set(after.dns.upstream) - set(before.dns.upstream)):  # whoever answers may pose as anybody
        yield destroy(f"asks other servers for names outside the fleet ({', '.join(more)})")
    if after.settings.removals_max > before.settings.removals_max:
        yield destroy("raises removals_max")
    if after.backups.retain < before.backups.retain:
        yield destroy("keeps fewer backups")
    for key in ("interval", "drill_interval"):
        old, new = getattr(before.backups, key), getattr(after.backups, key)
        if duration.milliseconds(new) > duration.milliseconds(old):
            yield destroy(f"makes backups.{key} longer ({old} → {new})")


def settings_demands(before: Settings, after: Settings) -> Iterator[Demand]:
    """The reasons are in docs/adr/0015. Not here, so grade apply: name, nodes_max, parallel, and what only narrows."""
    if after.hub_key != before.hub_key:  # whoever has that key is the hub for every agent and operator
        yield destroy("pins another key of the hub" if before.hub_key else "pins the key of the hub")
    elif after.hub != before.hub and not after.hub_key:  # with a pinned key a wrong address only fails
        yield destroy("sends everybody to another hub while no hub_key pins it")
    if after.internal_zone != before.internal_zone:  # every node may hold certificates for names in it
        yield destroy("changes the zone that nodes may hold certificates for")
    if more := sorted(set(after.public_domains) - set(before.public_domains)):
        yield destroy(f"adds domains that edges may hold certificates for ({', '.join(more)})")
    if after.overlay_cidr != before.overlay_cidr and not _within(after.overlay_cidr, before.overlay_cidr):
        yield destroy(f"lets nodes have addresses outside {before.overlay_cidr} ({after.overlay_cidr})")


def _within(inner: str, outer: str) -> bool:
    from ipaddress import ip_network  # 5 ms that a plan without such a change need not pay

    try:
        one, other = ip_network(inner), ip_network(outer)
    except ValueError:
        return False
    return one.version == other.version and one.subnet_of(other)  # type: ignore[arg-type]  # same version, checked


# From the least to the most: a relayed call goes through the hub's mailbox, a declared one straight to a peer.
_PEER_CALLS = ("off", "relay", "declared")


def node_demands(before: Node, after: Node) -> Iterator[Demand]:
    """Not here, so grade apply: address, public_address (peers prove their key), reconcile, labels (docs/adr/0015)."""
    if after.key != before.key:
        yield destroy("changes the node's key")
    if set(after.roles) - set(before.roles):  # a role decides which names a node may hold certificates for
        yield destroy(f"gives the node more roles ({', '.join(sorted(set(after.roles) - set(before.roles)))})")
    if after.orphans == "remove" != before.orphans:
        yield destroy('lets the agent remove orphans (orphans = "remove")')
    if after.orphans_foreign and not before.orphans_foreign:
        yield destroy("lets the agent touch containers it did not make (orphans_foreign)")
    if after.direct == "on" != before.direct:
        yield destroy('opens the node for direct control (direct = "on")')
    if after.link == "dial" != before.link:  # the node gets a listener, and the hub an arm to reach it with
        yield destroy('lets the hub call the node (link = "dial")')
    if after.proxy == "public" != before.proxy and "edge" not in before.roles:  # what an edge is for anyway
        yield destroy('opens the node\'s proxy to the internet (proxy = "public")')
    if _PEER_CALLS.index(after.peer_calls) > _PEER_CALLS.index(before.peer_calls):
        yield destroy(f"lets the agent call peers more freely (peer_calls = {after.peer_calls})")


def move_demands(before: Entry, after: Entry) -> Iterator[Demand]:
    """The node it leaves sees something protected go, and asks for this grade whatever the reason."""
    if before.protect and before.node != after.node:
        yield destroy(f"moves a protected service away from {before.node}")


def identity_demands(before: Entry, after: Entry) -> Iterator[Demand]:
    """A key is who the node is: whoever swaps it gets its services, its secrets and its names."""
    if identity.widens(before, after):
        yield destroy(identity.why(before, after))


def secret_demands(name: str, before: Sealed, after: Sealed, home: Set[str], unknown_max: int = 0) -> Iterator[Demand]:
    """A secret may follow its service to another node; whoever else can open it from now on is widening.

    Tags name the keys of nodes. Operators are anonymous in what is sealed: more of them are only seen by their number.
    """
    more = len(after.tags - before.tags - home)
    if more > unknown_max or after.anonymous > before.anonymous:
        yield destroy(f"seals the secret {name} to more recipients than before")


def volumes(service: Service) -> dict[tuple[str, str], Volume | str]:
    """By (component, volume): a v1 string volume is known by the string itself."""
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
        yield destroy("adds failover nodes, which may then open its backups and secrets")
    old_volumes, new_volumes = volumes(before), volumes(after)
    for key, old in old_volumes.items():
        yield from volume_demands(f"volume {key[1]} of component {key[0]}", old, new_volumes.get(key))
    yield from host_paths(after, name, known={v for v in old_volumes.values() if isinstance(v, str)})
    yield from snapshot_demands(before, after)


def volume_demands(label: str, old: Volume | str, new: Volume | str | None) -> Iterator[Demand]:
    if new is None:
        yield destroy(f"drops, renames or re-homes {label}", gives_up_data=True)
    elif isinstance(old, Volume) and isinstance(new, Volume):
        if old.path != new.path:
            yield destroy(f"moves {label} to another path ({old.path} → {new.path})")
        if old.protect != new.protect and new.protect != "backup":
            yield destroy(f"weakens the protection of {label} ({old.protect} → {new.protect})")


def snapshot_demands(before: Service, after: Service) -> Iterator[Demand]:
    old = Snapshot() if before.snapshot is UNSET else before.snapshot
    new = Snapshot() if after.snapshot is UNSET else after.snapshot
    if old.method != new.method and new.method != "full":
        yield destroy(f"changes how backups are taken ({old.method or 'default'} → {new.method or 'default'})")
    if set(new.exclude) - set(old.exclude) or set(old.include) - set(new.include):
        yield destroy("leaves more files out of backups")


def host_paths(service: Service, name: str, known: Set[str] = frozenset()) -> Iterator[Demand]:
    """A v1 string volume reaches into the host: anywhere but its own /srv/<service> it may meet another's data."""
    for _, volume in sorted(volumes(service).items(), key=lambda pair: pair[0]):
        if isinstance(volume, str) and volume not in known and not _own_data(volume.partition(":")[0], name):
            yield destroy(f"mounts a host path outside /srv/{name} ({volume})")


def _own_data(path: str, name: str) -> bool:
    own = f"/srv/{name}"
    return (path == own or path.startswith(own + "/")) and ".." not in path.split("/")


def storage_demands(before: Storage, after: Storage) -> Iterator[Demand]:
    if (before.durable_id, before.type) != (after.durable_id, after.type):
        yield destroy("points the storage target somewhere else", gives_up_data=True)
    if before.state == "attached" != after.state:
        yield destroy(f"detaches the storage target ({after.state})", gives_up_data=True)
    if before.role != after.role:
        yield destroy(f"changes the role of the storage target ({before.role} → {after.role})")
    if after.policy.retain < before.policy.retain:
        yield destroy("keeps fewer backups on this target")
    if after.policy.schedule != before.policy.schedule:
        yield destroy("changes when this target is written")


def alert_demands(before: AlertTarget, after: AlertTarget) -> Iterator[Demand]:
    """None: who is told of trouble neither protects nor endangers anything that could be lost."""
    return iter(())


def created(address: str, after: bytes, buried: bytes | None = None) -> Iterator[Demand]:
    """`buried` is what the address held before it was removed: its data may still be there, so it counts as before."""
    kind = kind_of(address)
    if kind == "node":
        yield destroy("adds a node")
        node = _node(after)
        yield from node_demands(Node("x", node.roles, key=node.key), node)
    elif kind == "service" and buried is not None:
        yield from service_demands(_read(buried, Service), _read(after, Service), address[8:])
    elif kind == "service":
        yield from host_paths(_read(after, Service), address[8:])


def removed(address: str) -> Iterator[Demand]:
    if kind_of(address) == "policy":
        yield destroy("removes a policy, which widens what is allowed")
    elif kind_of(address) == "storage":
        yield destroy("detaches a storage target", gives_up_data=True)
    elif kind_of(address) == "node":
        yield destroy("decommissions a node")


def policy_demands(before: Entry, after: Entry) -> Iterator[Demand]:
    if before.digest != after.digest:
        yield destroy("changes a policy, which may widen what is allowed")
    elif set(before.applies_to or ()) - set(after.applies_to or ()):
        yield destroy("narrows where a policy applies")


def _read(content: bytes, kind: type[T]) -> T:
    return msgspec.json.decode(content, type=kind)


def _node(content: bytes) -> Node:
    return _read(content, Node)


_BY_KIND: dict[str, tuple[type, Callable[..., Iterator[Demand]]]] = {
    "alert": (AlertTarget, alert_demands),
    "fleet": (FleetDocument, fleet_demands),
    "node": (Node, node_demands),
    "service": (Service, service_demands),
    "storage": (Storage, storage_demands),
}


def demands(
    address: str,
    before: Entry | None,
    after: Entry | None,
    content_before: Callable[[], bytes],
    content_after: Callable[[], bytes],
    buried: Callable[[], bytes] | None = None,
) -> tuple[Demand, ...]:
    """Everything a changed address asks of its signers beyond grade `apply`. Contents are read only if needed."""
    kind = kind_of(address)
    if kind == "trust":
        # A first trust is not a change of trust: whoever pins the fleet id pins exactly this one.
        return (destroy("founds the fleet") if before is None else Demand("root", "changes who is trusted"),)
    if before is None:
        return tuple(created(address, content_after(), buried() if buried else None))
    if after is None:
        return tuple(removed(address))
    if kind == "policy":
        return tuple(policy_demands(before, after))
    keyed = tuple(identity_demands(before, after)) if kind == "node" else ()
    keyed = tuple(move_demands(before, after)) if kind == "service" else keyed
    if before.digest == after.digest:
        return keyed
    schema, rule = _BY_KIND[kind]
    named = (address[8:],) if kind == "service" else ()
    return (*keyed, *rule(_read(content_before(), schema), _read(content_after(), schema), *named))
