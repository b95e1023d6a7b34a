"""What each finding means for `status --check`: damaged evidence, an error, or a note. A table."""

from collections.abc import Mapping

from holdfast.model.hub_status import StatusFinding

# Every other code is an error, also one that this release does not know. A reason beside each: nothing that is applied
# fails to serve because of it.
NOTES: Mapping[str, str] = {
    "drift": "the node only observes, as declared",
    "edge_route_leaving": "the hostname is not applied any more",
    "failed_over": "another node serves; the silent node is an error of its own",
    "high_water_behind": "the next commit raises the mark",
    "hub_limits": "requests are only delayed",
    "key_not_recorded": "the machine joined; an apply records it",
    "legacy_source": "the operator chose it",
    "node_revoked": "the operator revoked it; what does not run elsewhere is an error of its own",
    "orphan": "something runs in addition",
    "orphan_parked": "something runs in addition",
    "processing_timeout": "the work goes on",
    "public_dns_differs": "that record is made outside the fleet",
    "rollout_settling": "a deployment is under way",
    "run_awaited": "a deployment waits for a run of a schedule",
    "run_unknown": "something runs in addition",
    "still_moving": "the old node serves",
    "unconfirmed": "the service runs; the hub has not confirmed it since the boot",
    "undeclared_volume": "the service runs; its data is kept in no volume",
    "without_effect": "a declared key has no effect",
}
DAMAGED = frozenset({"audit_broken", "word_unverified"})  # besides findings of the ledger


def is_error(finding: StatusFinding) -> bool:
    return finding.code not in NOTES


def is_damaged(finding: StatusFinding) -> bool:
    """Stored or signed bytes are not what they were."""
    return finding.level in ("fatal", "resource") or finding.code in DAMAGED
