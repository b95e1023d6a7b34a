"""What signatures of grade destroy approved for addresses in force, beyond what grade apply may. Pure."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.agent.acceptance.demanded import Signers
from holdfast.agent.acceptance.manifest import Followed, entries
from holdfast.errors import Corrupt
from holdfast.model.applied import content
from holdfast.model.fleet import Node, Service, Volume
from holdfast.model.ids import kind_of
from holdfast.model.proven_address import OWNER, ends_orphans, owns
from holdfast.model.revision import Entry
from holdfast.trust.approval import missing

_service = msgspec.json.Decoder(Service).decode
_node = msgspec.json.Decoder(Node).decode


def asked(address: str, entry: Entry, contents: Mapping[str, bytes]) -> frozenset[str]:
    """What the gate must find approved, in the words of model/proven_address.py."""
    if kind_of(address) == "service":
        service = _service(content(contents, entry.digest, address))
        mounts = [one for component in service.components for one in component.volumes]
        owned = (one for one in mounts if isinstance(one, Volume) and one.owner is not UNSET)
        paths = (one.partition(":")[0] for one in mounts if isinstance(one, str))
        return frozenset((*paths, *(owns(one.name, str(one.owner)) for one in owned)))
    if kind_of(address) == "node":
        node = _node(content(contents, entry.digest, address))
        fates = {"report": (), "stop": ("stop",), "remove": ("stop", "remove")}[node.orphans]
        kinds = (False, True) if node.orphans_foreign else (False,)
        return frozenset(ends_orphans(fate, foreign) for fate in fates for foreign in kinds)
    return frozenset()


def _owners_before(address: str, old: Mapping[str, Entry], contents: Mapping[str, bytes]) -> frozenset[str]:
    """Who changes the owner of data also approves the way back to the one before. What cannot be read approves
    nothing."""
    try:
        found = asked(address, old[address], contents) if address in old else frozenset()
    except (Corrupt, msgspec.DecodeError):
        found = frozenset()
    return frozenset(one for one in found if one.startswith(OWNER))


def noted(before: Followed, now: Followed, witnesses: Sequence[Signers], contents: Mapping[str, bytes]) -> Followed:
    """Each of the `witnesses` may have changed an address, so each must reach grade destroy. Where no approvals were
    noted before, all that was in force is approved. An approval stays until its address leaves: a deployment that
    fails goes back to what served before."""
    found: dict[str, tuple[str, ...]] = {}
    approved, old = before.approved, entries(before.in_force)
    for address, entry in entries(now.in_force).items():
        if approved is not None:
            had = frozenset(approved.get(address, ()))
        else:
            had = asked(address, old[address], contents) if address in old else frozenset()
        is_changed = old.get(address) != entry
        if is_changed and all(missing(trust, keys, "destroy", (address,)) is None for keys, trust in witnesses):
            had |= asked(address, entry, contents) | _owners_before(address, old, contents)
        if had:
            found[address] = tuple(sorted(had))
    return replace(now, approved=found)
