"""Revisions of the fixed fleets, one after the other: plans, candidates and what is applied after each."""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.plan import Plan
from holdfast.model.revision import NAMESPACE, Candidate
from holdfast.planning.drain import plan_drain
from holdfast.planning.plan import Inputs, plan
from holdfast.planning.undeploy import plan_undeploy
from tests.fleets.agents import applied_after
from tests.fleets.build import joined, operator_signer
from tests.golden.fleets import PEOPLE, STAGES, TAGS, Stage, declared


class Revision(Struct, frozen=True):
    stage: Stage
    plan: Plan
    candidate: Candidate
    applied: Applied


def planned(stage: Stage, applied: Applied | None) -> Plan:
    if stage.undeploys:
        return plan_undeploy(stage.undeploys, applied)
    if stage.drains:
        assert applied is not None
        return plan_drain(stage.drains, applied, {})
    fleet = declared(stage)
    identities = joined(fleet) if stage.joined else {}
    return plan(fleet, applied, Inputs(image_digests=TAGS, identities=identities))


def revisions(fleet: str) -> Iterator[Revision]:
    applied: Applied | None = None
    for stage in STAGES[fleet]:
        found = planned(stage, applied)
        assert found.candidate is not None, f"{stage.name} changes nothing"
        names = PEOPLE if fleet != "small" else ("alice",)
        signatures = tuple(operator_signer(name)[1].sign(found.candidate.header, NAMESPACE) for name in names)
        candidate = msgspec.structs.replace(found.candidate, signatures=signatures)
        applied = applied_after(candidate, applied)
        yield Revision(stage, found, candidate, applied)


def named(revision: Revision) -> dict[str, bytes]:
    """Every stored content of a revision by the name it has in it."""
    applied = revision.applied
    found = {"header": revision.candidate.header, "table": revision.candidate.table}
    for address, entry in sorted(applied.table.entries.items()):
        found[f"entry {address}"] = canonical.encode(entry)
        found[f"content {address}"] = applied.contents[entry.digest]
        found |= {f"secret {name} of {address}": applied.contents[d] for name, d in sorted(entry.secrets.items())}
    for address, stone in sorted(applied.table.tombstones.items()):
        found[f"tombstone {address}"] = canonical.encode(stone)
    for node, digest in sorted(applied.header.manifests.items()):
        found[f"manifest {node}"] = applied.contents[digest]
    return found
