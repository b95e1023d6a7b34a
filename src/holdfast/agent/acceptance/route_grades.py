"""Which changed routes, names, authorities and peers of a manifest this node follows: each by the scope of its signers.
Pure.

A hub re-checks this before it commits; here it is asked again, because a hub is believed nothing. Otherwise an operator
who may sign for one service could, with the hub's help, point another service's name or its moving data to their own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TypeVar

from msgspec import UNSET, Struct

from holdfast.model.fleet import Grade, Settings
from holdfast.model.manifest import Named, NodeManifest
from holdfast.model.move import Peer
from holdfast.model.route import EdgeRoute
from holdfast.planning.bounds import NAME, is_own

T = TypeVar("T")

Need = tuple[tuple[str, ...], Grade]  # what a scope must cover, and the grade to sign for it
Needs = Callable[[str, T | None, T | None], Iterator[Need]]  # of a key, its value before and now
Lacking = Callable[[Sequence[str], Grade], str | None]  # why signers do not suffice, or None


class Reach(Struct, frozen=True):
    """What is followed, and why the rest is not, by what it is about: `edge.NAME`, `name.SERVICE`, `issuer.NODE`,
    `peer.NODE`."""

    edge: dict[str, EdgeRoute]
    issuers: dict[str, bytes]
    names: dict[str, Named]
    peers: dict[str, Peer]
    refused: dict[str, str]


def judge(
    old: NodeManifest | None,
    said: NodeManifest | None,
    after: NodeManifest,
    lacking: Lacking,
    settings: Settings | None = None,
    providers: Mapping[str, Set[str]] = {},
    leading: Mapping[str, Set[str]] = {},
) -> Reach:
    """`old` is followed, `said` is the newest manifest read before, `after` is the new one. `settings`: those followed,
    by which a name is a service's own; None: the rules for this revision do not bound names. `providers`: nodes that
    this one asks, with the services that need them; `leading`: all nodes that it has to do with for needs, likewise."""
    refused: dict[str, str] = {}

    def kept(kind: str, of: Callable[[NodeManifest], Mapping[str, T]], needs: Needs[T]) -> dict[str, T]:
        return compared(kind, of, (old, said, after), needs, lacking, refused)

    def taken(service: str, names: Set[str]) -> tuple[str, ...]:
        claims = (NAME + name for name in sorted(names) if settings and not is_own(name, service, settings))
        return (f"service.{service}", *claims)

    def served_by(hostname: str, before: EdgeRoute | None, now: EdgeRoute | None) -> Iterator[Need]:
        if before is not None:
            yield (f"service.{before.service}",), "apply"
        if now is not None:
            is_new = before is None or before.service != now.service
            yield taken(now.service, {hostname} if is_new else set()), "apply"

    def named(service: str, before: Named | None, now: Named | None) -> Iterator[Need]:
        yield taken(service, set(now.names if now else ()) - set(before.names if before else ())), "apply"

    edge = kept("edge", lambda manifest: manifest.edge, served_by)
    names = kept("name", lambda manifest: manifest.names, named)
    issuers = kept(
        "issuer",
        lambda manifest: manifest.issuers,
        lambda node, before, now: _led_to(node, before, now, old, edge, providers.get(node, frozenset())),
    )
    moving = _moving(old)
    peers = kept(
        "peer",
        lambda manifest: manifest.peers,
        lambda node, before, now: _met(
            node, before, now, _services(node, moving | _moving(after), leading.get(node, frozenset())), lacking
        ),
    )
    for node, _, _ in _moving(after) - moving:
        if f"peer.{node}" in refused:  # neither the key before nor this one was signed for this move
            peers.pop(node, None)
    names = _unshared(names, dict(old.names) if old is not None else {}, refused)
    return Reach(edge, issuers, names, peers, refused)


def compared(
    kind: str,
    of: Callable[[NodeManifest], Mapping[str, T]],
    manifests: tuple[NodeManifest | None, NodeManifest | None, NodeManifest],
    needs: Needs[T],
    lacking: Lacking,
    refused: dict[str, str],
) -> dict[str, T]:
    """What is followed of one part of the manifest. `manifests`: followed, read last, and new."""
    have, had, want = (dict(of(one)) if one is not None else {} for one in manifests)
    found: dict[str, T] = {}
    for key in sorted(have.keys() | want.keys()):
        before, now = have.get(key), want.get(key)
        if before != now:
            why = _why(key, before, now, needs, lacking)
            if manifests[1] is not None and had.get(key) == now:
                why = why or "the revision that changed it was not signed well enough"  # and this one does not
            if why is not None:
                refused[f"{kind}.{key}"] = why
                now = before
        if now is not None:
            found[key] = now
    return found


def _unshared(names: dict[str, Named], before: Mapping[str, Named], refused: dict[str, str]) -> dict[str, Named]:
    """A name that is listed for two services belongs to the one that had it before."""
    owner = {name: service for service, named in before.items() for name in named.names if names.get(service) == named}
    found: dict[str, Named] = {}
    for service, named in names.items():
        taken = [name for name in named.names if owner.setdefault(name, service) != service]
        if not taken:
            found[service] = named
            continue
        refused[f"name.{service}"] = f"{taken[0]} is a name of service.{owner[taken[0]]}"
        if service in before:
            found[service] = before[service]
    return found


def _why(key: str, before: T | None, now: T | None, needs: Needs[T], lacking: Lacking) -> str | None:
    needed = sorted(set(needs(key, before, now)))
    return next((why for covers, grade in needed if (why := lacking(covers, grade)) is not None), None)


def _led_to(
    node: str,
    before: bytes | None,
    now: bytes | None,
    old: NodeManifest | None,
    edge: Mapping[str, EdgeRoute],
    needing: Set[str],
) -> Iterator[Need]:
    """The signer of a node's first route, or of the first need that it meets, also brings its authority. A known
    authority is as sensitive as the node's key: an attacker who replaced it could impersonate the node. `edge` are the
    routes that are followed: a refused one brings none."""
    if before is not None and now is not None:
        yield (f"node.{node}",), "destroy"
        return
    is_led_to = bool(needing)
    yield from (((f"service.{service}",), "apply") for service in sorted(needing))
    for route in (*(old.edge.values() if old is not None else ()), *edge.values()):
        if route.node == node or any(place.node == node for place in route.others):
            is_led_to = True
            yield (f"service.{route.service}",), "apply"
    if now is not None and not is_led_to:
        yield (f"node.{node}",), "destroy"


def _moving(manifest: NodeManifest | None) -> set[tuple[str, str, int]]:
    """Node, service and epoch of each move that this node takes part in."""
    if manifest is None:
        return set()
    out = {(str(one.node), address, one.epoch) for address, one in manifest.handover.items()}
    moved = ((address, one, one.move) for address, one in manifest.services.items() if one.move is not UNSET)
    return out | {(move.source, address, one.epoch) for address, one, move in moved if move.hands_over}


def _services(node: str, moving: Set[tuple[str, str, int]], needing: Set[str]) -> list[str]:
    """Addresses of the services whose moves or needs lead to this node."""
    return [*(address for other, address, _ in moving if other == node), *(f"service.{one}" for one in sorted(needing))]


def _met(node: str, before: Peer | None, now: Peer | None, services: Sequence[str], lacking: Lacking) -> Iterator[Need]:
    """The signers of all moves and needs that lead to a node also bring its key. A known key is changed by the grade
    that changes it: data that moves and answers to needs are sealed to it."""
    if lacking((f"node.{node}",), "destroy") is None:
        return
    if before is not None and now is not None and before.key == now.key:
        yield (f"node.{node}",), "apply"
    elif (before is not None and now is not None) or not services:
        yield (f"node.{node}",), "destroy"
    else:
        yield from (((address,), "apply") for address in services)


def differing(wanted: NodeManifest, in_force: NodeManifest) -> Iterator[str]:
    for kind, one, other in (
        ("edge", wanted.edge, in_force.edge),
        ("issuer", wanted.issuers, in_force.issuers),
        ("name", wanted.names, in_force.names),
        ("peer", wanted.peers, in_force.peers),
    ):
        found: Mapping[str, object] = one
        have: Mapping[str, object] = other
        yield from (f"{kind}.{key}" for key in sorted(found.keys() | have.keys()) if found.get(key) != have.get(key))
