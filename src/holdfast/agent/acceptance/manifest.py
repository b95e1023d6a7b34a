"""Read the manifest that was signed for this node. Pure."""

from collections.abc import Mapping

from msgspec import UNSET, Struct

from holdfast.errors import Corrupt
from holdfast.model import canonical
from holdfast.model.ids import FLEET, KINDS, TRUST, is_name, is_name_of, kind_of
from holdfast.model.manifest import NodeManifest
from holdfast.model.report import Parked
from holdfast.model.revision import Entry, Tombstone
from holdfast.planning import pairs

OWN_FIELD = frozenset({FLEET, TRUST, "node", "service", "policy", "storage"})  # kinds with a place of their own
_MORE = frozenset(KINDS) - OWN_FIELD  # kinds that stand in `more`
_BURIED = frozenset(KINDS) - {FLEET, TRUST}  # kinds of which something can be removed


class Followed(Struct, frozen=True):
    """What a node follows between two revisions. `in_force` is followed; `wanted` came last and differs from it at
    every parked address; `stones` are services that this node followed and that a signed revision removed; `approved`
    is what signatures of grade destroy approved (agent/acceptance/approvals.py), None where that was not noted."""

    in_force: NodeManifest | None = None
    wanted: NodeManifest | None = None
    parked: Mapping[str, Parked] = {}
    stones: Mapping[str, Tombstone] = {}
    approved: Mapping[str, tuple[str, ...]] | None = None


def decode_manifest(content: bytes) -> NodeManifest:
    return canonical.decode(content, NodeManifest, "the manifest of this node")


def read_manifest(content: bytes, fleet: str, node: str) -> NodeManifest:
    """Refuses one that is about another node, or in which one kind of resource could hide behind another."""
    manifest = decode_manifest(content)
    if (manifest.fleet, manifest.node) != (fleet, node):
        raise _misshapen(f"it is the manifest of {manifest.node[:40]!r} in the fleet {manifest.fleet[:12]!r}")
    places = (("policy", manifest.policies), ("storage", manifest.storage))
    for kind, held in (("service", manifest.services), ("service", manifest.standby), *places):
        for address in held:
            if not _is(address, kind):
                raise _misshapen(f"{address[:60]!r} is in the list of {kind} resources")
    for address in manifest.more:
        if kind_of(address) not in _MORE or not _is(address, kind_of(address)):
            raise _misshapen(f"{address[:60]!r} is of a kind that this release does not know there")
        if kind_of(address) == "alert" and f"node.{node}" not in (manifest.more[address].applies_to or ()):
            raise _misshapen(f"{address} is not for this node to send")
        if kind_of(address) == "provides" and manifest.more[address].node != node:
            raise _misshapen(f"{address} is not for this node to provide")
    for address, entry in manifest.storage.items():
        if entry.applies_to and f"node.{node}" not in entry.applies_to:
            raise _misshapen(f"{address} is not for this node to use")
    for address in manifest.retired:
        if not _is(address, kind_of(address)) or kind_of(address) not in _BURIED:
            raise _misshapen(f"{address[:60]!r} is in the list of removed resources")
    for address, placed in manifest.services.items():
        if placed.node != node:
            raise _misshapen(f"{address} is placed on another node")
    for address, placed in manifest.handover.items():
        if not _is(address, "service") or placed.node == node or placed.move is UNSET or placed.move.source != node:
            raise _misshapen(f"{address[:60]!r} is in the list of services that this node hands over")
    for address, placed in manifest.standby.items():
        if placed.node == node or node not in placed.failover:
            raise _misshapen(f"{address} does not fail over to this node")
    _check_pairs(manifest)
    return manifest


def _check_pairs(manifest: NodeManifest) -> None:
    """Those of its own services are what their needs mean; those of other services ask this node. Names of both become
    names of files."""
    own = tuple(pair for pair in manifest.pairs if pair.consumer == manifest.node)
    if own != pairs.of_entries(manifest.services):
        raise _misshapen("its pairs are not those that the needs of its services mean")
    keys = [(pair.service, pair.need) for pair in manifest.pairs]
    if keys != sorted(set(keys)):
        raise _misshapen("its pairs are not sorted, or one is there twice")
    for pair in manifest.pairs:
        if manifest.node not in (pair.consumer, pair.provider):
            raise _misshapen("it has a pair of two other nodes")
        if not all(map(is_name, (pair.service, pair.need, pair.type, pair.consumer, pair.provider))):
            raise _misshapen("it has a pair with a name that is none")


def _is(address: str, kind: str) -> bool:
    return address.startswith(f"{kind}.") and is_name_of(kind, address[len(kind) + 1 :])


def _misshapen(why: str) -> Corrupt:
    return Corrupt(
        f"the manifest signed for this node is not one that Holdfast makes: {why}",
        remedy="do not trust this hub: compare `holdfast history` with a colleague's, then `holdfast rollback`",
        code="manifest_misshapen",
    )


def needed(manifest: NodeManifest) -> list[str]:
    """Digests of every content the node needs to follow this manifest."""
    return sorted({digest for entry in entries(manifest).values() for digest in entry.needs})


def entries(manifest: NodeManifest | None) -> dict[str, Entry]:
    """By address, as the resource table has them."""
    if manifest is None:
        return {}
    own = {FLEET: Entry(manifest.settings), f"node.{manifest.node}": manifest.own}
    return {**manifest.held, **own}
