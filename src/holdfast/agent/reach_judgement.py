"""Which changed routes, names and authorities of a manifest this node follows: each by the scope of its signers. Pure.

A hub re-checks this before it commits; here it is asked again, because a hub is believed nothing. Otherwise an operator
who may sign for one service could, with the hub's help, lead another service's name to himself.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from msgspec import Struct

from holdfast.model.manifest import NodeManifest
from holdfast.model.route import EdgeRoute

T = TypeVar("T")

Lacking = Callable[[str], str | None]  # why signers do not suffice for an address, or None
Owners = Callable[[str, T], Iterator[str]]  # addresses that a key and its value belong to


class Reach(Struct, frozen=True):
    """What is followed, and why the rest is not, by what it is about: `edge.NAME`, `name.NAME`, `issuer.NODE`."""

    edge: dict[str, EdgeRoute]
    issuers: dict[str, bytes]
    names: dict[str, str]
    refused: dict[str, str]


def judge(
    old: NodeManifest | None, said: NodeManifest | None, after: NodeManifest, zone: str, lacking: Lacking
) -> Reach:
    """`old` is followed, `said` was said last, `after` is said now."""
    refused: dict[str, str] = {}

    def kept(kind: str, of: Callable[[NodeManifest], Mapping[str, T]], owners: Owners[T]) -> dict[str, T]:
        have, had, want = (dict(of(one)) if one is not None else {} for one in (old, said, after))
        found: dict[str, T] = {}
        for key in sorted(have.keys() | want.keys()):
            before, now = have.get(key), want.get(key)
            if before != now:
                why = _why(key, before, now, owners, lacking)
                if said is not None and had.get(key) == now:
                    why = why or "the revision that changed it was not signed well enough"  # and this one does not
                if why is not None:
                    refused[f"{kind}.{key}"] = why
                    now = before
            if now is not None:
                found[key] = now
        return found

    edge = kept("edge", lambda manifest: manifest.edge, _served_by)
    names = kept("name", lambda manifest: manifest.names, lambda name, _: iter((f"service.{_service(name, zone)}",)))
    issuers = kept("issuer", lambda manifest: manifest.issuers, lambda node, _: _led_to(node, old, after))
    return Reach(edge, issuers, names, refused)


def _why(key: str, before: T | None, now: T | None, owners: Owners[T], lacking: Lacking) -> str | None:
    concerned = sorted({owner for value in (before, now) if value is not None for owner in owners(key, value)})
    return next((why for owner in concerned if (why := lacking(owner)) is not None), None)


def _served_by(hostname: str, route: EdgeRoute) -> Iterator[str]:
    yield f"service.{route.service}"


def _service(name: str, zone: str) -> str:
    """The label before the zone: `app.shop.svc.example` is the shop's. A further name of a service that is called
    otherwise is nobody's, and only who may sign for everything may change it."""
    return name.removesuffix(f".{zone}").rpartition(".")[2]


def _led_to(node: str, old: NodeManifest | None, after: NodeManifest) -> Iterator[str]:
    """Whoever brings the first route to a node brings its authority along; one that is known already is the node's."""
    if old is not None and node in old.issuers and node in after.issuers:
        yield f"node.{node}"
        return
    for manifest in (old, after):
        for route in manifest.edge.values() if manifest is not None else ():
            if route.node == node or any(place.node == node for place in route.others):
                yield f"service.{route.service}"


def differing(wanted: NodeManifest, in_force: NodeManifest) -> Iterator[str]:
    for kind, one, other in (
        ("edge", wanted.edge, in_force.edge),
        ("issuer", wanted.issuers, in_force.issuers),
        ("name", wanted.names, in_force.names),
    ):
        found: Mapping[str, object] = one
        have: Mapping[str, object] = other
        yield from (f"{kind}.{key}" for key in sorted(found.keys() | have.keys()) if found.get(key) != have.get(key))
