"""Boot from the applied revision only: load, verify, quarantine. Takes no lock, writes nothing (O-34)."""

from collections.abc import Callable

from msgspec import Struct

from holdfast.errors import Corrupt, HoldfastError
from holdfast.hub.generations import stored as generations
from holdfast.hub.ledger import reading
from holdfast.ledger.boot_findings import (
    Finding,
    as_refusal,
    content_findings,
    from_error,
    head_findings,
    recovery_findings,
    refusal,
    superseded,
)
from holdfast.model import canonical
from holdfast.model.applied import head_of, needed
from holdfast.model.record import Link
from holdfast.model.revision import Head, digest_of
from holdfast.model.trust import Trust
from holdfast.ports.high_water import HighWater
from holdfast.ports.ledger_store import LedgerReader, LedgerStore
from holdfast.trust.chain import Anchor, step

EMPTY = reading.Loaded(None, 0)


class Booted(Struct, frozen=True):
    loaded: reading.Loaded
    findings: tuple[Finding, ...]


def inspect(store: LedgerReader, high_water: HighWater) -> Booted:
    """Every row of the boot table that applies to this ledger."""
    try:
        loaded = reading.load(store)
        found = recovery_findings(reading.recoveries(store))
        if (newer := generations.newer(store)) is not None:
            found.append(superseded(newer))
        found += head_findings(head_of(loaded.applied), high_water.read())
        if loaded.applied is None:
            return Booted(loaded, tuple(found))
        _check_head_signature(store, loaded)
        stored = reading.stored_digests(store, needed(loaded.applied))
        found += content_findings(loaded.applied.table, loaded.applied.header.manifests, stored)
    except Corrupt as trouble:
        return Booted(EMPTY, (from_error(trouble),))
    return Booted(loaded, tuple(found))


def _check_head_signature(store: LedgerReader, loaded: reading.Loaded) -> None:
    """The head must be signed under the trust before it; older links were checked when they were head."""
    applied = loaded.applied
    if applied is None:
        return
    link = reading.link_of(store, applied.head.number)
    pinned = reading.pin(store)
    fleet = pinned.fleet if pinned else applied.fleet_id
    if applied.head.number == 1:
        step(Anchor(fleet, head_of(None), None), link)
        return
    before = reading.link_of(store, applied.head.number - 1)
    anchor = Anchor(fleet, Head(before.header.number, digest_of(before.header_bytes)), _trust(before))
    step(anchor, link)


def boot(store: LedgerReader, high_water: HighWater, strict: bool) -> Booted:
    """Ready to serve, or the typed refusal that keeps every port closed."""
    booted = inspect(store, high_water)
    trouble = refusal(booted.findings, strict)
    if trouble is not None:
        raise trouble
    return booted


def boot_in_order(
    *,
    reader: Callable[[], LedgerReader],
    high_water: HighWater,
    lock: Callable[[], None],
    store: Callable[[], LedgerStore],
    strict: bool,
) -> tuple[Booted, LedgerStore]:
    """Verify read-only first; the ledger is opened for writing only once it is fit to be served."""
    try:
        opened = reader()
    except HoldfastError as trouble:
        raise as_refusal(trouble) from trouble
    try:
        booted = boot(opened, high_water, strict)
    finally:
        opened.close()
    # Not the ledger's lock, which an `apply` may hold: two hubs would each write the one audit log. Only now,
    # because a boot that is refused leaves the state directory as it is.
    lock()
    return booted, store()


def _trust(link: Link) -> Trust:
    return canonical.decode(link.trust_bytes, Trust, f"the trust of revision {link.header.number}")
