"""What a changed address of a manifest asks of its signers: grade, reason, what their scope must cover. Pure."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from holdfast.agent.acceptance.manifest import Followed, entries
from holdfast.model.applied import content
from holdfast.model.fleet import Grade, Service, Settings
from holdfast.model.ids import FLEET, kind_of
from holdfast.model.manifest import NodeManifest
from holdfast.model.plan import Change
from holdfast.model.report import Parked
from holdfast.model.revision import Entry, Table
from holdfast.model.trust import Trust
from holdfast.planning.bounds import NAME, NODE, WORKER
from holdfast.planning.kinds.kind import settings_of
from holdfast.trust.approval import missing

Signers = tuple[Sequence[str], Trust]  # keys that really signed a revision, and the trust that judges them

_held_service = msgspec.json.Decoder(Service).decode


def lacking(covers: Sequence[str], grade: Grade, witnesses: Sequence[Signers]) -> str | None:
    found = (missing(trust, keys, grade, covers) for keys, trust in witnesses)
    return next((why for why in found if why is not None), None)


def asked(change: Change, node: str, old: Mapping[str, Entry], contents: Mapping[str, bytes]) -> tuple[Grade, str]:
    """Protection is read from the service's own document, because its entry can be rewritten without a grade. A standby
    of a protected service may be removed: the service stays on its own node."""
    reasons = [demand.reason for demand in change.demands]
    grade = change.grade
    at_home = change.node in ("", node)
    if change.removes and at_home and _protected(change.address, old[change.address], contents):
        grade = "destroy" if grade == "apply" else grade
        reasons.append("removes a protected resource")
    return grade, "; ".join(reasons) or change.kind


def _protected(address: str, entry: Entry, contents: Mapping[str, bytes]) -> bool:
    if kind_of(address) != "service":
        return entry.protect
    return entry.protect or _held_service(content(contents, entry.digest, address)).protect


def covers(
    change: Change, old: Mapping[str, Entry], after: NodeManifest, in_force: NodeManifest | None
) -> tuple[str, ...]:
    """A service that is new here may come from another node with names and places that it had: of these, edges and name
    servers judge the names, and each node itself as a place."""
    if change.address in old or not change.claims:
        return change.covers
    entry, service = entries(after)[change.address], change.address.partition(".")[2]
    named = in_force.names.get(service) if in_force is not None else None
    had = {NAME + name for name in (*entry.public, *(named.names if named else ()))}
    here = (NODE + after.node, WORKER + after.node)
    taken = (one for one in change.claims if one in here or (one.startswith(NAME) and one not in had))
    return (change.address, *taken)


def naming(before: Table, after: Table, contents: Mapping[str, bytes]) -> Settings:
    """The settings by which a name is a service's own: those followed, else the first ones."""
    return settings_of(before if FLEET in before.entries else after, contents).settings


def handed_over(
    standing: Followed,
    after: NodeManifest,
    parked: Mapping[str, Parked],
    lacking: Callable[[Sequence[str]], str | None],
) -> dict[str, Entry]:
    """Data goes to another node only if those who signed may place the service there. What this revision does not
    touch stays as it was judged."""
    before, said = (one.handover if one is not None else {} for one in (standing.in_force, standing.wanted))
    found: dict[str, Entry] = {}
    for address, entry in after.handover.items():
        if said.get(address) == entry:
            found |= {address: entry} if before.get(address) == entry else {}
        elif address not in parked and lacking((address, WORKER + str(entry.node))) is None:
            found[address] = entry
    return found
