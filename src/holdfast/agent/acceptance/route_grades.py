"""Which changed routes, names and authorities of a manifest this node follows: each by the scope of its signers. Pure.

A hub re-checks this before it commits; here it is asked again, because a hub is believed nothing. Otherwise an operator
who may sign for one service could, with the hub's help, point another service's name to their own.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from msgspec import Struct

from holdfast.model.fleet import Grade
from holdfast.model.manifest import Named, NodeManifest
from holdfast.model.route import EdgeRoute

T = TypeVar("T")

Need = tuple[str, Grade]  # an address, and the grade to sign for it
Needs = Callable[[str, T], Iterator[Need]]
Lacking = Callable[[str, Grade], str | None]  # why signers do not suffice, or None


class Reach(Struct, frozen=True):
    """What is followed, and why the rest is not, by what it is about: `edge.NAME`, `name.SERVICE`, `issuer.NODE`."""

    edge: dict[str, EdgeRoute]
    issuers: dict[str, bytes]
    names: dict[str, Named]
    refused: dict[str, str]


def judge(old: NodeManifest | None, said: NodeManifest | None, after: NodeManifest, lacking: Lacking) -> Reach:
    """`old` is followed, `said` is the newest manifest read before, `after` is the new one."""
    refused: dict[str, str] = {}

    def kept(kind: str, of: Callable[[NodeManifest], Mapping[str, T]], needs: Needs[T]) -> dict[str, T]:
        have, had, want = (dict(of(one)) if one is not None else {} for one in (old, said, after))
        found: dict[str, T] = {}
        for key in sorted(have.keys() | want.keys()):
            before, now = have.get(key), want.get(key)
            if before != now:
                why = _why(key, before, now, needs, lacking)
                if said is not None and had.get(key) == now:
                    why = why or "the revision that changed it was not signed well enough"  # and this one does not
                if why is not None:
                    refused[f"{kind}.{key}"] = why
                    now = before
            if now is not None:
                found[key] = now
        return found

    edge = kept("edge", lambda manifest: manifest.edge, _served_by)
    names = kept("name", lambda manifest: manifest.names, lambda service, _: iter(((f"service.{service}", "apply"),)))
    issuers = kept("issuer", lambda manifest: manifest.issuers, lambda node, _: _led_to(node, old, after))
    names = _unshared(names, dict(old.names) if old is not None else {}, refused)
    return Reach(edge, issuers, names, refused)


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
    needed = sorted({need for value in (before, now) if value is not None for need in needs(key, value)})
    return next((why for address, grade in needed if (why := lacking(address, grade)) is not None), None)


def _served_by(hostname: str, route: EdgeRoute) -> Iterator[Need]:
    yield f"service.{route.service}", "apply"


def _led_to(node: str, old: NodeManifest | None, after: NodeManifest) -> Iterator[Need]:
    """The signer of a node's first route also brings its authority. A known authority is as sensitive as the node's
    key: an attacker who replaced it could impersonate the node."""
    if old is not None and node in old.issuers and node in after.issuers:
        yield f"node.{node}", "destroy"
        return
    for manifest in (old, after):
        for route in manifest.edge.values() if manifest is not None else ():
            if route.node == node or any(place.node == node for place in route.others):
                yield f"service.{route.service}", "apply"


def differing(wanted: NodeManifest, in_force: NodeManifest) -> Iterator[str]:
    for kind, one, other in (
        ("edge", wanted.edge, in_force.edge),
        ("issuer", wanted.issuers, in_force.issuers),
        ("name", wanted.names, in_force.names),
    ):
        found: Mapping[str, object] = one
        have: Mapping[str, object] = other
        yield from (f"{kind}.{key}" for key in sorted(found.keys() | have.keys()) if found.get(key) != have.get(key))
