"""Which pairs of a manifest this node follows: each by the scope of its signers. Pure.

The pairs of its own services follow from their entries, which are judged already. A pair of a service of another node
gives that node credentials, so it is followed only within the [[provides]] in force, and only if those who signed may
place the service there.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set

from msgspec import Struct

from holdfast.agent.acceptance.manifest import Followed
from holdfast.agent.acceptance.route_grades import Need, compared
from holdfast.errors import HoldfastError
from holdfast.model.fleet import Grade
from holdfast.model.manifest import NodeManifest
from holdfast.model.need import Pair, Provides
from holdfast.planning import pairs, providers
from holdfast.planning.bounds import WORKER
from holdfast.planning.kinds.kind import read

Lacking = Callable[[Sequence[str], Grade], str | None]


class Paired(Struct, frozen=True):
    """What is followed, and why the rest is not: `pair.SERVICE.NEED`. `leading`: the nodes of pairs, now or before,
    with the services of these; `providers`: those that this node asks."""

    pairs: tuple[Pair, ...]
    refused: dict[str, str]
    leading: Mapping[str, Set[str]]
    providers: Mapping[str, Set[str]]


def judge(
    standing: Followed, after: NodeManifest, in_force: NodeManifest, contents: Mapping[str, bytes], lacking: Lacking
) -> Paired:
    """`in_force`: what is followed of all resources."""
    refused: dict[str, str] = {}
    manifests = (standing.in_force, standing.wanted, after)
    followed = {key(pair): pair for pair in pairs.of_entries(in_force.services)}
    followed |= compared("pair", _given, manifests, lambda _, before, now: _asked(before, now), lacking, refused)
    for name, pair in tuple(followed.items()):
        if pair.provider == after.node and (why := _outside(pair, in_force, contents)):
            refused.setdefault(f"pair.{name}", why)
            del followed[name]
    found = tuple(sorted(followed.values(), key=lambda pair: (pair.service, pair.need)))
    before = standing.in_force.pairs if standing.in_force is not None else ()
    return Paired(found, refused, _leading(before, found), _providers(before, found))


def key(pair: Pair) -> str:
    return f"{pair.service}.{pair.need}"


def _given(manifest: NodeManifest) -> dict[str, Pair]:
    """Those of services of other nodes."""
    return {key(pair): pair for pair in manifest.pairs if pair.consumer != manifest.node}


def _asked(before: Pair | None, now: Pair | None) -> Iterator[Need]:
    if before is not None:
        yield (f"service.{before.service}",), "apply"
    if now is not None:
        is_new_there = before is None or before.consumer != now.consumer
        yield (f"service.{now.service}", *((WORKER + now.consumer,) if is_new_there else ())), "apply"


def _outside(pair: Pair, in_force: NodeManifest, contents: Mapping[str, bytes]) -> str | None:
    """Why this node does not provide it, by what is in force."""
    home = f"provides.{pair.provider}.{pair.type}"
    entry = in_force.more.get(home)
    if entry is None:
        return f"{home} is not in force here"
    try:
        provides = read(contents, entry, home, Provides)
    except HoldfastError as trouble:
        return trouble.message
    if pair.service not in provides.services:
        return f"{home} does not list service.{pair.service}"
    return f"it has other facts than {home}" if pair.facts != providers.facts(provides) else None


def _leading(before: Sequence[Pair], followed: Sequence[Pair]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for pair in (*before, *followed):
        for node in (pair.consumer, pair.provider):
            found.setdefault(node, set()).add(pair.service)
    return found


def _providers(before: Sequence[Pair], followed: Sequence[Pair]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for pair in (*before, *followed):
        found.setdefault(pair.provider, set()).add(pair.service)
    return found


def differing(wanted: NodeManifest, in_force: NodeManifest) -> Iterator[str]:
    """The pairs of its own services differ where their entries do."""
    one, other = _given(wanted), _given(in_force)
    yield from (f"pair.{name}" for name in sorted(one.keys() | other.keys()) if one.get(name) != other.get(name))
