"""The findings of a hub's boot check (O-33, R11): three levels, each finding with a remedy. Pure.

`fatal` refuses to boot and opens no port; `resource` quarantines exactly one address; `warning` is only shown.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import UNSET, Struct

from holdfast.errors import Corrupt, HoldfastError
from holdfast.model.hub_generation import Generation
from holdfast.model.ids import FLEET, TRUST, kind_of
from holdfast.model.record import Recovery
from holdfast.model.revision import Head, Table

Level = Literal["fatal", "resource", "warning"]


class Finding(Struct, frozen=True, omit_defaults=True):
    code: str
    level: Level
    message: str
    remedy: str
    address: str = ""


APPLY_AGAIN = "apply the fleet directory again (`holdfast apply`), which stores the content; then restart the hub"

# code → (level, what to do). Every code a boot can report; the test walks this table.
ROWS: dict[str, tuple[Level, str]] = {
    "ledger_missing": (
        "fatal",
        "restore a backup; or begin with `holdfast hub init --trust FINGERPRINT --state-dir DIR`, then "
        "`holdfast apply --hub DIR`",
    ),
    "ledger_unreadable": ("fatal", "restore the state directory from a backup"),
    "ledger_truncated": ("fatal", "restore the state directory from a backup"),
    "ledger_foreign": ("fatal", "check --state-dir: that file is not a Holdfast ledger"),
    "ledger_newer": ("fatal", "install the release that wrote this ledger, or a newer one"),
    "ledger_recovery_pending": ("fatal", "run `holdfast hub check --sweep --state-dir DIR`; then start the hub"),
    "high_water_damaged": (
        "fatal",
        "compare the head (`holdfast history`) with the head that other operators and the agents have; if it is not "
        "older, remove the file high-water from the state directory: the next commit writes it again",
    ),
    "head_damaged": ("fatal", "restore the state directory from a backup"),
    "chain_broken": ("fatal", "restore the state directory from a backup; do not apply on top"),
    "signature_invalid": ("fatal", "restore the state directory from a backup: signed bytes were changed"),
    "other_fleet": ("fatal", "check --state-dir: this ledger belongs to another fleet"),
    "rolled_back": (
        "fatal",
        "restore the newest state directory: agents have seen a later revision than this ledger has",
    ),
    "superseded": (
        "fatal",
        "use the restored hub. To make this machine the hub again: `holdfast hub backup` on the machine of the other, "
        "move this state directory away, and `holdfast hub restore FILE` here. If the restored hub is lost, with every "
        "file of it: `holdfast hub restore FILE --generation N`, with a higher N than its generation",
    ),
    "forked": ("fatal", "restore the state directory from a backup: two revisions have the same number"),
    "blob_missing": ("resource", APPLY_AGAIN),
    "blob_damaged": ("resource", APPLY_AGAIN),
    "manifest_missing": ("resource", APPLY_AGAIN),
    "manifest_damaged": ("resource", APPLY_AGAIN),
    "secret_missing": ("resource", APPLY_AGAIN),
    "binding_missing": ("resource", "apply the fleet directory again (`holdfast apply`), which records applies_to"),
    "high_water_behind": ("warning", "check the disk of the state directory; the next commit raises the mark"),
    "revision_behind": ("warning", "restart the hub: another process committed a newer revision to its ledger"),
}

# Codes of contents that the ledger does not have.
CONTENT_CODES = ("blob_missing", "blob_damaged")
SECRET_LOST = "secret_missing"  # noqa: S105 (the name of a finding)
MANIFEST_CODES = ("manifest_missing", "manifest_damaged")
LOST_CODES = frozenset((*CONTENT_CODES, SECRET_LOST, *MANIFEST_CODES))

# Without these the hub can serve nothing, so their damage is fatal.
GLOBAL = (FLEET, TRUST)


def finding(code: str, message: str, address: str = "") -> Finding:
    level, remedy = ROWS[code]
    return Finding(code, "fatal" if address in GLOBAL else level, message, remedy, address)


def recovery_findings(pending: Sequence[Recovery]) -> list[Finding]:
    return [
        finding("ledger_recovery_pending", f"a commit on top of revision {r.base} was interrupted (record {r.id})")
        for r in pending
    ]


def head_findings(head: Head, high_water: Head | None) -> list[Finding]:
    """A head older than one already seen is a rollback; another digest under the same number is a fork."""
    if high_water is None or head.number > high_water.number:
        return []
    if head.number < high_water.number:
        text = f"the ledger is at revision {head.number}, but revision {high_water.number} was already committed here"
        return [finding("rolled_back", text)]
    if head.digest != high_water.digest:
        return [finding("forked", f"revision {head.number} is not the one that was committed here")]
    return []


def superseded(newer: Generation) -> Finding:
    text = f"this hub was replaced: operators restored generation {newer.number} of it, and nodes follow that one"
    return finding("superseded", text)


def content_findings(
    table: Table, manifests: Mapping[str, str], digests: Iterable[tuple[str, str | None]]
) -> list[Finding]:
    """`manifests`: node → digest. `digests` pairs each with the digest of the bytes stored under it (or None)."""
    actual: Mapping[str, str | None] = dict(digests)
    found = []
    for address, entry in table.entries.items():
        stored = actual.get(entry.digest)
        if stored is None:
            found.append(finding("blob_missing", f"the content of {address} is not in the ledger", address))
        elif stored != entry.digest:
            found.append(finding("blob_damaged", f"the content of {address} does not match its digest", address))
        elif lost := [name for name, digest in entry.secrets.items() if actual.get(digest) != digest]:
            text = f"the secret {lost[0]} of {address} is missing from the ledger or damaged"
            found.append(finding(SECRET_LOST, text, address))
        elif kind_of(address) == "policy" and (entry.applies_to is UNSET or not entry.applies_to):
            found.append(finding("binding_missing", f"the ledger does not record where {address} applies", address))
    for node, digest in manifests.items():
        stored = actual.get(digest)
        if stored is None:
            found.append(finding("manifest_missing", f"the manifest of {node} is not in the ledger", f"node.{node}"))
        elif stored != digest:
            text = f"the manifest of {node} does not match its digest"
            found.append(finding("manifest_damaged", text, f"node.{node}"))
    return found


def lost_digest(found: Finding, table: Table, manifests: Mapping[str, str]) -> str | None:
    """Digest of the content that this finding misses; None for other findings."""
    if found.code in CONTENT_CODES and found.address in table.entries:
        return table.entries[found.address].digest
    return manifests.get(found.address.removeprefix("node.")) if found.code in MANIFEST_CODES else None


def from_error(trouble: HoldfastError) -> Finding:
    """Errors of lower rooms become rows of the same table."""
    code = trouble.code if trouble.code in ROWS else "head_damaged"
    return Finding(code, "fatal", trouble.message, ROWS[code][1])


def as_refusal(trouble: HoldfastError) -> HoldfastError:
    """A file that is no ledger is a wrong argument for a command, and damage for the hub that serves it."""
    return refusal([from_error(trouble)], strict=False) or trouble if trouble.code in ROWS else trouble


def quarantined(findings: Iterable[Finding]) -> dict[str, Finding]:
    return {f.address: f for f in findings if f.level == "resource"}


def refusal(findings: Iterable[Finding], strict: bool) -> Corrupt | None:
    """The error that keeps the hub from booting, or None. `--strict` also refuses on quarantined resources."""
    grave = [f for f in findings if f.level == "fatal" or (strict and f.level == "resource")]
    if not grave:
        return None
    more = f" (and {len(grave) - 1} more: holdfast hub check)" if len(grave) > 1 else ""
    return Corrupt(grave[0].message + more, remedy=grave[0].remedy, code=grave[0].code)
