"""Which deltas of a revision this node follows: each changed address by the grade and scope its signers have. Pure.

The same rules as in CLI and hub (planning/), asked again here, because a hub is believed nothing.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from holdfast.model import canonical
from holdfast.model.ids import FLEET
from holdfast.model.manifest import NodeManifest
from holdfast.model.report import Parked
from holdfast.model.revision import Entry, Table
from holdfast.model.trust import Trust
from holdfast.planning.diff import changes
from holdfast.planning.placement import Placed
from holdfast.trust.approval import missing

REMEDY = (
    "if it is wanted, an operator of grade {grade} signs it: holdfast apply --key KEY; if not: holdfast rollback, "
    "and find out who committed it"
)
_PLACED: Mapping[str, Placed] = {}


class Judged(Struct, frozen=True):
    """`in_force` is what the node follows: the new manifest, with the old entry wherever something was parked."""

    in_force: NodeManifest
    parked: tuple[Parked, ...]


def decode_manifest(content: bytes) -> NodeManifest:
    return canonical.decode(content, NodeManifest, "the manifest of this node")


def needed(manifest: NodeManifest) -> list[str]:
    """Digests of every content the node needs to follow this manifest."""
    return sorted({entry.digest for entry in entries(manifest).values()})


def entries(manifest: NodeManifest | None) -> dict[str, Entry]:
    """By address, as the resource table has them."""
    if manifest is None:
        return {}
    own = {FLEET: Entry(manifest.settings), f"node.{manifest.node}": manifest.own}
    return {**own, **manifest.policies, **manifest.services, **manifest.storage}


def judge(
    before: NodeManifest | None,
    after: NodeManifest,
    keys: Sequence[str],
    trust: Trust,
    contents: Mapping[str, bytes],
    now_s: float,
) -> Judged:
    """`before` is what the node follows now, not what a hub says it does; `keys` really signed the revision."""
    found = changes(_table(before, contents), _table(after, {}), contents, contents, _PLACED, detailed=False)
    own = f"node.{after.node}"
    parked: dict[str, Parked] = {}
    for change in found:
        if before is None and change.address == own:
            continue  # that the node exists is what its invite says, with a signature of its own
        lacking = missing(trust, keys, change.grade, (change.address,))
        if lacking is not None:
            why = "; ".join(demand.reason for demand in change.demands) or change.kind
            parked[change.address] = Parked(
                change.address, f"{why}: {lacking}", REMEDY.format(grade=change.grade), now_s
            )
    if not parked:
        return Judged(after, ())
    return Judged(_mixed(before, after, parked), tuple(parked.values()))


def _table(manifest: NodeManifest | None, contents: Mapping[str, bytes]) -> Table:
    """A removed address counts as buried here only while this node still holds what it was."""
    stones = manifest.retired if manifest else {}
    return Table(entries(manifest), {a: stone for a, stone in stones.items() if stone.digest in contents})


def _mixed(before: NodeManifest | None, after: NodeManifest, parked: Mapping[str, Parked]) -> NodeManifest:
    old = entries(before)

    def kept(now: Mapping[str, Entry], kind: str) -> dict[str, Entry]:
        held = {a: old[a] for a in parked if a in old and a.startswith(kind)}
        return dict(sorted({**{a: e for a, e in now.items() if a not in parked}, **held}.items()))

    own = f"node.{after.node}"
    return msgspec.structs.replace(
        after,
        settings=old[FLEET].digest if FLEET in parked and FLEET in old else after.settings,
        own=old[own] if own in parked and own in old else after.own,
        services=kept(after.services, "service."),
        policies=kept(after.policies, "policy."),
        storage=kept(after.storage, "storage."),
        retired={a: stone for a, stone in after.retired.items() if a not in parked},
    )


def differing(wanted: NodeManifest, in_force: NodeManifest) -> list[str]:
    one, other = entries(wanted), entries(in_force)
    return sorted(address for address in one.keys() | other.keys() if one.get(address) != other.get(address))
