"""Examine a hub's state that came out of a file, before it becomes a hub."""

from msgspec import Struct

from holdfast.errors import Corrupt
from holdfast.hub import hub_key as pinned_key
from holdfast.hub.generations import stored
from holdfast.hub.ledger import reading
from holdfast.hub.ledger.ledger_check import examine
from holdfast.model.applied import Applied
from holdfast.model.hub_file import About
from holdfast.model.hub_generation import Generation, SignedGeneration
from holdfast.model.ids import Digest
from holdfast.model.revision import Head
from holdfast.ports.high_water import HighWater
from holdfast.ports.ledger_store import LedgerReader, LedgerStore


class Examined(Struct, frozen=True):
    applied: Applied
    generation: int  # of the hub that made the file
    revisions: int


def examined(
    store: LedgerReader, high_water: HighWater, about: About, fleet: Digest, hub_key: str | None, folder: str
) -> Examined:
    """`fleet` is the one that the caller expects: any person who knows a recipient can seal a file."""
    pinned, applied = reading.pin(store), reading.load(store).applied
    found = pinned.fleet if pinned is not None else applied.fleet_id if applied is not None else ""
    if found != fleet or about.fleet != fleet or applied is None:
        raise Corrupt(
            f"this file is of the fleet {found[:12] or about.fleet[:12]}…, not of {fleet[:12]}…",
            remedy="use the file of this fleet, or --fleet DIR with the directory of the other one",
            code="other_fleet",
        )
    verdict = examine(store, high_water)
    grave = [finding for finding in verdict.findings if finding.level != "warning" and finding.code != "superseded"]
    if grave:
        raise Corrupt(
            f"the ledger in this file does not hold: {grave[0].message}",
            remedy="use another file of this hub",
            code=grave[0].code,
        )
    pinned_key.check(applied, hub_key, f"{folder}/hub.key", folder)
    if hub_key is None or hub_key != about.hub_key or applied.head != about.head:
        raise Corrupt(
            "what this file says about itself is not what is in it", remedy="use another file", code="hub_file_damaged"
        )
    return Examined(applied, stored.number_of(stored.own(store)), verdict.revisions)


def generation_after(found: Examined, number: int | None, id: str, now_s: float) -> Generation:
    """One higher than the hub that made the file, or `number`, for a file that is older than another restore."""
    at = found.generation + 1 if number is None else number
    return Generation(found.applied.fleet_id, at, id, found.applied.head, int(now_s))


def missed(found: Head, known: Head | None) -> int:
    """How many revisions are known to be newer than those of the file."""
    return max(known.number - found.number, 0) if known is not None else 0


def begin(store: LedgerStore, high_water: HighWater, signed: SignedGeneration, head: Head) -> None:
    """The ledger of the new hub."""
    store.commit(stored.writing(signed))
    high_water.raise_to(head)
