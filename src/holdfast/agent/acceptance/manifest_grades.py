"""Which deltas of a revision this node follows: each changed address by the grade and scope its signers have. Pure.

The same rules as in CLI and hub (planning/), asked again here, because a hub is believed nothing. They compare with
what this node itself followed, never with what a manifest says it did.
"""

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.agent.acceptance import demanded, pair_grades, route_grades
from holdfast.agent.acceptance.demanded import Signers, lacking
from holdfast.agent.acceptance.manifest import OWN_FIELD, Followed, entries
from holdfast.agent.acceptance.soundness import unsound
from holdfast.errors import Corrupt
from holdfast.model.fleet import Grade
from holdfast.model.ids import FLEET, kind_of
from holdfast.model.manifest import NodeManifest
from holdfast.model.report import Parked
from holdfast.model.revision import Entry, Table
from holdfast.model.rules import NEWEST, Rules
from holdfast.planning.diff import changes
from holdfast.planning.table import tombstones

REMEDY = (
    "if it is not wanted: `holdfast rollback`, and find out who committed it; if it is wanted, an operator of grade "
    "{grade} signs a revision that changes {address} itself: `holdfast rollback`, then `holdfast apply --key KEY`"
)
UNSAID = "it is not signed well enough"


class NoGround(Corrupt):
    """Nothing was followed before, and the node's own entry or the settings lack the signatures to begin with."""


def judge(
    standing: Followed,
    after: NodeManifest,
    witnesses: Sequence[Signers],
    contents: Mapping[str, bytes],
    number: int,
    now_s: float,
    rules: Rules = NEWEST,
) -> Followed:
    """`witnesses` signed the revision that brought `after`, and those before it whose manifests are missing. Any of
    them may have changed an address, so each must reach the grade that the change needs."""
    old, said, new = (entries(one) for one in (standing.in_force, standing.wanted, after))
    before, table = Table(old, dict(standing.stones)), Table(new)
    parked: dict[str, Parked] = {}
    for change in changes(before, table, contents, contents, {}, detailed=False, rules=rules):
        address = change.address
        if standing.wanted is not None and said.get(address) == new.get(address):
            # This revision does not touch it, so its signatures say nothing about it.
            parked[address] = standing.parked.get(address) or noted(address, "destroy", UNSAID, now_s)
            continue
        grade, why = demanded.asked(change, after.node, old, contents)
        trouble = unsound(address, before, table, contents) or lacking(
            demanded.covers(change, old, after, standing.in_force), grade, witnesses
        )
        if trouble is not None:
            parked[address] = noted(address, grade, f"{why}: {trouble}", now_s)
    for address in _idle_policies(old, new, parked):
        del parked[address]
    in_force = _mixed(old, after, parked) if parked else after
    handover = demanded.handed_over(standing, after, parked, lambda covers: lacking(covers, "apply", witnesses))
    in_force = msgspec.structs.replace(in_force, handover=handover)
    paired = pair_grades.judge(
        standing, after, in_force, contents, lambda covers, grade: lacking(covers, grade, witnesses)
    )
    reach = route_grades.judge(
        standing.in_force,
        standing.wanted,
        after,
        lambda covers, grade: lacking(covers, grade, witnesses),
        None if rules == "first" else demanded.naming(before, table, contents),
        paired.providers,
        paired.leading,
    )
    for place, why in (*reach.refused.items(), *paired.refused.items()):
        grade = "destroy" if place.startswith(("issuer.", "peer.")) else "apply"
        parked[place] = standing.parked.get(place) or noted(place, grade, why, now_s)
    in_force = msgspec.structs.replace(
        in_force,
        edge=reach.edge,
        issuers=reach.issuers,
        names=reach.names,
        pairs=paired.pairs,
        peers=reach.peers,
    )
    followed = entries(in_force)
    stones = {a: s for a, s in tombstones(before, followed, number).items() if kind_of(a) == "service"}
    return Followed(in_force, after, parked, stones)


def _idle_policies(old: Mapping[str, Entry], new: Mapping[str, Entry], parked: Mapping[str, Parked]) -> list[str]:
    """Policies that left with the last service they applied to on this node: they have no effect any more."""
    left = [a for a in parked if kind_of(a) == "policy" and a in old and a not in new]
    return [a for a in left if not any(_stays(bound, old, new, parked) for bound in old[a].applies_to or ())]


def _stays(bound: str, old: Mapping[str, Entry], new: Mapping[str, Entry], parked: Mapping[str, Parked]) -> bool:
    return bound == FLEET or bound in (old if bound in parked else new)


def noted(address: str, grade: Grade, why: str, now_s: float) -> Parked:
    return Parked(address, why, REMEDY.format(grade=grade, address=address), now_s)


def _mixed(old: Mapping[str, Entry], after: NodeManifest, parked: Mapping[str, Parked]) -> NodeManifest:
    def kept(now: Mapping[str, Entry], kind: str, at_home: bool | None = None) -> dict[str, Entry]:
        held = {a: old[a] for a in parked if a in old and kind_of(a) == kind}
        if at_home is not None:
            held = {a: e for a, e in held.items() if (e.node == after.node) == at_home}
        return dict(sorted({**{a: e for a, e in now.items() if a not in parked}, **held}.items()))

    def ground(address: str, now: Entry) -> Entry:
        if address not in parked:
            return now
        if address not in old:
            raise NoGround(
                f"{address} is not signed well enough to begin with: {parked[address].reason}",
                remedy=f"make a token that pins what is applied now: holdfast node invite {after.node} --replace",
                code="not_vouched",
            )
        return old[address]

    return msgspec.structs.replace(
        after,
        settings=ground(FLEET, Entry(after.settings)).digest,
        own=ground(f"node.{after.node}", after.own),
        services=kept(after.services, "service", at_home=True),
        standby=kept(after.standby, "service", at_home=False),
        policies=kept(after.policies, "policy"),
        storage=kept(after.storage, "storage"),
        more=_kept_others(old, after, parked),
        retired={a: stone for a, stone in after.retired.items() if a not in parked},
    )


def _kept_others(old: Mapping[str, Entry], after: NodeManifest, parked: Mapping[str, Parked]) -> dict[str, Entry]:
    """Of kinds that have no field of their own in a manifest: what is parked stays as it was."""
    held = {a: old[a] for a in parked if a in old and kind_of(a) not in OWN_FIELD}
    return dict(sorted({**{a: e for a, e in after.more.items() if a not in parked}, **held}.items()))


def differing(wanted: NodeManifest, in_force: NodeManifest) -> list[str]:
    one, other = entries(wanted), entries(in_force)
    apart = sorted(address for address in one.keys() | other.keys() if one.get(address) != other.get(address))
    return [*apart, *route_grades.differing(wanted, in_force), *pair_grades.differing(wanted, in_force)]
